"""What `lowwater generate` and `lowwater ingest` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from lowwater.capture.generate import generate
from lowwater.cli import options
from lowwater.config import Config, load_config
from lowwater.errors import ConfigError, LowwaterError
from lowwater.instants import format_instant
from lowwater.terminal import open_console, say, styled

if TYPE_CHECKING:
    from lowwater.lake.ingestion.ingest import IngestResult
    from lowwater.lake.layout import Lake


def generate_captures(
    out: Path,
    start: int,
    hours: int,
    links: str,
    rate: float,
    skew: Mapping[str, float],
    offset: Mapping[str, float],
    seed: int,
) -> None:
    """Writes the captures and lists them.

    Args:
        out: folder, with one for each link in it.
        start: first instant, on the hour, ns since the epoch.
        hours: how many hours of traffic.
        links: names of links, separated by commas.
        rate: packets a second of a main link.
        skew: link -> disorder up to this many seconds; none for the others.
        offset: link -> seconds by which its clock is ahead.
        seed: equal seeds give equal files.
    """
    names = [name.strip() for name in links.split(",") if name.strip()]
    if not names:
        raise ConfigError("--links names no link", "write for example --links main1,main2,control")
    console = open_console()
    with console.working(f"generating {hours} h of {len(names)} links"):
        written = generate(out, start, hours, names, rate, skew, offset, seed)
    table = Table("capture", "covers", "packets", "violations", "note", box=None)
    for each in written:
        covers = f"{format_instant(each.start)}/{format_instant(each.end)}"
        note = "cut inside its last record" if each.cut else "" if each.packets else "empty"
        table.add_row(str(each.path), covers, f"{each.packets:,}", str(each.violations), note)
    console.print(table)


def ingest_captures(
    lake: Path, link: str, covers: tuple[int, int] | None, growing: bool, files: Sequence[Path]
) -> None:
    """Ingests captures of one link and says what became of each.

    Args:
        lake: folder of the lake, made where it is absent.
        link: name of the link on which all the files were taken.
        covers: what the one file covers, ns since the epoch, end exclusive; None to find it out.
        growing: whether the files are still written.
        files: captures, in any order.
    """
    from lowwater.lake.ingestion.ingest import ingest
    from lowwater.lake.layout import open_lake
    from lowwater.replay.progress import Progress
    from lowwater.replay.sessions import Sessions
    from lowwater.replay.stages.runners import ingest_runner

    config = load_config(lake)
    opened = open_lake(lake)
    # A link that is not configured, or whose records are no packets, is refused before a session is started.
    if config.link(link).kind != "pcap":
        kind = config.link(link).kind
        raise ConfigError(f'links.{link}: links of kind "{kind}" are not read yet', "convert the records to pcap")
    progress = Progress()
    sessions = Sessions("lowwater ingest", progress)
    with progress.stage("ingest", f"of {link}"):
        runner = ingest_runner(files, lambda: sessions.spark)
        results = ingest(opened, link, files, config, covers, runner, growing)
    _show(results, opened, config)
    _tell_idle_keys(opened, config, link)


def ingest_patterns(lake: Path, link: str | None, start: int | None, end: int | None) -> bool:
    """Ingests the files of the links' patterns that are new or have changed, link by link; whether all went well.

    Args:
        lake: folder of the lake.
        link: name of the only link to look at; None for all that have a pattern.
        start: files that cover only time before it are left out, ns since the epoch; None for no bound.
        end: files that cover only time from it on are left out, ns; None for no bound.

    Raises:
        ConfigError: no link has a pattern.
    """
    from lowwater.lake.ingestion.arrivals import arrivals
    from lowwater.lake.ingestion.ingest import ingest
    from lowwater.lake.layout import open_lake
    from lowwater.replay.progress import Progress
    from lowwater.replay.sessions import Sessions
    from lowwater.replay.stages.runners import ingest_runner

    config = load_config(lake)
    opened = open_lake(lake)
    progress = Progress()
    sessions = Sessions("lowwater ingest", progress)
    sound = True
    taken: list[IngestResult] = []
    for name, found in arrivals(opened, config, link, start, end).items():
        known = f"{len(found.unchanged):,} known" if found.unchanged else ""
        if not found.new:
            progress.say(f"{name}: no new file" + (f", {known}" if known else f" of {found.pattern}"))
            continue
        try:
            with progress.stage("ingest", f"of {name}, {len(found.new):,} new" + (f", {known}" if known else "")):
                runner = ingest_runner(found.new, lambda: sessions.spark)
                taken += ingest(opened, name, found.new, config, None, runner)
        except LowwaterError as error:
            sound = False
            say(f"error: {error}", err=True)
    if taken:
        _show(taken, opened, config, whole=False)
    _tell_idle_keys(opened, config, *([link] if link is not None else sorted(config.links)))
    return sound


def _tell_idle_keys(lake: Lake, config: Config, *links: str) -> None:
    """Tells of every key of `covers` that fits no file of its link, neither on disk nor in the lake."""
    from lowwater.lake.files.rotation import idle_keys
    from lowwater.lake.ingestion.replacement import LedgerFiles

    for link in links:
        if config.link(link).covers:
            held = [Path(each.row.path) for each in LedgerFiles(lake, link, link.partition("/")[0]).all]
            for line in idle_keys(link, config.link(link), held):
                say(f"note: {line}", err=True)


def _show(results: Sequence[IngestResult], lake: Lake, config: Config, whole: bool = True) -> None:
    """Lists what became of files, with the records that lie outside (A1).

    By their whole paths or by their names, without what all of them begin with.
    """
    from lowwater.lake.ledgers.outside import lake_records_outside, outside_words

    apart = {
        (link, capture.attempt): count
        for link in sorted({row.link for each in results for row in each.captures})
        for capture, count in lake_records_outside(lake, link, config.link(link))
    }
    names = [str(each.path) if whole else each.path.name for each in results]
    shared = options.shared_beginning(names)
    table = Table("capture", "link", "state", "packets", "malformed", "outside", "covers", "note", box=None)
    for column in table.columns:
        column.overflow = "fold"  # what tells names apart may be anywhere in them
        column.no_wrap = column.header == "covers"
    for each, name in zip(results, names, strict=True):
        for row in each.captures:
            covered = f"{format_instant(row.covers_from)}/{format_instant(row.covers_to)}"
            count = apart.get((row.link, row.attempt))
            beyond = "" if count is None else outside_words(row, count, config.link(row.link))
            numbers = f"{row.packets:,}", f"{row.malformed:,}", f"{count.all if count else 0:,}"
            notes = "; ".join(text for text in (each.note, beyond) if text)
            cells = name[len(shared) :], row.link, each.state, *numbers, covered, notes
            table.add_row(*(styled(cell) for cell in cells))
    if shared:
        say(f"captures are below, or begin with, {shared}")
    open_console().print(table)
