"""The command `export`: writes packets of the lake to a capture file, atomically."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lowwater.cli import options
from lowwater.errors import LowwaterError
from lowwater.terminal import Terminal, say

if TYPE_CHECKING:
    from lowwater.replay.packets.capture_export import Selection


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
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
    lake: PurePath,
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
    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")
    _export(lake, out, links, start, end, where, protocol, form, force)


def _export(
    root: PurePath,
    out: Path,
    names: Sequence[str],
    start: int | None,
    end: int | None,
    where: str | None,
    protocol: str,
    form: str | None,
    force: bool,
) -> None:
    """Writes the selected packets to a file or to standard output, and prints how many there are and how many are cut.

    Args:
        root: folder of the lake.
        out: the file; `-` for standard output.
        names: links and sets; empty for all links.
        start: first timestamp, ns since the epoch; None for no bound.
        end: end of the timestamps, ns since the epoch, exclusive; None for no bound.
        where: a GSQL condition; None for every packet.
        protocol: protocol of the packets and of the columns in `where`.
        form: `pcap` or `pcapng`; None to choose by the name of the file.
        force: whether to replace an existing file.

    Raises:
        LowwaterError: the file exists already, or cannot be written; see also `select` and `write_selection`.
    """
    to_stdout = str(out) == "-"
    if to_stdout and sys.stdout.isatty():
        raise LowwaterError("--out -: a capture is not written to a terminal", "pipe it into a tool, or name a file")
    if not to_stdout and out.exists():
        if not out.is_file():
            raise LowwaterError(f"{out}: is not a file", "name a file, or - to write to standard output")
        if not force:
            raise LowwaterError(f"{out}: already exists", "give another name, or --force to replace it")
    from lowwater.config import load_config
    from lowwater.lake.layout import open_lake
    from lowwater.plan.temporal import END_OF_TIME
    from lowwater.replay.packets.capture_export import exported_links, select, write_selection
    from lowwater.replay.packets.predicate import read_predicate

    predicate = read_predicate(where, protocol)
    lake, config = open_lake(root, make=False), load_config(root)
    links = exported_links(lake, config, names)
    with Terminal(stderr=True).working("selecting packets") as working:

        def progress(count: int) -> None:
            working(f"selecting packets: {count:,}")

        until = END_OF_TIME if end is None else end
        selection = select(lake, config, links, predicate, start or 0, until, progress)
        form = form or _format(selection, out)
        working(f"writing {selection.packets:,} packets")
        if to_stdout:
            write_selection(selection, form, sys.stdout.buffer.write)
            sys.stdout.buffer.flush()
        else:
            _write(selection, form, out)
    packets = "1 packet" if selection.packets == 1 else f"{selection.packets:,} packets"
    say(f"{packets} to {'standard output' if to_stdout else out}", err=True)
    if selection.cut:
        message = (
            f"{selection.cut:,} of {packets} are truncated: the lake keeps at most {selection.kept:,} bytes of them"
        )
        say(message, err=True)


def _format(selection: Selection, out: Path) -> str:
    """Returns the format by the suffix of the file; else pcap for one interface, pcapng for several."""
    suffix = out.suffix.removeprefix(".").lower()
    return suffix if suffix in ("pcap", "pcapng") else "pcap" if len(selection.interfaces) == 1 else "pcapng"


def _write(selection: Selection, form: str, out: Path) -> None:
    from lowwater.replay.packets.capture_export import write_selection

    unfinished = out.with_name(f".{out.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        with unfinished.open("xb", buffering=1 << 20) as file:
            write_selection(selection, form, file.write)
        unfinished.replace(out)
    except OSError as error:
        raise LowwaterError(f"{out}: cannot be written: {error.strerror}", "check its folder and the disk") from error
    finally:
        unfinished.unlink(missing_ok=True)
