"""Ingest: tasks survey and decode captures; a commit makes each file visible; leftovers are removed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import documents, link_names, threads
from lowwater.capture.tables.options import TableOptions
from lowwater.config import Config, section_of
from lowwater.errors import ConfigError, LakeError, LowwaterError, OverlapError
from lowwater.lake import layout, upkeep
from lowwater.lake.files.patterns import declared_coverage
from lowwater.lake.ingestion import known_files, record_options
from lowwater.lake.ingestion.batch import Batch, IngestResult, Outcomes
from lowwater.lake.ingestion.folders import record, said_of
from lowwater.lake.ingestion.tasks import pack
from lowwater.lake.ledgers import statements
from lowwater.lake.ledgers.captures import Capture, family_claims, few, of_family, orphans, read_captures, shared_notes
from lowwater.lake.ledgers.claims import Claims
from lowwater.lake.ledgers.files import read_seen, told_files
from lowwater.lake.ledgers.places import key_of
from lowwater.lake.ledgers.sections import keep_sections
from lowwater.lake.ledgers.states import ASIDE
from lowwater.lake.locks import folder_of, handed_over, hold
from lowwater.lake.tables import fence_off, live_files, read_rows, replace_rows, safe_name, swap_files
from lowwater.lake.trimming import trim_late
from lowwater.limits import INGEST_WAIT
from lowwater.storage import digests, paths
from lowwater.storage.captures import capture_path
from lowwater.storage.failures import hint_in_lake
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import write

# What dead attempts and replaced captures left. Removed under the lock of an ingest, after it has read or changed the
# ledger: no reader uses files outside of the ledger.


def clean(lake: layout.Lake, link: str, attempts: Collection[str]) -> None:
    """Removes what other attempts left of a link and its interfaces: committed files and rows, and files on disk.
    Raises LakeError if the lake cannot be written. `link`: the link, without an interface."""
    # A link that had other records before may have left files in both tables.
    kept = {*attempts, *orphans(lake)}
    _clean_rows(lake, lake.contents, link, kept)
    for table in (lake.packets, lake.records(link)):
        _clean_table(lake, table, safe_name(link), kept)
    _clean_rows(lake, lake.malformed, link, kept)


_TIDY, _AT_WORK = b"nothing is left", b"at work"
"""What is noted in a store of a link, where to look for what dead attempts left takes a list of all its files."""
_OWN = re.compile("[0-9a-f]{12}")
"""Names of attempts. Another program that joins files names them otherwise, and may have left no other copy of rows."""


def _is_tidy(note: PurePath) -> bool:
    """Whether the last ingest ended well, so that there is nothing to clean."""
    with suppress(FileNotFoundError):
        return paths.read(note) == _TIDY
    return False


def _clean_table(lake: layout.Lake, table: PurePath, name: str, attempts: Collection[str]) -> None:
    own = f"link={name}"
    folders = [path for path in paths.folders(table) if path.name == own or path.name.startswith(f"{own}@")]
    ends = ".parquet", f".parquet{paths.ASIDE}"
    inside = (path for folder in folders for path in paths.matching(folder, "hour=*/*"))  # one list of each in a store
    stored = (path for path in inside if path.name.endswith(ends))
    named = ((path, digests.bare(path.name.removesuffix(paths.ASIDE)).rpartition("-")[2]) for path in stored)
    on_disk = [path for path, attempt in named if _OWN.fullmatch(attempt) and attempt not in attempts]
    if on_disk:  # a file stays on disk until its commit is undone, so no commit is missed
        dead = {path.relative_to(table).as_posix().removesuffix(paths.ASIDE) for path in on_disk}
        swap_files(table, [], lambda live: [row for row in live_files(live) if row["path"] in dead], fence=lake.fence)
    try:
        for path in on_disk:
            paths.remove(path)
    except OSError as error:
        raise LakeError(f"{path}: cannot be removed: {error.strerror}", hint_in_lake(error)) from error


def _clean_rows(lake: layout.Lake, table: PurePath, link: str, attempts: Collection[str]) -> None:
    """Removes the rows of other attempts."""
    attempt_names = pa.array(sorted(attempts), pa.string())
    dead = of_family(link) & ~pc.field("attempt").isin(attempt_names)
    columns = pa.schema([layout.CONTENTS.field(name) for name in ("link", "attempt")])
    if read_rows(table, columns, dead).num_rows:
        replace_rows(table, columns.empty_table(), dead, lake.fence)


# Files become visible in portions: their packets and malformed rows are committed under the names of their attempts.
# Then the rows of `captures` name these attempts, in one commit. Then replaced files are removed. Readers follow the
# ledger, so a crash between two commits shows either the old captures of a portion or the new ones, and a retry
# clears the rest.

SHOWN = 10
"""Most files that a message names."""


def ingest(
    lake: layout.Lake,
    link: str,
    files: Iterable[Path],
    config: Config,
    covers: known_files.Coverage | None = None,
    runner: threads.TaskMap = threads.each_on_threads,
    growing: bool = False,
    clock: Callable[[], int] = time.time_ns,
    records: TableOptions | None = None,
    tell: Callable[[str], None] = lambda _: None,
    refusals: dict[Path, LowwaterError] | None = None,
    said: tuple[str, str] = ("", ""),
) -> list[IngestResult]:
    """Ingests captures of a link: what is new of them is decoded, and where they were seen is kept; which of them are
    read is found when the ledger is (`ledgers.claims`).

    Equal bytes with packets are one content of the link; an empty file is one for every coverage. A file whose records
    are there, by the same decoder and effective max_jump, is not decoded again. A declaration by `covers` holds until
    `covers` changes it, also for a file that replaces its file.

    A file is still growing if it became longer while it was read, if the current time is in its declared coverage, or
    with `growing`. It then covers the time up to its clock, until it is ingested again.

    Args:
        link: name of the link; several interfaces of a capture become links below it (`link/name`).
        covers: declared coverage [from, to), ns, of a single file; None takes it from the link's pattern and rotation.
        records: how the records of the link are read; None for packets, and for the protocol of the settings.
        refusals: filled with file -> why it was not ingested, where that is its own fault; None raises an error.
        said: who names the files, so that those which were set aside count again; and why `covers` is declared.

    Returns a result for every file, in order; not for those in `refusals`.
    Raises ConfigError if other links are configured and this one is not, `covers` is empty or given for several files,
    or the settings do not name the protocol of records that are no packets; CaptureError if files are no captures, and
    OverlapError if one overlaps another by more than the skew of the link (T1), and that one is read: the others are
    ingested nevertheless, and it is in the lake, too; LakeError if the lake cannot be written."""
    if not link_names.is_link_name(link):
        raise ConfigError(f"{link!r} is not a valid name of a link", f"write {link_names.FORM}")
    paths = [capture_path(path) for path in files]
    settings = config.link(link)
    records = records or record_options.record_options(config, link)
    if covers is not None and (len(paths) != 1 or covers[1] <= covers[0]):
        raise ConfigError(
            "--covers FROM/TO declares what one file covers, and TO is after FROM",
            f"write a line for each of several files in {section_of(link, 'covers')} of {documents.FILE_NAME}",
        )
    family = link_names.family_of(link)
    named = link if link in config.links else family
    # The lock is held while decoding: a file that the ledger does not name is then the leftover of a dead attempt.
    name = f"ingest of {family}"
    home, far = folder_of(lake, name), threads.elsewhere(runner) and runner.far
    with hold(lake, name, INGEST_WAIT) as fence, handed_over(lake, home, far) as shared:
        lake = replace(lake, fence=fence)
        fence_off([lake.packets, lake.records(link), lake.contents, lake.malformed], fence)
        if said[0]:
            _count_again(lake, paths, said[0])
        ledger = known_files.KnownFiles(lake, link, config)
        if records is not None:
            layout.make_records_table(lake.records(link), records.layout.schema)
        note = lake.source / "_ingests" / safe_name(family)
        stored = isinstance(note, ObjectPath)
        if not (stored and _is_tidy(note)):
            clean(lake, family, ledger.view.kept)  # its room may be needed
        if stored:
            write(note, _AT_WORK)
        coverage = [covers or declared_coverage(settings, path) for path in paths]
        said_at = 0
        if covers is not None:
            # Later than what was seen before, and not what the clock says: that of a host may be put back.
            seen_at = max((row.seen_at for row in read_seen(lake).values()), default=0)
            about = statements.Statement(seen_at, said[0], statements.COVERS, said[1], link, "", "", *covers)
            said_at = statements.state(lake, [replace(about, file=key_of(lake, paths[0]))])[0].at
        batch = Batch(ledger, settings, paths, coverage, growing, clock, named, said_at, records, shared)
        for tasks in (batch.tasks(runner), batch.rest()):
            for result in runner(pack, tasks):
                batch.take(result)
                tell(f"{batch.settled:,} of {len(paths):,} files")
            batch.commit()
        after = family_claims(lake, family, config)
        if not stored or batch.leaves_files or any(left.replaced for left in after.left.values()):
            clean(lake, family, after.kept)
        new = (result for result in batch.results.values() if result.state != "known")
        trim_late(lake, config, (row for result in new for row in result.captures))
        if stored:
            write(note, _TIDY)
    outcomes = Outcomes(ledger.view, after, batch.results.values(), covers is not None)
    batch.results = {number: outcomes.of(result) for number, result in batch.results.items()}
    before = set(ledger.view.rows.column("link").unique().to_pylist())
    # A file of a store that is away is no file that is refused: the next ingest reads it.
    refused = {paths[number]: error for number, error in batch.refused.items() if not isinstance(error, LakeError)}
    record(lake, config, named, refused)
    keep_sections(lake, config)
    upkeep.tidy_ledgers(lake, (lake.contents, lake.malformed, lake.sightings))
    _tell_shared(lake, batch.results)
    errors = [*batch.errors, *_not_read(lake, link, after, batch, config, refused, paths)]
    if refusals is not None:
        refusals.update(refused)
        errors = [error for error in errors if isinstance(error, LakeError)]
    if errors:
        _raise(errors, len(paths))
    taken = (batch.results[index] for index in range(len(paths)) if index in batch.results)
    results = [_with_interfaces(result, link, after, before) for result in taken]
    return _in_force(lake, results, config)


def _count_again(lake: layout.Lake, paths: Iterable[Path], person: str) -> None:
    """Keeps that a person named files that were set aside."""
    told = (told_files(lake).get(key_of(lake, path)) for path in paths)
    if aside := [row for row in told if row is not None and row.state == ASIDE]:
        statements.state(lake, said_of(statements.COUNT, aside, "", person))


def _not_read(
    lake: layout.Lake,
    link: str,
    view: Claims,
    batch: Batch,
    config: Config,
    refused: dict[Path, LowwaterError],
    paths: Sequence[Path],
) -> list[OverlapError]:
    """Takes files that are in the lake and overlap others, which are read (T1), out of the results of an ingest, and
    adds their errors to those `refused`; returns them. The notes of others say which files they keep from being read.
    """
    numbers = {result.capture.attempt: number for number, result in batch.results.items()}
    captures = read_captures(lake, view.rows.column("link").unique().to_pylist(), config)
    unread = {each.overlap.attempt: each.overlap for of_link in captures.values() for each in of_link.unread}
    errors, both = [], {name for each in unread.values() for name in (each.attempt, each.other)}
    files = known_files.files_of(view, both)
    for attempt, overlap in unread.items():
        error = known_files.overlap_error(files[attempt], files[overlap.other], overlap, config.link(link))
        if (number := numbers.get(attempt)) is not None:
            del batch.results[number]
            refused[paths[number]] = error
            errors.append(error)
        elif (number := numbers.get(overlap.other)) is not None and batch.results[number].state != "known":
            result = batch.results[number]
            note = "; ".join(filter(None, (result.note, error.message)))
            batch.results[number] = replace(
                result, note=note, doubt="; ".join(filter(None, (result.doubt, error.message)))
            )
    return errors


def _with_interfaces(result: IngestResult, link: str, view: Claims, before: Collection[str]) -> IngestResult:
    """Adds to the note which interfaces of the link a file does not declare, and which no file declared before (T5)."""
    own = {row.link for row in result.captures}
    of_link = view.rows.filter(pc.equal(view.rows.column("source"), link))
    all_links = set(of_link.column("link").unique().to_pylist())
    missing, new = sorted(name for name in all_links - own if "/" in name), sorted(own - set(before))
    notes = []
    if missing and result.state != "known":
        notes.append(f"it does not declare {few(missing, SHOWN)}, which other captures have: taken as silent there")
    if before and (named := [name for name in new if "/" in name and name != link]):
        notes.append(f"{few(named, SHOWN)} is new: taken as silent in the captures that do not declare it")
    return replace(result, note="; ".join(note for note in (result.note, *notes) if note))


def _in_force(lake: layout.Lake, results: Sequence[IngestResult], config: Config) -> list[IngestResult]:
    """Returns results with the records and the coverage that their files have beside the others of their link (T3,
    T5)."""
    names = "covers_from", "covers_to", "packets", "malformed"
    found: dict[tuple[str, str], dict[str, int]] = {}
    links = {row.link for result in results for row in result.captures}
    for link, captures in read_captures(lake, links, config).items():
        columns = [captures.numbers(name).tolist() for name in names]
        for attempt, *facts in zip(captures.values("attempt"), *columns, strict=True):
            found[link, attempt] = dict(zip(names, facts, strict=True))

    def in_force(row: Capture) -> Capture:
        changed: dict[str, Any] = {**found.get((row.link, row.attempt), {})}
        return replace(row, **changed)

    return [replace(result, captures=tuple(map(in_force, result.captures))) for result in results]


def _tell_shared(lake: layout.Lake, results: dict[int, IngestResult]) -> None:
    """Adds to the notes of new captures which other links have their records too."""
    new = {number: result for number, result in results.items() if result.state != "known"}
    notes = shared_notes(lake, [row for result in new.values() for row in result.captures])
    for number, result in new.items():
        texts = {result.note: None, **{notes[row.attempt]: None for row in result.captures if row.attempt in notes}}
        results[number] = replace(result, note="; ".join(text for text in texts if text))


def _raise(errors: list[LowwaterError], files: int) -> None:
    """Raises one error for all errors, with the hint of each, and says what became of the other files."""
    if files == 1:
        raise errors[0]
    note = "; the others are in the lake" if files > len(errors) else ""
    count = len(errors)
    *earlier, last = dict.fromkeys(_together(errors))  # a commit that failed is the error of each of its files
    what = "not read" if any(isinstance(error, OverlapError) for error in errors) else "not ingested"
    lines = [f"{what}: {count} of {files} files{note}", *(str(error) for error in earlier), last.message]
    raise type(last)("\n".join(lines), last.hint) from errors[0]


def _together(errors: Sequence[LowwaterError]) -> list[LowwaterError]:
    """Joins the errors of captures that were taken at the same time as another one of their link into one error."""
    beside = [error for error in errors if isinstance(error, OverlapError) and error.beside]
    if len(beside) < 2:
        return list(errors)
    first, longest = beside[0], max(beside, key=lambda error: error.overlap)
    names = [f"  {error.path}" for error in beside[:SHOWN]]
    more = [f"  and {len(beside) - SHOWN:,} more"] if len(beside) > SHOWN else []
    text = (
        f"link {first.link!r}: {len(beside)} captures overlap in time with {first.other} or with one another: either "
        "these are several recorders, or the clock of the recorder was put back"
    )
    joined = OverlapError("\n".join([text, *names, *more]), longest.hint, first.link, first.path, first.other, True)
    return [*(error for error in errors if error not in beside), joined]
