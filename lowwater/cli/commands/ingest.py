"""The command `ingest`: captures into the lake, by name or by the patterns of the settings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.errors import ConfigError, LowwaterError
from lowwater.instants import format_instant
from lowwater.terminal import open_console, say, styled

if TYPE_CHECKING:
    from lowwater.config import Config
    from lowwater.lake.ingestion.ingest import IngestResult
    from lowwater.lake.layout import Lake


@click.command()
@click.option("--lake", required=True, type=options.FOLDER, help="The lake's folder; made if it is not there.")
@click.option("--link", help="The link that the captures were taken on; needed with FILE.")
@click.option(
    "--covers", type=options.SPAN, metavar="FROM/TO", help="What the one capture covers, as ISO 8601 instants."
)
@click.option("--growing", is_flag=True, help="The captures are still being written: they cover what they hold so far.")
@click.option("--from", "start", type=options.INSTANT, help="Without FILE: only files that cover something from here.")
@click.option("--to", "end", type=options.INSTANT, help="Without FILE: only files that cover something before.")
@click.argument("files", nargs=-1, type=options.FILE)
def ingest(
    lake: Path,
    link: str | None,
    covers: tuple[int, int] | None,
    growing: bool,
    start: int | None,
    end: int | None,
    files: tuple[Path, ...],
) -> None:
    """Reads captures into the lake: one atomic commit a capture; the same file again adds nothing.

    \b
    Without FILE: the new and the changed files of every link's pattern in lowwater.toml.
    What a capture covers is, in this order: --covers; in lowwater.toml [links.NAME.covers], then the rotation of the
    link's file pattern; else from its first record to its last. An interval is replayed only where its links' captures
    leave no gap.
    A capture that has grown, or changed under its name, replaces what was read of it before. Each interface of a
    capture that has several is a link of its own, LINK/INTERFACE; FROM LINK reads all of them.
    Examples:
      lowwater ingest --lake var/lake
      lowwater ingest --lake var/lake --link main1 captures/main1/*.pcap
    """
    if not files:
        if covers or growing:
            raise click.UsageError("--covers and --growing describe captures that are named; give FILE")
        if not _ingest_patterns(lake, link, start, end):
            sys.exit(1)
        return
    if link is None:
        raise click.UsageError("captures that are named are of a link: give --link")
    if start is not None or end is not None:
        raise click.UsageError("--from and --to choose among the files of patterns; leave them out, or FILE")
    if covers and len(files) > 1:
        from lowwater.config import section_of

        section = section_of(link, "covers")
        raise click.UsageError(f"--covers describes one capture: give one file, or write a line for each in {section}")
    _ingest_files(lake, link, covers, growing, files)


def _ingest_files(lake: Path, link: str, covers: tuple[int, int] | None, growing: bool, files: Sequence[Path]) -> None:
    """Ingests captures of one link and says what became of each.

    Args:
        lake: folder of the lake, made where it is absent.
        link: name of the link on which all the files were taken.
        covers: what the one file covers, ns since the epoch, end exclusive; None to find it out.
        growing: whether the files are still written.
        files: captures, in any order.
    """
    from lowwater.config import load_config
    from lowwater.lake.ingestion.ingest import ingest as ingest_files
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
        results = ingest_files(opened, link, files, config, covers, runner, growing)
    _show(results, opened, config)
    _tell_idle_keys(opened, config, link)


def _ingest_patterns(lake: Path, link: str | None, start: int | None, end: int | None) -> bool:
    """Ingests the files of the links' patterns that are new or have changed, link by link; whether all went well.

    Args:
        lake: folder of the lake.
        link: name of the only link to look at; None for all that have a pattern.
        start: files that cover only time before it are left out, ns since the epoch; None for no bound.
        end: files that cover only time from it on are left out, ns; None for no bound.

    Raises:
        ConfigError: no link has a pattern.
    """
    from lowwater.config import load_config
    from lowwater.lake.ingestion.arrivals import arrivals
    from lowwater.lake.ingestion.ingest import ingest as ingest_files
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
                taken += ingest_files(opened, name, found.new, config, None, runner)
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
