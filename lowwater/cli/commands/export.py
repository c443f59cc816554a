"""The command `export`: writes packets of the lake to a capture, or other records to a table, atomically."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

import click

from lowwater.cli import options
from lowwater.errors import LowwaterError
from lowwater.terminal import Terminal, say

if TYPE_CHECKING:
    from lowwater.config import Config
    from lowwater.lake.layout import Lake
    from lowwater.replay.packets.capture_export import Selection

CAPTURES, TABLES = ("pcap", "pcapng"), ("csv", "json", "parquet")


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, allow_dash=True), help="The file to write; - for stdout."
)
@click.option("--link", "links", multiple=True, metavar="NAME", help="A link or a set; repeats; default all links.")
@click.option("--from", "start", type=options.INSTANT, help="First timestamp, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="End of the timestamps, ISO 8601, exclusive.")
@click.option("--where", metavar="PREDICATE", help="A GSQL condition; default every packet.")
@click.option("--protocol", help="Whose packets, and whose columns --where names; default ETH, or that of the link.")
@click.option(
    "--format",
    "form",
    type=click.Choice([*CAPTURES, *TABLES]),
    help="Default: as the name ends, else pcap for one interface, pcapng for several; csv for records.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@options.SPREADSHEET
def export(
    lake: PurePath,
    out: Path,
    links: tuple[str, ...],
    start: int | None,
    end: int | None,
    where: str | None,
    protocol: str | None,
    form: str | None,
    force: bool,
    spreadsheet: bool,
) -> None:
    """Gives back a capture of the packets that a condition selects, with the bytes that ingest kept of them.

    \b
    Packets of one link come in the order of its captures, of several links in the order of arrival. Of a link of CSV,
    JSON lines or parquet, it gives back the records, with the fields of its protocol.
    Example:
      lowwater export --lake var/lake --link main1 --where "destPort = 53" --out dns.pcap
      lowwater export --lake var/lake --link flows --where "bytes > 1000000" --out large.parquet
    """
    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")
    _export(lake, out, links, start, end, where, protocol, form, force, spreadsheet)


def _export(
    root: PurePath,
    out: Path,
    names: Sequence[str],
    start: int | None,
    end: int | None,
    where: str | None,
    protocol: str | None,
    form: str | None,
    force: bool,
    spreadsheet: bool,
) -> None:
    """Writes the selected packets or records to a file or to standard output, and prints their number.

    Args:
        root: folder of the lake.
        out: the file; `-` for standard output.
        names: links and sets; empty for all links.
        start: first timestamp, ns since the epoch; None for no bound.
        end: end of the timestamps, ns since the epoch, exclusive; None for no bound.
        where: a GSQL condition; None for every packet.
        protocol: protocol of the packets and of the columns in `where`; None for ETH.
        form: one of CAPTURES and TABLES; None to choose by the name of the file.
        force: whether to replace an existing file.
        spreadsheet: whether texts in CSV are made safe for a spreadsheet.

    Raises:
        LowwaterError: the file exists already, or cannot be written; see also `select` and `write_selection`.
    """
    _check_target(out, force)
    from lowwater.config import load_config
    from lowwater.lake.layout import lake_to_read
    from lowwater.plan.temporal import END_OF_TIME
    from lowwater.replay.packets.capture_export import exported_links, select
    from lowwater.replay.packets.predicate import read_predicate

    lake, config = lake_to_read(root), load_config(root)
    links = exported_links(lake, config, names)
    until = END_OF_TIME if end is None else end
    if config.link(links[0]).kind != "pcap":
        _check_records(links[0], form, protocol)
        _export_records(lake, config, links[0], where, start or 0, until, form, out, spreadsheet)
        return
    if spreadsheet:
        raise click.UsageError("--spreadsheet goes with --format csv, of links whose records are no packets")
    if form in TABLES:
        raise LowwaterError(f"--format {form}: link {links[0]!r} has packets", "give --format pcap or pcapng")
    predicate = read_predicate(where, protocol or "ETH")
    with Terminal(stderr=True).working("selecting packets") as working:

        def progress(count: int) -> None:
            working(f"selecting packets: {count:,}")

        selection = select(lake, config, links, predicate, start or 0, until, progress)
        working(f"writing {selection.packets:,} packets")
        _write(out, _capture_writer(selection, form or _format(selection, out)))
    packets = "1 packet" if selection.packets == 1 else f"{selection.packets:,} packets"
    say(f"{packets} to {_shown(out)}", err=True)
    if selection.cut:
        message = (
            f"{selection.cut:,} of {packets} are truncated: the lake keeps at most {selection.kept:,} bytes of them"
        )
        say(message, err=True)


def _check_target(out: Path, force: bool) -> None:
    if str(out) == "-":
        if sys.stdout.isatty():
            raise LowwaterError(
                "--out -: a capture is not written to a terminal", "pipe it into a tool, or name a file"
            )
    elif out.exists():
        if not out.is_file():
            raise LowwaterError(f"{out}: is not a file", "name a file, or - to write to standard output")
        if not force:
            raise LowwaterError(f"{out}: already exists", "give another name, or --force to replace it")


def _check_records(link: str, form: str | None, protocol: str | None) -> None:
    if form in CAPTURES:
        raise LowwaterError(
            f"--format {form}: link {link!r} has records that are no packets", "give --format csv, json or parquet"
        )
    if protocol is not None:
        raise LowwaterError(
            f"--protocol {protocol}: link {link!r} has the protocol of its settings", "leave --protocol out"
        )


def _export_records(
    lake: Lake,
    config: Config,
    link: str,
    where: str | None,
    start: int,
    end: int,
    form: str | None,
    out: Path,
    spreadsheet: bool,
) -> None:
    """Writes the selected records of a link, and prints how many there are.

    Args:
        lake: the open lake.
        config: its settings.
        link: the link.
        where: a GSQL condition; None for every record.
        start: first timestamp, ns.
        end: end of the timestamps, ns, exclusive.
        form: one of TABLES; None to choose by the name of the file.
        out: the file; `-` for standard output.
    """
    from lowwater.replay.packets.record_export import select_records, write_records

    selection = select_records(lake, config, link, where, start, end)
    suffix = {"jsonl": "json", "ndjson": "json"}.get(out.suffix[1:].lower(), out.suffix[1:].lower())
    chosen = form or (suffix if suffix in TABLES else "csv")
    if spreadsheet and chosen != "csv":
        raise click.UsageError("--spreadsheet goes with --format csv")
    count = 0
    with Terminal(stderr=True).working("writing records") as working:

        def write(file: IO[bytes]) -> None:
            nonlocal count
            count = write_records(
                selection, chosen, file, lambda records: working(f"writing records: {records:,}"), spreadsheet
            )

        _write(out, write)
    say(f"{'1 record' if count == 1 else f'{count:,} records'} to {_shown(out)}", err=True)


def _shown(out: Path) -> str:
    return "standard output" if str(out) == "-" else str(out)


def _capture_writer(selection: Selection, form: str) -> Callable[[IO[bytes]], None]:
    from lowwater.replay.packets.capture_export import write_selection

    return lambda file: write_selection(selection, form, file.write)


def _format(selection: Selection, out: Path) -> str:
    """Returns the format by the suffix of the file; else pcap for one interface, pcapng for several."""
    suffix = out.suffix.removeprefix(".").lower()
    return suffix if suffix in ("pcap", "pcapng") else "pcap" if len(selection.interfaces) == 1 else "pcapng"


def _write(out: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Writes to a file that appears once it is whole, or to standard output."""
    if str(out) == "-":
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    unfinished = out.with_name(f".{out.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        with unfinished.open("xb", buffering=1 << 20) as file:
            write(file)
        unfinished.replace(out)
    except OSError as error:
        raise LowwaterError(f"{out}: cannot be written: {error.strerror}", "check its folder and the disk") from error
    finally:
        unfinished.unlink(missing_ok=True)
