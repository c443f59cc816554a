"""The commands that show what captures hold, and give packets back as one: `inspect` and `export`.

Beside `cli.main`, which takes them up; as there, what a command does is imported when it runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lowwater.cli import options


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True), metavar="FILE...")
@click.option(
    "--format",
    "form",
    default="table",
    type=click.Choice(["table", "json", "csv"]),
    help="json is described by docs/inspect.schema.json.",
    show_default=True,
)
@click.option(
    "--max-jump",
    type=options.DURATION,
    help="How far ahead of its neighbours a timestamp may be; default skew + 60 s.",
)
@click.option(
    "--skew", default="1s", type=options.DURATION, help="The disorder whose refusals are counted.", show_default=True
)
@options.SPREADSHEET
def inspect(files: tuple[Path, ...], form: str, max_jump: int | None, skew: int, spreadsheet: bool) -> None:
    """Says what captures hold: packets, times, rates, order, gaps, protocols, damage. No lake.

    \b
    A file that cannot be read is an error of its own: the others are still inspected, and the exit code is 1.
    The file - is standard input.
    Example:
      lowwater inspect captures/main1/*.pcap --format json
    """
    from lowwater.cli.inspect import inspect_files

    if spreadsheet and form != "csv":
        raise click.UsageError("--spreadsheet goes with --format csv")
    if not inspect_files(files, form, max_jump, skew, spreadsheet):
        sys.exit(1)


@click.command()
@click.option("--lake", required=True, type=options.FOLDER, help="The lake's folder.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, allow_dash=True), help="The capture to write; - for stdout."
)
@click.option("--link", "links", multiple=True, metavar="NAME", help="A link or a set; repeats; default all links.")
@click.option("--from", "start", type=options.INSTANT, help="First timestamp, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="End of the timestamps, ISO 8601, exclusive.")
@click.option("--where", metavar="PREDICATE", help="A GSQL condition; default every packet.")
@click.option("--protocol", default="ETH", help="Whose packets, and whose columns --where names.", show_default=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["pcap", "pcapng"]),
    help="Default: as the name ends, else pcap for one interface, pcapng for several.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def export(
    lake: Path,
    out: Path,
    links: tuple[str, ...],
    start: int | None,
    end: int | None,
    where: str | None,
    protocol: str,
    form: str | None,
    force: bool,
) -> None:
    """Gives back a capture of the packets that a condition selects, with the bytes that ingest kept of them.

    \b
    Packets of one link come in the order of its captures, of several links in the order of arrival.
    Example:
      lowwater export --lake var/lake --link main1 --where "destPort = 53" --out dns.pcap
    """
    from lowwater.cli.export import export_packets

    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")
    export_packets(lake, out, links, start, end, where, protocol, form, force)
