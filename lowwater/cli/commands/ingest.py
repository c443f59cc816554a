"""The command `ingest`: reads captures into the lake, by file name or by the patterns of the settings."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.terminal import open_console, say, styled

if TYPE_CHECKING:
    from lowwater.config import Config
    from lowwater.lake.ingestion.ingest import IngestResult
    from lowwater.lake.layout import Lake
    from lowwater.lake.ledgers.captures import Capture

MOST_SHOWN = 200
"""Most files of which each has a line; of more, those about which nothing is to be said share one."""


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--link", help="The link that the captures were taken on; needed with FILE.")
@click.option(
    "--covers", type=options.SPAN, metavar="FROM/TO", help="What the one capture covers, as ISO 8601 instants."
)
@click.option("--growing", is_flag=True, help="The captures are still being written: they cover what they hold so far.")
@click.option(
    "--watch", "watching", is_flag=True, help="Without FILE: go on, and ingest each file once it is complete."
)
@click.option(
    "--every", type=options.DURATION, default="5s", help="With --watch: time between two looks.", show_default=True
)
@click.option(
    "--settle",
    type=options.DURATION,
    default="10s",
    help="With --watch: a file that nobody writes to for so long is complete, if the time in its name is over.",
    show_default=True,
)
@click.option("--from", "start", type=options.INSTANT, help="Without FILE: only files that cover something from here.")
@click.option("--to", "end", type=options.INSTANT, help="Without FILE: only files that cover something before.")
@click.argument("files", nargs=-1, type=options.CAPTURE)
def ingest(
    lake: PurePath,
    link: str | None,
    covers: tuple[int, int] | None,
    growing: bool,
    watching: bool,
    every: int,
    settle: int,
    start: int | None,
    end: int | None,
    files: tuple[Path, ...],
) -> None:
    """Reads captures into the lake: each is visible as a whole or not at all; the same file again adds nothing.

    \b
    Without FILE: the new and the changed files of every link's pattern in lowwater.toml.
    What a capture covers is, in this order: --covers; in lowwater.toml [links.NAME.covers], then the rotation of the
    link's file pattern; else from its first record to its last. An interval is replayed only where its links' captures
    leave no gap.
    A capture that has grown, or changed under its name, replaces what was read of it before. Each interface with a name
    is a link of its own, LINK/INTERFACE; FROM LINK reads all of them, and each capture of LINK covers all of them.
    With --watch, until SIGINT or SIGTERM: files that are complete, and with --growing also what the others hold so far.
    Examples:
      lowwater ingest --lake var/lake
      lowwater ingest --lake var/lake --link main1 captures/main1/*.pcap
      lowwater ingest --lake var/lake --watch
    """
    if watching:
        if files or covers:
            raise click.UsageError("--watch follows the patterns of the settings: leave out FILE and --covers")
        from lowwater.cli.watches import watch_patterns

        watch_patterns(lake, link, growing, settle, every, (start, end))
        return
    if not files:
        if covers or growing:
            raise click.UsageError("--covers and --growing describe captures that are named; give FILE, or --watch")
        if not _ingest_patterns(lake, link, start, end):
            sys.exit(1)
        return
    if link is None:
        raise click.UsageError("FILE needs the link of the captures: give --link")
    if start is not None or end is not None:
        raise click.UsageError("--from and --to choose among the files of patterns; leave them out, or FILE")
    if covers and len(files) > 1:
        from lowwater.config import section_of

        section = section_of(link, "covers")
        raise click.UsageError(f"--covers describes one capture: give one file, or write a line for each in {section}")
    _ingest_files(lake, link, covers, growing, files)


def _ingest_files(
    lake: PurePath, link: str, covers: tuple[int, int] | None, growing: bool, files: Sequence[Path]
) -> None:
    """Ingests captures of one link and prints the result of each.

    Args:
        lake: folder of the lake.
        link: name of the link on which all files were captured.
        covers: interval that the single file covers, ns since the epoch, end exclusive; None to determine it.
        growing: whether the files are still being written.
        files: captures, in any order.
    """
    from lowwater.config import load_config
    from lowwater.lake.ingestion.ingest import ingest as ingest_files
    from lowwater.lake.ingestion.record_options import record_options
    from lowwater.lake.layout import open_lake
    from lowwater.replay.progress import Progress
    from lowwater.replay.stages.runners import ingest_tasks

    config = load_config(lake)
    opened = open_lake(lake, make=False)
    record_options(config, link)  # its errors come before the slow start of a Spark session
    progress = Progress()
    tasks = ingest_tasks(config, progress)
    try:
        with progress.stage("ingest", f"of {link}") as tell:
            results = ingest_files(opened, link, files, config, covers, tasks, growing, tell=tell)
        _show(results, opened, config)
    finally:
        tell_unread(opened, config)
    _tell_idle_keys(opened, config, link)


def _ingest_patterns(lake: PurePath, link: str | None, start: int | None, end: int | None) -> bool:
    """Ingests new and changed files of the links' patterns, link by link. Returns whether all succeeded.

    Args:
        lake: folder of the lake.
        link: name of the only link to ingest; None for all links with a pattern.
        start: skips files that end before it, ns since the epoch; None for no bound.
        end: skips files that begin at or after it, ns since the epoch; None for no bound.

    Raises:
        ConfigError: no link has a pattern.
    """
    from lowwater.config import load_config
    from lowwater.lake.ingestion.arrivals import arrivals
    from lowwater.lake.ingestion.ingest import ingest as ingest_files
    from lowwater.lake.layout import open_lake
    from lowwater.replay.progress import Progress
    from lowwater.replay.stages.runners import ingest_tasks

    config = load_config(lake)
    opened = open_lake(lake, make=False)
    progress = Progress()
    tasks = ingest_tasks(config, progress)
    sound = True
    results: list[IngestResult] = []
    said: set[str] = set()
    for name, files in arrivals(opened, config, link, start, end).items():
        for missing in files.missing:
            sound = False
            said.add(missing.folder)
            say(f"error: {missing.error(name)}", err=True)
        counts = (len(files.unchanged), "known"), (files.aside, "set aside")
        ingested = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        if not files.new and files.missing and not ingested:
            continue
        if not files.new:
            progress.say(f"{name}: no new file" + (f", {ingested}" if ingested else f" of {files.pattern}"))
            continue
        try:
            known = f", {ingested}" if ingested else ""
            with progress.stage("ingest", f"of {name}, {len(files.new):,} new{known}") as tell:
                results += ingest_files(opened, name, files.new, config, None, tasks, tell=tell)
        except LowwaterError as error:
            sound = False
            say(f"error: {error}", err=True)
    if results:
        _show(results, opened, config, whole=False)
    tell_unread(opened, config, said)
    _tell_idle_keys(opened, config, *([link] if link is not None else sorted(config.links)))
    return sound


def tell_unread(lake: Lake, config: Config, said: Collection[str] = ()) -> None:
    """Looks into the folders of the links, and says what lies there and is not read; not of folders that were told."""
    from lowwater.lake.ingestion.looking import look
    from lowwater.lake.ledgers.seen import unread_lines

    look(lake, config)
    for line in unread_lines(lake, config, said=said):
        say(line, err=True)


def _tell_idle_keys(lake: Lake, config: Config, *links: str) -> None:
    """Prints every key of `covers` that matches no file of its link, neither on disk nor in the lake."""
    from lowwater.lake.files.rotation import idle_keys
    from lowwater.lake.ingestion.replacement import LedgerFiles
    from lowwater.storage.captures import capture_path

    for link in links:
        if config.link(link).covers:
            paths = [capture_path(file.row.path) for file in LedgerFiles(lake, link, config.link(link)).all]
            for line in idle_keys(link, config.link(link), paths):
                say(f"note: {line}", err=True)


def _show(results: Sequence[IngestResult], lake: Lake, config: Config, whole: bool = True) -> None:
    """Prints the results of ingesting files, with the records that lie outside their coverage (A1).

    Args:
        results: results of the files.
        lake: the lake.
        config: settings of the lake.
        whole: whether to print whole paths rather than file names; a common prefix is printed once.
    """
    from lowwater.capture.tables.reader import RECORD_KINDS
    from lowwater.lake.ledgers.captures import left_out_words
    from lowwater.lake.ledgers.outside import lake_records_outside, outside_words

    outside = {
        (link, capture.attempt): count
        for link in sorted({row.link for result in results for row in result.captures})
        for capture, count in lake_records_outside(lake, link, config.link(link))
    }
    names = [str(result.path) if whole else result.path.name for result in results]
    shared = options.shared_beginning(names)
    records = any(row.format in RECORD_KINDS for result in results for row in result.captures)
    counted = "records" if records else "packets"
    table = Table("capture", "link", "state", counted, "malformed", "outside", "covers", "note", box=None)
    for column in table.columns:
        column.overflow = "fold"  # truncation could remove the part in which names differ
        column.no_wrap = column.header == "covers"
    plain: dict[tuple[str, str], list[tuple[str, Capture]]] = {}
    for result, name in zip(results, names, strict=True):
        for row in result.captures:
            covered = f"{format_instant(row.covers_from)}/{format_instant(row.covers_to)}"
            count = outside.get((row.link, row.attempt))
            outside_text = "" if count is None else outside_words(row, count, config.link(row.link))
            numbers = f"{row.packets:,}", f"{row.malformed:,}", f"{count.all if count else 0:,}"
            left_out = left_out_words(row.left_out_counts)
            notes = "; ".join(text for text in (result.note, outside_text, left_out) if text)
            if len(results) > MOST_SHOWN and not (notes or row.malformed):
                plain.setdefault((row.link, result.state), []).append((name[len(shared) :], row))
                continue
            cells = name[len(shared) :], row.link, result.state, *numbers, covered, notes
            table.add_row(*(styled(cell) for cell in cells))
    for (link, state), files in plain.items():
        (first, _), (last, _) = files[0], files[-1]
        rows = [row for _, row in files]
        covered = f"{format_instant(min(row.covers_from for row in rows))}/"
        covered += format_instant(max(row.covers_to for row in rows))
        name = first if len(files) == 1 else f"{first} ... {last} ({len(files):,} files)"
        numbers = f"{sum(row.packets for row in rows):,}", "0", "0"
        table.add_row(*(styled(cell) for cell in (name, link, state, *numbers, covered, "")))
    if shared:
        say(f"all captures begin with {shared}")
    open_console().print(table)
