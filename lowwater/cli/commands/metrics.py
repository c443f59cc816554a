"""The command `metrics`: prints, writes or serves the metrics of a lake for Prometheus."""

from __future__ import annotations

from math import inf
from pathlib import Path, PurePath

import click

from lowwater.cli import options
from lowwater.signals import pause, until_stopped
from lowwater.terminal import say


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
@click.option("--textfile", type=click.Path(dir_okay=False, path_type=Path), help="Write them to a file NAME.prom.")
@click.option("--listen", metavar="[HOST:]PORT", help="Serve them at /metrics until Ctrl-C or SIGTERM.")
@click.option("--every", type=options.DURATION, help="With --textfile: write again after this time, until stopped.")
def metrics(lake: PurePath, queries: Path, textfile: Path | None, listen: str | None, every: int | None) -> None:
    """Shows the metrics of a lake in the text format of Prometheus.

    \b
    They are read from the ledgers: links, streams, subscribers, intervals, audits, stages. Nothing is collected unless
    this command runs. docs/metrics.md lists them, with a dashboard and alerts.
    Example:
      lowwater metrics --lake var/lake --textfile /var/lib/node_exporter/lowwater.prom --every 30s
      lowwater metrics --lake var/lake --listen 127.0.0.1:9464
    """
    from lowwater.extras import require

    require("lowwater metrics", "metrics")
    from lowwater.replay.telemetry.collector import metrics_text, serving

    if textfile is not None and listen is not None:
        raise click.UsageError("--textfile and --listen exclude each other")
    if every is not None and (textfile is None or every <= 0):
        raise click.UsageError("--every goes with --textfile, and is above 0")
    if listen is not None:
        host, port = _address(listen)
        metrics_text(lake, queries)  # an error now is one of the user's
        with serving(lake, queries, host, port) as at, until_stopped() as stopped:
            say(f"http://{host}:{at}/metrics", err=True)
            pause(inf, stopped)
    elif textfile is None:
        say(metrics_text(lake, queries), nl=False)
    else:
        _write(lake, queries, textfile, every)


def _write(lake: PurePath, queries: Path, textfile: Path, every: int | None) -> None:
    from lowwater.replay.telemetry.collector import write_textfile

    if textfile.suffix != ".prom":
        raise click.BadParameter(f"--textfile {textfile}: the node exporter reads files whose names end with .prom")
    with until_stopped() as stopped:
        while not stopped():
            write_textfile(lake, queries, textfile)
            if every is None:
                return
            pause(every / 1e9, stopped)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"--listen {text}: write for example 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)
