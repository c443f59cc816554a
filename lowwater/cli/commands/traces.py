"""The command `traces`: sends the runs of a lake as traces to a collector of OpenTelemetry."""

from __future__ import annotations

from pathlib import Path, PurePath

import click

from lowwater.cli import options
from lowwater.errors import LowwaterError
from lowwater.signals import pause, until_stopped
from lowwater.terminal import say


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
@click.option("--to", "address", required=True, metavar="URL", help="The collector, OTLP over HTTP.")
@click.option("--since", type=options.INSTANT, help="Runs that ended after this time, ISO 8601; else all of them.")
@click.option("--follow", is_flag=True, help="Send each run when it has ended, until Ctrl-C or SIGTERM.")
@click.option("--every", default="10s", type=options.DURATION, help="Time between two looks.", show_default=True)
def traces(lake: PurePath, queries: Path, address: str, since: int | None, follow: bool, every: int) -> None:
    """Sends runs as traces: a run is a trace; stages, LFTAs, queries, operators and heartbeats are its spans.

    \b
    They are read from the ledgers after a run, so a collector that does not answer holds up nothing. A run that is sent
    again has the same ids. Nothing is sent unless this command runs.
    Example:
      lowwater traces --lake var/lake --to http://localhost:4318 --follow
    """
    from lowwater.extras import require

    require("lowwater traces", "metrics")
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.schedule.link_queries import jobs
    from lowwater.replay.telemetry.export import TraceSender
    from lowwater.replay.telemetry.spans import traces_since

    def tell(name: str, error: LowwaterError) -> None:
        say(f"query set {name}: {error}; its runs have no heartbeats", err=True)

    if every <= 0:
        raise click.BadParameter("--every must be above 0")
    opened, at, sent = lake_to_read(lake), since or 0, 0
    sender = TraceSender(address)
    with until_stopped() as stopped:
        while not stopped():
            for run, spans in traces_since(opened, jobs(lake, queries, tell), at):
                sender.send(spans)
                at, sent = max(at, run.finished), sent + 1
            if not follow:
                break
            pause(every / 1e9, stopped)
    sender.close()
    say(f"{sent:,} {'run' if sent == 1 else 'runs'} sent to {address}", err=True)
