"""An ingest of several files: the tasks that each needs, and the commits once a portion of files is packed."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.compute as pc

from lowwater import config, errors, threads
from lowwater.capture import inspect, reader
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.headers.undecoded import Undecoded, stored_types
from lowwater.capture.records.facts import CaptureSummary, InterfaceSummary
from lowwater.capture.tables.options import TableOptions
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.instants import format_instant
from lowwater.lake.files import patterns
from lowwater.lake.ingestion import replacement
from lowwater.lake.ingestion.tasks import (
    FailedTask,
    PackResult,
    PackTask,
    Survey,
    SurveyRun,
    SurveyTask,
    link_names,
    merge_summaries,
    not_written,
    send,
    survey,
)
from lowwater.lake.ledgers.captures import Capture, Captures, CopiedFile, malformed_rows, undecoded_share
from lowwater.lake.ledgers.coverage import damage_note
from lowwater.lake.ledgers.edges import edges_of
from lowwater.lake.ledgers.files import key_of
from lowwater.lake.ledgers.missing import absent_words, attempt_paths, strays
from lowwater.lake.packets import PacketFiles, begin_alike, place_of
from lowwater.lake.tables import DataFile, append_rows, swap_files
from lowwater.limits import COMMIT_BYTES, COMMIT_CAPTURES, FILE_ROWS, INGEST_CHUNK_BYTES
from lowwater.storage.paths import locals_of

TASK_ROWS = FILE_ROWS // 2
"""Approximate number of records of a task."""


@dataclass(frozen=True)
class IngestResult:
    """Result of the ingest of a file."""

    path: Path  # path, as given by the caller
    captures: tuple[Capture, ...]  # its ledger rows, one a link
    # `added`, `replaced` (another version of the file, or another decoder, max_jump, interfaces, coverage or stored
    # content) or `known` (nothing was done)
    state: str
    note: str = ""  # a note for the user, or an empty string
    doubt: str = ""  # of the note, what is doubtful about the times of the file, and what of it is not decoded

    @property
    def capture(self) -> Capture:
        """Its first ledger row, for facts about the file."""
        return self.captures[0]


@dataclass
class _Work:
    """A file that is being packed."""

    attempt: str  # name of the attempt, part of the names of its packet files
    tasks: int = 0
    survey: Survey | None = None
    growing: bool = False  # whether the file is still being written
    done: list[PackResult | FailedTask] = field(default_factory=list)


@dataclass
class _Portion:
    """Packed files that wait for their commit."""

    results: dict[int, IngestResult] = field(default_factory=dict)  # number of the file -> result
    files: dict[str, list[DataFile]] = field(default_factory=dict)  # attempt -> its packet files
    damage: dict[str, pa.Table] = field(default_factory=dict)  # attempt -> its malformed rows, schema `MALFORMED`
    bytes: int = 0


class Batch:
    """The files of one ingest, from their survey to their ledger rows; `results` and `refused` are by their numbers.

    Args:
        coverage: declared coverage [from, to), ns, of every file; None without a declaration.
        by_hand: whether `--covers` declared the coverage.
        shared: folder of the lake by which tasks on other machines get the captures; None where they read them.
    """

    def __init__(
        self,
        ledger: replacement.LedgerFiles,
        settings: config.Link,
        paths: Sequence[Path],
        coverage: Sequence[replacement.Coverage | None],
        growing: bool,
        clock: Callable[[], int],
        by_hand: bool = False,
        records: TableOptions | None = None,
        shared: PurePath | None = None,
    ) -> None:
        self.results: dict[int, IngestResult] = {}
        self.errors: list[errors.LowwaterError] = []
        self.refused: dict[int, errors.LowwaterError] = {}
        self._ledger = ledger
        self._settings = settings
        self._content = records or ContentOptions.of(settings)
        self._table = ledger.lake.table_of(ledger.link, records is not None)
        self._paths = paths
        self._coverage = coverage
        self._growing = growing
        self._clock = clock
        self._by_hand = by_hand
        self._shared = shared
        self._works: dict[int, _Work] = {}
        self._packed: set[str] = set()
        self._portion = _Portion()
        self._duplicates: list[tuple[int, Survey]] = []
        self._began_anew = False

    def tasks(self, runner: threads.TaskMap) -> Iterator[PackTask]:
        """Yields the tasks of all files to pack, as their surveys become complete."""
        in_chunks = isinstance(self._content, ContentOptions)
        # Spark begins when all tasks are known: there a survey beside them gains nothing, and is a task of its own.
        if in_chunks and not threads.elsewhere(runner) and self._are_of_new_lengths():
            for number in range(len(self._paths)):
                yield from self._pack_while_surveying(number)
            return
        surveyor = runner if self._shared is None else threads.each_on_threads
        tasks = [self._survey_of(number) for number in range(len(self._paths))]
        for number, result in enumerate(surveyor(survey, tasks)):
            if isinstance(result, FailedTask):
                self._refuse(number, result.error)
                continue
            if self._update_known(number, result):
                continue
            if self._is_packed(result):
                self._duplicates.append((number, result))
            else:
                yield from self._tasks_of(number, result)

    def take(self, result: PackResult | FailedTask) -> None:
        """Takes the result of a task; after the last task of a file, the file waits to become visible with others."""
        work = self._works[result.file]
        if result.attempt == work.attempt:
            work.done.append(result)
            self._settle(result.file, work)

    @property
    def leaves_files(self) -> bool:
        """Whether files may have been written, or replaced, that the ledger does not name."""
        return self._began_anew or bool(self.errors) or any(result.state != "added" for result in self.results.values())

    @property
    def settled(self) -> int:
        """Number of files that are in the lake, wait for their commit, or were refused."""
        return len(self.results) + len(self._portion.results) + len(self.errors)

    def rest(self) -> Iterator[PackTask]:
        """Settles files with the same bytes as another file of the batch; yields tasks of those that must be packed."""
        for number, file_survey in self._duplicates:
            if not self._update_known(number, file_survey):
                yield from self._tasks_of(number, file_survey)

    def _update_known(self, number: int, file_survey: Survey) -> bool:
        """Returns whether the lake has the file as it would be packed now; if so, only its coverage is updated."""
        same = self._ledger.same(file_survey.path, file_survey.sha256, file_survey.identity, self._coverage[number])
        if same is None or not same.fits(self._settings, self._content_of(number)) or self._is_damaged(same):
            return False
        if file_survey.index is not None and not same.is_of(
            self._links_of(file_survey.path, file_survey.index.summary)
        ):
            return False
        cut = isinstance(self._content, TableOptions) and same.row.growing and not same.row.ended_cleanly
        if cut and not self._is_growing(number, file_survey):
            return False  # its last line has no end, and none comes
        self._redeclare(number, file_survey, same)
        return True

    def _is_damaged(self, file: replacement.LedgerFile) -> bool:
        """Whether packets are missing of a file that is in the ledger: another program changed the table."""
        if file.row.attempt in self._portion.files:
            return False
        packets = PacketFiles.of_table(self._table)
        found = (packets.of_capture(row, row.link) for row in file.rows)
        return any(rows is None or not packets.are_there(rows) for rows in found)

    def _links_of(self, path: Path, facts: CaptureSummary) -> list[str]:
        """Returns the link of each interface of a capture."""
        names = [part.interface.name for part in facts.interfaces]
        return link_names(self._ledger.link, names, path, self._settings.interfaces == "one")

    def _content_of(self, number: int) -> ContentOptions | TableOptions:
        """Returns what is stored of a file; packets without a time begin with the time that it is declared to cover."""
        declared, content = self._coverage[number], self._content
        if isinstance(content, TableOptions) or content.untimed is None or declared is None:
            return content
        return replace(content, untimed=declared[0])

    def _survey_of(self, number: int) -> SurveyTask:
        path, content, jump = self._paths[number], self._content_of(number), self._settings.jump
        if isinstance(content, TableOptions):
            return SurveyTask(path, jump, INGEST_CHUNK_BYTES, whole=True)
        return SurveyTask(path, jump, INGEST_CHUNK_BYTES, content=content)

    def _is_packed(self, file_survey: Survey) -> bool:
        """Whether another file of the batch has these bytes, or these records."""
        return bool({file_survey.sha256, file_survey.identity} & self._packed)

    def _are_of_new_lengths(self) -> bool:
        """Whether no two files, here and in the link, have one size: then none is packed twice without its digest."""
        try:
            sizes = [path.stat().st_size for path in self._paths]
        except OSError:
            return False  # the survey says what is wrong
        return len(set(sizes)) == len(sizes) and not {file.row.bytes for file in self._ledger.all} & set(sizes)

    def _pack_while_surveying(self, number: int) -> Iterator[PackTask]:
        """Yields the tasks of a new file during its survey: none waits for the digest."""
        surveying = SurveyRun(self._survey_of(number))
        yield from self._parts(number, surveying)
        file_survey = surveying.result
        if isinstance(file_survey, FailedTask):
            self._refuse(number, file_survey.error)
        elif file_survey.index is None:
            yield from self._tasks_of(number, file_survey)
        elif self._is_packed(file_survey):  # it may have grown to the size of another file, or of a known one
            self._duplicates.append((number, file_survey))
        elif not self._update_known(number, file_survey):
            self._surveyed(number, file_survey)

    def _tasks_of(self, number: int, file_survey: Survey) -> Iterator[PackTask]:
        if file_survey.index is None:
            self._works[number] = work = _Work(uuid.uuid4().hex[:12], tasks=1)
            task = replace(self._task(number, work, None, 0), sha256=file_survey.sha256, bytes=file_survey.bytes)
            tasks: Iterable[PackTask] = [
                replace(task, identity=file_survey.identity, growing=self._is_growing(number, file_survey))
            ]
        else:
            tasks = self._parts(number, file_survey.index.chunks)
        yield from tasks if self._shared is None else self._sent(tasks, file_survey, self._shared)
        self._surveyed(number, file_survey)

    def _sent(self, tasks: Iterable[PackTask], file_survey: Survey, folder: PurePath) -> Iterator[PackTask]:
        for task in tasks:
            try:
                yield send(replace(task, identity=file_survey.identity), folder, file_survey.sha256)
            except OSError as error:
                work = self._works[task.file]
                work.done.append(FailedTask(not_written(self._table, task.path, error), task.file, task.attempt))

    def _parts(self, number: int, chunks: Iterable[reader.CaptureChunk | None]) -> Iterator[PackTask]:
        """Yields a task for successive chunks of about TASK_ROWS records together; behind None anew."""
        self._works[number] = work = _Work(uuid.uuid4().hex[:12])
        portion: list[reader.CaptureChunk] = []
        first = 0
        for chunk in chunks:
            if chunk is None:
                self._works[number] = work = _Work(uuid.uuid4().hex[:12])
                first, portion, self._began_anew = 0, [], True
                continue
            if portion and chunk.position - portion[0].position >= TASK_ROWS:
                work.tasks += 1
                yield self._task(number, work, tuple(portion), first)
                first, portion = first + len(portion), []
            portion.append(chunk)
        if portion:
            work.tasks += 1
            yield self._task(number, work, tuple(portion), first)

    def _task(self, number: int, work: _Work, chunks: tuple[reader.CaptureChunk, ...] | None, first: int) -> PackTask:
        return PackTask(
            packets=self._table,
            link=self._ledger.link,
            file=number,
            path=self._paths[number],
            attempt=work.attempt,
            max_jump=self._settings.jump,
            one=self._settings.interfaces == "one",
            content=self._content_of(number),
            chunks=chunks,
            number=first,
        )

    def _surveyed(self, number: int, file_survey: Survey) -> None:
        """Stores the survey of a file, after all of its tasks are known."""
        work = self._works[number]
        work.survey, work.growing = file_survey, self._is_growing(number, file_survey)
        self._packed |= {file_survey.sha256, file_survey.identity} - {""}
        self._settle(number, work)

    def _settle(self, number: int, work: _Work) -> None:
        """Makes a file ready to become visible once it is surveyed and packed."""
        if work.survey is None or len(work.done) < work.tasks:
            return
        del self._works[number]
        try:
            self._add(number, work, work.survey)
        except errors.LowwaterError as error:
            self._refuse(number, error)
        if len(self._portion.results) >= COMMIT_CAPTURES or self._portion.bytes >= COMMIT_BYTES:
            self.commit()

    def _refuse(self, number: int, error: errors.LowwaterError) -> None:
        self.errors.append(error)
        self.refused[number] = error

    def commit(self) -> None:
        """Makes the waiting files visible: their packets, then their malformed rows, then their rows of the ledger.

        Readers follow the ledger. So a crash shows all of them or none, and the next ingest clears the rest.
        """
        portion, self._portion = self._portion, _Portion()
        if not portion.results:
            return
        lake, attempts = self._ledger.lake, self._ledger.attempts  # one may have replaced another
        files = [file for attempt, packed in portion.files.items() if attempt in attempts for file in packed]
        damage = [rows for attempt, rows in portion.damage.items() if attempt in attempts]
        try:
            swap_files(self._table, files, lambda table: [], fence=lake.fence)
            if damage:
                append_rows(lake.malformed, pa.concat_tables(damage), lake.fence)
            self._ledger.commit()
        except errors.LowwaterError as error:
            self._ledger.undo()
            for number in portion.results:
                self._refuse(number, error)
            return
        self.results |= portion.results

    def _is_growing(self, number: int, file_survey: Survey) -> bool:
        declared = self._coverage[number]
        now = self._clock()
        return self._growing or file_survey.grew or (declared is not None and declared[0] <= now < declared[1])

    def _redeclare(self, number: int, file_survey: Survey, old: replacement.LedgerFile) -> None:
        """Updates what the ledger says of a file whose records it has: declared coverage, place, and copies."""
        declared_now, keeps_declared = self._coverage[number], bool(old.row.by_hand) and not self._by_hand
        by_hand = self._by_hand or (old.row.by_hand if declared_now is None else keeps_declared)
        if self._by_hand:
            declared = declared_now
        elif self._ledger.is_of(file_survey.path, old):
            declared = old.declaring(declared_now)
        else:
            declared = old.row.declared if keeps_declared else declared_now or old.row.declared
        note = f"ingested already as {old.row.path}"
        here, growing = old.counted(), self._is_growing(number, file_survey)  # one that is set aside was named
        if old.row.file_digest != file_survey.sha256:
            note = f"one capture with {old.row.path}, which has the same records"
            here = here.with_copy(
                key_of(self._ledger.lake, file_survey.path), file_survey.sha256, file_survey.bytes, time.time_ns()
            )
            growing = bool(old.row.growing)
        elif self._ledger.has_moved(file_survey.path, old):
            note = f"it was {old.row.path}"
            here = self._ledger.here(here, file_survey.path)
        by_rotation = patterns.by_rotation(self._settings, self._paths[number])
        rotated = by_rotation if declared == declared_now and not by_hand else old.row.rotated
        new = here.covering(declared, growing, by_hand, rotated and not by_hand)
        covers_same = (
            new.covers == old.covers
            and new.row.declared == old.row.declared
            and new.row.growing == bool(old.row.growing)
            and bool(by_hand) == bool(old.row.by_hand)
            and new.row.is_declared == old.row.is_declared
        )
        if covers_same:
            new = here
            note += f"; {_coverage_kept(declared)}" if keeps_declared and declared and declared != declared_now else ""
        else:
            note = f"now covers {replacement.span(new.row)}"
        result = IngestResult(file_survey.path, new.rows, "known" if covers_same else "replaced", note)
        if new == old:
            self.results[number] = result
            return
        if not covers_same:
            if old.row.attempt in self._portion.files:
                self.commit()
                if old.row.attempt not in self._ledger.attempts:
                    return  # the commit failed, which is told
            packets = PacketFiles.of_table(self._table)
            new = replacement.LedgerFile(tuple(_counted(row, attempt_paths(packets, row)) for row in new.rows))
        try:
            self._ledger.put(new, self._settings)
        except errors.LowwaterError as error:
            self._refuse(number, error)
            return
        self._portion.results[number] = replace(result, captures=new.rows)

    def _begins_with(
        self, whole: replacement.LedgerFile, part: replacement.LedgerFile, new: Mapping[str, Sequence[PurePath]]
    ) -> bool:
        """Whether the records of one file are the first ones of another, of which one is in the ledger. Of a file that
        is gone, or is compressed, they tell what its bytes would. `new`: packet files of the other one by link."""

        def files(of: replacement.LedgerFile) -> Mapping[str, Sequence[PurePath]]:
            if of.row.attempt not in self._ledger.attempts:
                return new
            packets = PacketFiles.of_table(self._table)
            found = {row.link: attempt_paths(packets, row) for row in of.rows}
            for file in self._portion.files.get(of.row.attempt, ()):
                found[str(file.partition["link"])].append(self._table / file.path)
            return found

        theirs, ours = files(whole), files(part)
        return all(begin_alike(theirs[row.link], ours[row.link]) for row in part.rows)

    def _begun(self, number: int, survey: Survey, part: replacement.LedgerFile, whole: replacement.LedgerFile) -> None:
        """Keeps that a file is the beginning of one that the lake has: nobody reads it. What was packed is removed with
        the next cleaning."""
        copy = CopiedFile(survey.sha256, survey.bytes, time.time_ns())
        new = whole.with_beginning(key_of(self._ledger.lake, survey.path), copy)
        self._ledger.put(new, self._settings)
        counted = "records" if part.row.format in RECORD_KINDS else "packets"
        note = (
            f"its {part.packets:,} {counted} are the first of the {whole.packets:,} of {whole.row.path}, which is read"
        )
        self._portion.results[number] = IngestResult(survey.path, new.rows, "known", note)

    def _add(self, number: int, work: _Work, survey: Survey) -> None:
        failed = next((result for result in work.done if isinstance(result, FailedTask)), None)
        if failed is not None:
            raise failed.error
        done = [result for result in work.done if isinstance(result, PackResult)]
        if survey.index is not None:
            facts, damage = survey.index.summary, survey.damage
        else:
            assert done[0].summary is not None
            facts, damage = done[0].summary, done[0].damage
        replacement.refuse_overlap_within(self._ledger.link, survey.path, facts, self._settings)
        parts = [_decoded(interface, done) for interface in facts.interfaces]
        identity = survey.identity or facts.identity
        facts, links = replace(facts, identity=identity), self._links_of(survey.path, facts)
        same = self._ledger.same(survey.path, facts.sha256, identity, self._coverage[number])
        damaged = same is not None and self._is_damaged(same)
        if (
            same is not None
            and same.row.file_digest != facts.sha256
            and same.is_of(links)
            and same.fits(self._settings, self._content_of(number))
            and not damaged
        ):
            # A compressed capture is known by its records only now. What was packed is removed with the next cleaning.
            self._redeclare(number, survey, same)
            return
        try:
            files = [named for packed in done for named in packed.finished(identity, self._table)]
        except OSError as error:
            raise not_written(self._table, survey.path, error) from error
        names = [part.interface.name for part in parts]
        one = self._settings.interfaces == "one"
        link_of = {"" if one else name: link for name, link in zip(names, links, strict=True)}
        paths: dict[str, list[PurePath]] = {link: [] for link in links}
        for name, data_file in files:
            paths[link_of[name]].append(self._table / data_file.path)
        rows = []
        for link in paths:
            of_link = [part for part, own in zip(parts, links, strict=True) if own == link]
            part = of_link[0]
            if len(of_link) > 1:
                marks = pc.is_in(damage.column("interface"), pa.array([each.interface.index for each in of_link]))
                part, merged = merge_summaries(of_link, locals_of(paths[link]), damage.filter(marks))
                damage = pa.concat_tables([damage.filter(pc.invert(marks)), merged])
            count = len({each.interface.name for each in of_link})
            row = _row(link, survey.path, work, facts, part, count, self._content_of(number), self._ledger.link)
            ends = edges_of(sorted(paths[link], key=place_of), part.packets, part.lull, self._settings.jump)
            rows.append(replace(row, edges=ends))
        malformed = malformed_rows(damage, links, identity, work.attempt)
        leading = Counter(malformed.filter(pc.is_null(malformed.column("arrival"))).column("link").to_pylist())
        rows = [replace(row, leading=leading[row.link]) for row in rows]
        bare = self._ledger.here(replacement.LedgerFile(tuple(sorted(rows, key=lambda row: row.link))), survey.path)
        rotated = not self._by_hand and patterns.by_rotation(self._settings, self._paths[number])
        file, note_kept = bare.covering(self._coverage[number], work.growing, self._by_hand, rotated), ""
        by_hand = None if self._by_hand else self._ledger.declared_by_hand(file, self._settings, facts.unpacked)
        if by_hand is not None:  # the user need not repeat it for a file that grew or was read again
            file, note_kept = bare.covering(by_hand, work.growing, True), _coverage_kept(by_hand)
        file = replacement.LedgerFile(tuple(_counted(row, paths[row.link]) for row in file.rows))
        for whole in self._ledger.perhaps_whole(file):
            if self._begins_with(whole, file, paths):
                self._begun(number, survey, file, whole)
                return
        begun = [part for part in self._ledger.perhaps_parts(file) if self._begins_with(file, part, paths)]
        replaced, note = self._ledger.put(file, self._settings, facts.unpacked, begun)
        note = "read again: packets of it were missing" if damaged else note
        beyond = pc.sum(pc.equal(damage.column("reason"), "sub-second")).as_py() or 0
        doubt = inspect.subsecond_words(beyond, file.packets + sum(row.malformed for row in file.rows))
        doubt = "; ".join(text for text in (doubt, undecoded_share(file.rows).words, *facts.unread) if text)
        unsorted = replacement.UNSORTED if facts.by_time else ""
        notes = "; ".join(
            text for text in (note, note_kept, _note(file), unsorted, absent_words(file.row), doubt) if text
        )
        portion, state = self._portion, "replaced" if replaced else "added"
        portion.results[number] = IngestResult(survey.path, file.rows, state, notes, doubt)
        portion.files[work.attempt] = [
            replace(file, partition={"link": link_of[name], **file.partition}) for name, file in files
        ]
        if malformed.num_rows:
            portion.damage[work.attempt] = malformed
        portion.bytes += facts.bytes


def _decoded(part: InterfaceSummary, done: Sequence[PackResult]) -> InterfaceSummary:
    """Returns the summary of an interface with what the tasks that decoded it have counted."""
    total = Undecoded()
    for packed in done:
        total.merge(packed.undecoded.get(part.interface.index, Undecoded()))
    return replace(part, undecoded=total.packets, wire=total.wire, types=total.largest)


def _coverage_kept(declared: replacement.Coverage) -> str:
    return f"it keeps the coverage that --covers declared, {'/'.join(format_instant(bound) for bound in declared)}"


def _counted(row: Capture, paths: Sequence[PurePath]) -> Capture:
    """Returns the ledger row with the number of records outside of its declared coverage."""
    if row.declared is None:
        return replace(row, early=None, late=None)
    if (
        row.smallest is None
        or row.largest is None
        or (row.smallest >= row.declared[0] and row.largest < row.declared[1])
    ):
        return replace(row, early=0, late=0)
    early, late = strays(paths, row.declared)
    return replace(row, early=early, late=late)


def _note(ledger_file: replacement.LedgerFile) -> str:
    row = ledger_file.row
    if row.growing:
        return f"it is still growing: it covers {replacement.span(row)} so far; ingest it again later"
    if row.covers_from == row.covers_to:
        if row.declared is not None:
            return "it covers nothing: it is cut before the time that it is declared to cover"
        record = "record" if row.format in RECORD_KINDS else "packet"
        why = f"its first {record} has its largest time" if ledger_file.packets else f"it has no {record}"
        return f"it covers nothing: {why}, and no coverage is declared; ingest it with --covers FROM/TO"
    notes = [damage_note(Captures(ledger_file.rows))]
    if not row.ended_cleanly:
        notes.append(f"it is cut: it covers {replacement.span(row)} only")
    if row.parts is not None:
        notes.append("the captures that are joined in it are read in the order of their times")
    return "; ".join(filter(None, notes))


def _row(
    link: str,
    path: Path,
    work: _Work,
    facts: CaptureSummary,
    part: InterfaceSummary,
    interfaces: int,
    content: ContentOptions | TableOptions,
    source: str,
) -> Capture:
    return Capture(
        link=link,
        capture=facts.identity,
        path=str(path),
        bytes=facts.bytes,
        format=facts.format,
        link_type=part.interface.link_type,
        packets=part.packets,
        undecoded=part.undecoded,
        malformed=part.malformed,
        first=part.first,
        last=part.last,
        smallest=part.smallest,
        largest=part.largest,
        median=part.median,
        lull=part.lull,
        holes=json.dumps([astuple(hole) for hole in part.holes]) if part.holes else None,
        lag=part.lag,
        covers_from=0,
        covers_to=0,
        declared_from=None,
        declared_to=None,
        ended_cleanly=facts.ended_cleanly,
        largest_ahead=facts.largest_ahead,
        smallest_jump=facts.smallest_jump,
        decoder_version=replacement.version_of(content),
        ingested_at=time.time_ns(),
        attempt=work.attempt,
        interface=part.interface.name or None,
        interfaces=interfaces,
        growing=work.growing,
        compression=facts.compression,
        record_bytes=facts.record_bytes,
        overhead=facts.overhead,
        unpacked=facts.unpacked,
        skipped=facts.skipped,
        kept=str(content),
        key=content.key_digest,
        left_out=json.dumps(dict(facts.blocks)) if isinstance(content, TableOptions) and facts.blocks else None,
        source=source,
        sha256=facts.sha256,
        head=facts.head or None,
        absent=json.dumps([facts.absent, facts.unknown]) if facts.absent and facts.unknown else None,
        drops=part.drops.text() or None,
        undecoded_types=None if isinstance(content, TableOptions) else stored_types(part.types, part.wire),
        parts=str(facts.order) if facts.order else None,
    )
