"""Commands over captures: init, inspect, ingest, set-aside, export."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING

import click
from rich.table import Table

from lowwater import instants, terminal
from lowwater.cli import options
from lowwater.errors import LowwaterError

if TYPE_CHECKING:
    from lowwater.config import Config
    from lowwater.lake.ingestion.batch import IngestResult
    from lowwater.lake.layout import Lake
    from lowwater.lake.ledgers import captures


@click.command()
@click.argument("given", type=options.CAPTURES, metavar="CAPTURES...", nargs=-1, required=True)
@click.option("--lake", required=True, type=options.LAKE, help="The new lake's folder; made if it is not there.")
@click.option(
    "--query", "queries", multiple=True, type=options.QUERY_FILE, metavar="FILE.gsql", help="A query set; repeats."
)
@click.option(
    "--sample",
    default=3,
    type=click.IntRange(1, 1000),
    help="Files of each link that are read whole; two at least.",
    show_default=True,
)
def init(given: tuple[Path, ...], lake: PurePath, queries: tuple[Path, ...], sample: int) -> None:
    """Proposes the settings of a lake from folders or files of captures, and writes LAKE/lowwater.toml with comments.

    \b
    Files that differ in a date, a counter or their compression are one link, unless they overlap in time: then a number
    in their names tells several links apart. The pattern, how long a file covers and the zone of the dates come from
    the names where no record contradicts them, the skew from the disorder of a sample. What they leave open is said, as
    are hours without a file, cut files, copies and files that are left out. Files of CSV, JSON lines and parquet become
    links with a PROTOCOL block in LAKE/LINK.schema. Nothing is ingested.
    Example:
      lowwater init captures --lake var/lake --query queries/flows.gsql
    """
    from lowwater.cli.proposals import init_lake

    init_lake(given, lake, queries, sample)


@click.command()
@click.argument("files", nargs=-1, required=True, type=options.ANY_CAPTURE, metavar="FILE...")
@options.form("table", "json", "csv", help="json is described by docs/inspect.schema.json.")
@click.option(
    "--max-jump",
    type=options.DURATION,
    help="How far ahead of its neighbours a timestamp may be; default skew + 60 s.",
)
@click.option(
    "--skew", default="1s", type=options.DURATION, help="The disorder whose refusals are counted.", show_default=True
)
@click.option(
    "--duplicates",
    type=options.DURATION,
    metavar="WINDOW",
    help="Count the packets whose bytes came at most WINDOW earlier, as 50ms.",
)
@click.option(
    "--duplicate-bytes",
    "compared",
    type=click.Choice(["content", "packet"]),
    default="content",
    help="The bytes above the link layer that are equal in duplicates: without TTL, hop limit and checksums, or all.",
    show_default=True,
)
@options.SPREADSHEET
def inspect(
    files: tuple[Path, ...],
    form: str,
    max_jump: int | None,
    skew: int,
    duplicates: int | None,
    compared: str,
    spreadsheet: bool,
) -> None:
    """Says what captures hold: packets, times, rates, order, gaps, protocols, damage. No lake.

    \b
    A file that cannot be read is an error of its own: the others are still inspected, and the exit code is 1.
    The file - is standard input.
    Example:
      lowwater inspect captures/main1/*.pcap --format json
    """
    from lowwater.cli.inspection import inspect_files

    options.require_csv(spreadsheet, form)
    if not inspect_files(files, form, max_jump, skew, spreadsheet, duplicates, compared):
        sys.exit(1)


MOST_SHOWN = 200
"""Most files of which each has a line; of more, those about which nothing is to be said share one."""


@click.command()
@options.OF_LAKE
@click.option("--link", help="The link that the captures were taken on; needed with FILE.")
@click.option(
    "--covers", type=options.SPAN, metavar="FROM/TO", help="What the one capture covers, as ISO 8601 instants."
)
@click.option("--why", metavar="TEXT", help="With --covers: the reason, for `lowwater log`.")
@options.BY
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
@options.SPARK
@click.argument("files", nargs=-1, type=options.CAPTURE)
def ingest(
    lake: PurePath,
    link: str | None,
    covers: tuple[int, int] | None,
    why: str | None,
    by: str | None,
    growing: bool,
    watching: bool,
    every: int,
    settle: int,
    start: int | None,
    end: int | None,
    spark: str | None,
    files: tuple[Path, ...],
) -> None:
    """Reads captures into the lake, each as a whole or not at all; a file that the lake already has adds nothing.

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
    if covers is None and (why is not None or by is not None):
        raise click.UsageError("--why and --by go with --covers")
    if watching:
        if files or covers:
            raise click.UsageError("--watch follows the patterns of the settings: leave out FILE and --covers")
        from lowwater.cli.backfills import watch_patterns

        watch_patterns(lake, link, growing, settle, every, (start, end), spark)
        return
    if not files:
        if covers or growing:
            raise click.UsageError("--covers and --growing describe captures that are named; give FILE, or --watch")
        if not _ingest_patterns(lake, link, start, end, spark):
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
    _ingest_files(lake, link, covers, growing, files, spark, (options.person(by), why or ""))


def _ingest_files(
    lake: PurePath,
    link: str,
    covers: tuple[int, int] | None,
    growing: bool,
    files: Sequence[Path],
    spark: str | None,
    said: tuple[str, str],
) -> None:
    """Ingests captures of one link and prints the result of each. `covers`: interval that the single file covers, ns
    since the epoch, end exclusive, with who `said` so and why; None to determine it."""
    from lowwater.config import load_config
    from lowwater.lake.ingestion import ingest as ingestion, record_options
    from lowwater.lake.layout import open_lake
    from lowwater.replay.progress import Progress
    from lowwater.replay.stages.runners import ingest_tasks

    config = load_config(lake)
    opened = open_lake(lake, make=False)
    record_options.record_options(config, link)  # its errors come before the slow start of a Spark session
    progress = Progress()
    tasks = ingest_tasks(config, progress, spark)
    try:
        with progress.stage("ingest", f"of {link}") as tell:
            results = ingestion.ingest(opened, link, files, config, covers, tasks, growing, tell=tell, said=said)
        _show(results, opened, config)
    finally:
        tell_unread(opened, config)
    _tell_idle_keys(opened, config, link)


def _ingest_patterns(lake: PurePath, link: str | None, start: int | None, end: int | None, spark: str | None) -> bool:
    """Ingests new and changed files of the patterns of a link, or of all. Returns whether all succeeded.
    Raises ConfigError if no link has a pattern."""
    from lowwater.config import load_config
    from lowwater.lake.ingestion import arrivals, ingest as ingestion
    from lowwater.lake.ingestion.folders import look
    from lowwater.lake.ingestion.settled import Folders
    from lowwater.lake.layout import open_lake
    from lowwater.replay.progress import Progress
    from lowwater.replay.schedule.ingesting import each_link, of_every_link
    from lowwater.replay.stages.runners import ingest_tasks

    config = load_config(lake)
    opened = open_lake(lake, make=False)
    progress = Progress()
    tasks = ingest_tasks(config, progress, spark)
    sound = True
    results: list[IngestResult] = []
    said: set[str] = set()
    new: dict[str, tuple[Path, ...]] = {}
    folders = Folders(opened, config, time.time_ns()) if link is None and start is None and end is None else None
    settled = folders.settled if folders is not None and folders.whole else None
    found: dict[str, arrivals.Arrivals] = {}
    if settled is None:
        with folders.asking() if folders is not None else nullcontext():
            found = arrivals.arrivals(opened, config, link, start, end)
    for name, (known, aside, _) in (settled or {}).items():
        pattern = ", ".join(config.link(name).patterns)
        progress.say(f"{name}: no new file" + (_counted(known, aside) or f" of {pattern}"))
    for name, files in found.items():
        for missing in files.missing:
            sound = False
            said.add(missing.folder)
            terminal.say(f"error: {missing.error(name)}", err=True)
        ingested = _counted(len(files.unchanged), files.aside)
        if files.new:
            new[name] = files.new
            progress.say(f"{name}: {len(files.new):,} new{ingested}")
        elif ingested or not files.missing:
            progress.say(f"{name}: no new file" + (ingested or f" of {files.pattern}"))
    if new:
        count = sum(map(len, new.values()))
        with progress.stage("ingest", f"of {count:,} file{'s' if count > 1 else ''}") as tell:
            at_work: dict[str, str] = {}
            hindered = False

            def ingest_link(name: str) -> list[IngestResult] | LowwaterError:
                def show(done: str) -> None:
                    at_work[name] = f"{name} {done}"
                    tell(", ".join(list(at_work.values())))

                try:
                    return ingestion.ingest(opened, name, new[name], config, None, tasks, tell=show)
                except LowwaterError as error:
                    return error
                finally:
                    at_work.pop(name, None)

            def hinders(outcome: list[IngestResult] | LowwaterError) -> bool:
                return isinstance(outcome, LowwaterError) and of_every_link(outcome)

            for outcome in each_link(ingest_link, new, tasks, hinders):
                if isinstance(outcome, list):
                    results += outcome
                    continue
                if not (hindered and hinders(outcome)):  # which is one error, whichever link met it
                    terminal.say(f"error: {outcome}", err=True)
                sound, hindered = False, hindered or hinders(outcome)
    if results:
        _show(results, opened, config, whole=False)
    if settled is None:
        with folders.asking() if folders is not None and not new else nullcontext():
            written = look(opened, config)
        if folders is not None and not new:
            folders.keep(found, (), written)
    _say_unread(opened, config, said)
    _tell_idle_keys(opened, config, *([link] if link is not None else sorted(config.links)))
    return sound


def _counted(known: int, aside: int) -> str:
    counts = (known, "known"), (aside, "set aside")
    return "".join(f", {count:,} {what}" for count, what in counts if count)


def tell_unread(lake: Lake, config: Config) -> None:
    """Looks into the folders of the links, and says what lies there and is not read."""
    from lowwater.lake.ingestion.folders import look

    look(lake, config)
    _say_unread(lake, config)


def _say_unread(lake: Lake, config: Config, said: Collection[str] = ()) -> None:
    """Says what lies in the folders of the links and is not read; not of folders that were told."""
    from lowwater.lake.answers import answered
    from lowwater.lake.ledgers.files import unread_lines

    about = repr((config, config.ended, sorted(said)))
    for line in answered(lake, "unread, of an ingest", about, lambda: unread_lines(lake, config, said=said)):
        terminal.say(line, err=True)


def _tell_idle_keys(lake: Lake, config: Config, *links: str) -> None:
    """Prints every key of `covers` that matches no file of its link, neither on disk nor in the lake."""
    from lowwater.lake.files.patterns import idle_keys
    from lowwater.lake.ingestion.known_files import KnownFiles
    from lowwater.storage.captures import capture_path

    for link in links:
        if config.link(link).covers:
            paths = [capture_path(file.row.path) for file in KnownFiles(lake, link, config).all]
            for line in idle_keys(link, config.link(link), paths):
                terminal.say(f"note: {line}", err=True)


def _show(results: Sequence[IngestResult], lake: Lake, config: Config, whole: bool = True) -> None:
    """Prints the results of ingesting files, with the records that lie outside their coverage (A1). `whole`: whether to
    print whole paths rather than file names; a common prefix is printed once."""
    from lowwater.capture.records.drops import drop_words
    from lowwater.catalog.protocols import RECORD_KINDS
    from lowwater.lake.ledgers import captures
    from lowwater.lake.ledgers.missing import lake_records_outside, outside_words

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
    plain: dict[tuple[str, str], list[tuple[str, captures.Capture]]] = {}
    for result, name in zip(results, names, strict=True):
        for row in result.captures:
            covered = f"{instants.format_instant(row.covers_from)}/{instants.format_instant(row.covers_to)}"
            count = outside.get((row.link, row.attempt))
            outside_text = "" if count is None else outside_words(row, count, config.link(row.link))
            numbers = f"{row.packets:,}", f"{row.malformed:,}", f"{count.all if count else 0:,}"
            left_out = captures.left_out_words(row.left_out_counts)
            dropped = drop_words(row.declared_drops.alone())
            notes = "; ".join(text for text in (result.note, outside_text, dropped, left_out) if text)
            if len(results) > MOST_SHOWN and not (notes or row.malformed):
                plain.setdefault((row.link, result.state), []).append((name[len(shared) :], row))
                continue
            cells = name[len(shared) :], row.link, result.state, *numbers, covered, notes
            table.add_row(*(terminal.styled(cell) for cell in cells))
    for (link, state), files in plain.items():
        (first, _), (last, _) = files[0], files[-1]
        rows = [row for _, row in files]
        covered = f"{instants.format_instant(min(row.covers_from for row in rows))}/"
        covered += instants.format_instant(max(row.covers_to for row in rows))
        name = first if len(files) == 1 else f"{first} ... {last} ({len(files):,} files)"
        numbers = f"{sum(row.packets for row in rows):,}", "0", "0"
        table.add_row(*(terminal.styled(cell) for cell in (name, link, state, *numbers, covered, "")))
    if shared:
        terminal.say(f"all captures begin with {shared}")
    terminal.open_console().print(table)


@click.command("set-aside")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.OF_LAKE
@click.option("--reason", metavar="WHY", help="Reason, for the ledger, `status`, `report` and the pages.")
@options.BY
@click.option("--undo", is_flag=True, help="Take it back: the files count again as what lies there.")
def set_aside(files: tuple[str, ...], lake: PurePath, reason: str | None, by: str | None, undo: bool) -> None:
    """Sets files in the folders of the links aside for ever: captures that are to be read by nobody.

    \b
    FILE is the path or the name of a file that `lowwater status` names, or a quoted pattern for many; it may be gone.
    Ingest by patterns leaves such a file alone, and it keeps no interval from being done. The reason stays visible. A
    file that is in the lake is named without a pattern: its records are read no more. A file that gets another size
    later counts again: it is another one.
    Example:
      lowwater set-aside --lake var/lake 'captures/main1/*.pcap.bak' --reason "copies of the old disk"
    """
    from lowwater.config import load_config
    from lowwater.lake.ingestion.folders import set_aside as put_aside, undo as take_back
    from lowwater.lake.layout import open_lake

    if undo == bool(reason and reason.strip()):
        raise click.UsageError("give either --reason WHY or --undo")
    opened, config = open_lake(lake, make=False), load_config(lake)
    if undo:
        rows = take_back(opened, config, files, options.person(by))
    else:
        rows = put_aside(opened, config, files, str(reason).strip(), options.person(by))
    for row in rows:
        terminal.say(f"{row.shown}: {'counts again' if undo else 'set aside'}")
    terminal.say("`lowwater plan` says which intervals are due now")


CAPTURES, TABLES = ("pcap", "pcapng"), ("csv", "json", "parquet")


@click.command()
@options.OF_LAKE
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
    options.require_range(start, end)
    _check_target(out, force)
    from lowwater.config import load_config
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.packets import PacketFiles
    from lowwater.plan.temporal import END_OF_TIME
    from lowwater.replay.packets import exported_links, read_predicate, select, write_selection

    opened, config = lake_to_read(lake), load_config(lake)
    names = exported_links(opened, config, links)
    until = END_OF_TIME if end is None else end
    if config.link(names[0]).kind != "pcap":
        if form in CAPTURES:
            hint = "give --format csv, json or parquet"
            raise LowwaterError(f"--format {form}: link {names[0]!r} has records that are no packets", hint)
        if protocol is not None:
            why = f"link {names[0]!r} has the protocol of its settings"
            raise LowwaterError(f"--protocol {protocol}: {why}", "leave --protocol out")
        _export_records(opened, config, names[0], where, start or 0, until, form, out, spreadsheet)
        return
    if spreadsheet:
        raise click.UsageError("--spreadsheet goes with --format csv, of links whose records are no packets")
    if form in TABLES:
        raise LowwaterError(f"--format {form}: link {names[0]!r} has packets", "give --format pcap or pcapng")
    predicate = read_predicate(where, protocol or "ETH")
    with terminal.Terminal(stderr=True).working("selecting packets") as working:

        def progress(count: int) -> None:
            working(f"selecting packets: {count:,}")

        selection = select(opened, config, names, predicate, start or 0, until, progress)
        working(f"writing {selection.packets:,} packets")
        suffix = out.suffix.removeprefix(".").lower()
        fitting = suffix if suffix in CAPTURES else "pcap" if len(selection.interfaces) == 1 else "pcapng"
        _write(out, lambda file: write_selection(selection, form or fitting, file.write))
    packets = "1 packet" if selection.packets == 1 else f"{selection.packets:,} packets"
    terminal.say(f"{packets} to {_shown(out)}", err=True)
    if selection.cut:
        kept = f"the lake keeps at most {selection.kept:,} bytes of them"
        terminal.say(f"{selection.cut:,} of {packets} are truncated: {kept}", err=True)
    for line in PacketFiles.of(opened).removed(names, start or 0):
        terminal.say(line, err=True)


def _check_target(out: Path, force: bool) -> None:
    if str(out) == "-":
        if sys.stdout.isatty():
            hint = "pipe it into a tool, or name a file"
            raise LowwaterError("--out -: a capture is not written to a terminal", hint)
    elif out.exists():
        if not out.is_file():
            raise LowwaterError(f"{out}: is not a file", "name a file, or - to write to standard output")
        if not force:
            raise LowwaterError(f"{out}: already exists", "give another name, or --force to replace it")


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
    """Writes the selected records of a link, and prints how many there are."""
    from lowwater.lake.packets import PacketFiles
    from lowwater.replay.packets import select_records, write_records

    selection = select_records(lake, config, link, where, start, end)
    suffix = {"jsonl": "json", "ndjson": "json"}.get(out.suffix[1:].lower(), out.suffix[1:].lower())
    chosen = form or (suffix if suffix in TABLES else "csv")
    options.require_csv(spreadsheet, chosen)
    count = 0
    with terminal.Terminal(stderr=True).working("writing records") as working:

        def tell(records: int) -> None:
            working(f"writing records: {records:,}")

        def write(file: IO[bytes]) -> None:
            nonlocal count
            count = write_records(selection, chosen, file, tell, spreadsheet)

        _write(out, write)
    terminal.say(f"{'1 record' if count == 1 else f'{count:,} records'} to {_shown(out)}", err=True)
    for line in PacketFiles.of(lake).removed([link], start):
        terminal.say(line, err=True)


def _shown(out: Path) -> str:
    return "standard output" if str(out) == "-" else str(out)


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
