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
from lowwater.lake.ingestion import known_files
from lowwater.lake.ingestion.record_options import content_of_file
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
from lowwater.lake.layout import CONTENTS
from lowwater.lake.ledgers import files as sightings, statements
from lowwater.lake.ledgers.captures import Capture, Captures, malformed_rows, undecoded_share
from lowwater.lake.ledgers.claims import AGAIN, BEGINNING, CHANGED, Claims
from lowwater.lake.ledgers.coverage import damage_note
from lowwater.lake.ledgers.edges import edges_of
from lowwater.lake.ledgers.files import SeenFile
from lowwater.lake.ledgers.missing import absent_words, attempt_paths
from lowwater.lake.ledgers.places import is_there, key_of, location
from lowwater.lake.ledgers.states import GONE, GROWING, READ, REFUSED
from lowwater.lake.packets import PacketFiles, begin_alike, place_of
from lowwater.lake.tables import DataFile, append_rows, swap_files, table_of
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


_Decoded = tuple[known_files.KnownFile, tuple[str, ...], tuple[str, ...]]
"""A file that was decoded, and the contents of its link that it begins with, and those that begin with it."""


@dataclass
class _Portion:
    """Files that wait for their commit."""

    results: dict[int, IngestResult] = field(default_factory=dict)  # number of the file -> result
    decoded: dict[str, _Decoded] = field(default_factory=dict)  # attempt -> what the ledger keeps of it
    files: dict[str, list[DataFile]] = field(default_factory=dict)  # attempt -> its packet files
    damage: dict[str, pa.Table] = field(default_factory=dict)  # attempt -> its malformed rows, schema `MALFORMED`
    seen: list[SeenFile] = field(default_factory=list)
    bytes: int = 0


class Batch:
    """The files of one ingest, from their survey to their ledger rows; `results` and `refused` are by their numbers.

    Args:
        coverage: declared coverage [from, to), ns, of every file; None without a declaration.
        said_at: when a person declared the coverage, ns; 0 where nobody did.
        link: by which the ledger of files knows the link.
        shared: folder of the lake by which tasks on other machines get the captures; None where they read them.
    """

    def __init__(
        self,
        ledger: known_files.KnownFiles,
        settings: config.Link,
        paths: Sequence[Path],
        coverage: Sequence[known_files.Coverage | None],
        growing: bool,
        clock: Callable[[], int],
        link: str,
        said_at: int = 0,
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
        self._said_at = said_at
        self._link = link
        self._shared = shared
        self._erased = statements.erased(ledger.lake)
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
        """Whether files may have been written that the ledger does not name."""
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

    def _was_erased(self, number: int, file_survey: Survey) -> bool:
        """Whether packets of these records were erased (T11): they are not read again, in no link; what the lake has of
        them stays what it is."""
        said = self._erased.get(file_survey.identity)
        if said is None:
            return False
        path, words = file_survey.path, statements.erased_words(said)
        same = self._ledger.same(path, file_survey.sha256, file_survey.identity, self._coverage[number])
        if same is None:
            hint = "make a copy of it without these packets, and ingest that"
            self._refuse(number, errors.CaptureError(f"{path}: it is not read: {words}", hint))
        else:
            self._known(number, file_survey, same, words)
        return True

    def _update_known(self, number: int, file_survey: Survey) -> bool:
        """Returns whether the lake has the file as it would be packed now; if so, only its coverage is updated."""
        if self._was_erased(number, file_survey):
            return True
        same = self._ledger.same(file_survey.path, file_survey.sha256, file_survey.identity, self._coverage[number])
        if same is not None and self._is_closed(same):
            self._known(number, file_survey, same)
            return True
        if same is None or not same.fits(self._settings, self._content_of(number)) or self._is_damaged(same):
            return False
        if file_survey.index is not None and not same.is_of(
            self._links_of(file_survey.path, file_survey.index.summary)
        ):
            return False
        cut = isinstance(self._content, TableOptions) and same.row.growing and not same.row.ended_cleanly
        if cut and not self._is_growing(number, file_survey):
            return False  # its last line has no end, and none comes
        self._known(number, file_survey, same)
        return True

    def _is_closed(self, file: known_files.KnownFile) -> bool:
        """Whether the packets of a file were removed by age or size (S11): it is not read again."""
        return PacketFiles.of_table(self._table).are_closed(file.rows)

    def _is_damaged(self, file: known_files.KnownFile) -> bool:
        """Whether packets are missing of a file that is in the ledger: another program changed the table."""
        if file.row.attempt in self._portion.files:
            return False
        return not PacketFiles.of_table(self._table).have(file.rows)

    def _links_of(self, path: Path, facts: CaptureSummary) -> list[str]:
        """Returns the link of each interface of a capture."""
        names = [part.interface.name for part in facts.interfaces]
        return link_names(self._ledger.link, names, path, self._settings.interfaces == "one")

    def _content_of(self, number: int) -> ContentOptions | TableOptions:
        content = content_of_file(self._content, self._settings, self._paths[number])
        return known_files.content_for(content, self._coverage[number])

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
        lake = self._ledger.lake
        files = [file for packed in portion.files.values() for file in packed]
        try:
            swap_files(self._table, files, lambda table: [], fence=lake.fence)
            if portion.damage:
                append_rows(lake.malformed, pa.concat_tables(portion.damage.values()), lake.fence)
            if portion.decoded:
                append_rows(lake.contents, contents_of(portion.decoded.values()), lake.fence)
            with sightings.changing(lake) as held:
                sightings.put_seen(held, self._with_others(portion.seen), self._said_at, read=True)
        except errors.LowwaterError as error:
            for attempt in portion.decoded:
                self._ledger.drop(attempt)
            for number in portion.results:
                self._refuse(number, error)
            return
        self.results |= portion.results

    def _with_others(self, seen: Iterable[SeenFile]) -> Iterator[SeenFile]:
        """Adds to what was seen of files what other links have of the same bytes, or lack of them."""
        before, own = sightings.read_seen(self._ledger.lake), {file.row.attempt for file in self._ledger.all}
        for row in seen:
            old = before.get(row.path)
            if old is None or row.state == GONE:
                yield row
                continue
            others = tuple(each for each in old.attempts if each not in own) if old.sha256 == row.sha256 else ()
            links = {*row.links, *(old.links if others else ())}
            told = row.state == READ and old.state == REFUSED  # still written counts more
            refused = {*old.links} - {*row.links} if told else set()
            if refused:
                row = replace(old, links=tuple(sorted(refused)), attempts=row.attempts, sha256=row.sha256)
            attempts = tuple(dict.fromkeys((*others, *row.attempts)))
            yield replace(row, links=row.links if refused else tuple(sorted(links)), attempts=attempts)

    def _is_growing(self, number: int, file_survey: Survey) -> bool:
        declared = self._coverage[number]
        now = self._clock()
        return self._growing or file_survey.grew or (declared is not None and declared[0] <= now < declared[1])

    def _known(self, number: int, file_survey: Survey, old: known_files.KnownFile, more: str = "") -> None:
        """Keeps that a file was seen whose records the lake has. `more`: of its note."""
        path, row = file_survey.path, old.row
        here = {seen.path for seen, file in self._ledger.at(path) if file.row.attempt == row.attempt}
        note, growing = f"ingested already as {row.path}", self._is_growing(number, file_survey)
        if row.file_digest != file_survey.sha256:
            note, growing = f"one capture with {row.path}, which has the same records", bool(row.growing)
        elif str(path.absolute()) != row.path and self._ledger.where(old) is None:
            note = f"it was {row.path}"
        elif here and self._key(path) not in here:
            note = f"it was {self._place(min(here))}"
        self._portion.seen += self._sightings(path, file_survey, row.attempt, growing)
        self._portion.results[number] = IngestResult(path, old.rows, "known", "; ".join(filter(None, (note, more))))

    def _key(self, path: Path) -> str:
        return key_of(self._ledger.lake, path)

    def _place(self, key: str) -> str:
        return location(self._ledger.lake, key)

    def _sightings(self, path: Path, file_survey: Survey, attempt: str, growing: bool) -> Iterator[SeenFile]:
        """Yields what is to be kept of a file that was read: what lay at its place, if its folder was another one then,
        that it lies nowhere else if it was moved, and itself."""
        for old in self._ledger.moved_from(path):
            yield replace(old, path=self._key(path))
            yield replace(old, state=GONE, reason=old.state, unread=False)
        for row in self._ledger.seen_of(attempt):
            if row.path != self._key(path) and row.state != GONE and not is_there(self._place(row.path)):
                yield replace(row, state=GONE, reason=row.state, unread=False)
        try:
            status = path.stat()
            written = status.st_mtime_ns if growing or status.st_size == file_survey.bytes else 0
        except OSError:
            written = 0
        yield self._sighting(path, file_survey, attempt, growing, written)

    def _elsewhere(self, file: known_files.KnownFile, path: Path) -> Iterator[SeenFile]:
        """Yields the other places of what was decoded again; those where it lay tell its names, and what people
        declared of it."""
        for old in self._ledger.of_records(file.row.capture) if file.packets else ():
            for row in self._ledger.seen_of(old.row.attempt):
                if row.path != self._key(path):
                    new = (file.row.attempt if each == old.row.attempt else each for each in row.attempts)
                    yield replace(row, attempts=tuple(new))

    def _sighting(self, path: Path, file_survey: Survey, attempt: str, growing: bool, written: int) -> SeenFile:
        declared, rotated = patterns.named_coverage(self._settings, path)
        begin, end = declared or (None, None)
        return SeenFile(
            self._key(path),
            GROWING if growing else READ,
            "",
            False,
            (self._link,),
            file_survey.bytes,
            written,
            declared_from=begin,
            declared_to=end,
            rotated=rotated,
            named=patterns.naming_of(self._settings, path),
            folder_name=self._ledger.folder_name(path),
            attempts=(attempt,),
            sha256=file_survey.sha256,
        )

    def _begins_with(
        self,
        whole: known_files.KnownFile,
        part: known_files.KnownFile,
        attempt: str,
        new: Mapping[str, Sequence[PurePath]],
    ) -> bool:
        """Whether the records of one file are the first ones of another, of which one is known. Of a file that is gone,
        or is compressed, they tell what its bytes would. `new`: packet files of an attempt, the other one, by link."""

        def files(of: known_files.KnownFile) -> Mapping[str, Sequence[PurePath]]:
            if of.row.attempt == attempt:
                return new
            packets = PacketFiles.of_table(self._table)
            found = {row.link: attempt_paths(packets, row) for row in of.rows}
            for file in self._portion.files.get(of.row.attempt, ()):
                found[str(file.partition["link"])].append(self._table / file.path)
            return found

        theirs, ours = files(whole), files(part)
        told = ("position", "timestamp") if part.is_by_bytes else ()  # an older decoder had other columns
        return all(
            (ours[row.link] or not row.packets) and begin_alike(theirs[row.link], ours[row.link], told)
            for row in part.rows
        )

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
        known_files.refuse_overlap_within(self._ledger.link, survey.path, facts, self._settings)
        parts = [_decoded(interface, done) for interface in facts.interfaces]
        identity = survey.identity or facts.identity
        facts, links = replace(facts, identity=identity), self._links_of(survey.path, facts)
        if self._was_erased(number, replace(survey, sha256=facts.sha256, identity=identity)):
            return  # the records of a compressed capture are known only now
        same = self._ledger.same(survey.path, facts.sha256, identity, self._coverage[number])
        damaged = same is not None and self._is_damaged(same)
        if (
            same is not None
            and same.row.file_digest != facts.sha256
            and same.is_of(links)
            and (self._is_closed(same) or (same.fits(self._settings, self._content_of(number)) and not damaged))
        ):
            # A compressed capture is known by its records only now. What was packed is removed with the next cleaning.
            self._known(number, replace(survey, sha256=facts.sha256), same)
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
        first = min((row.first for row in rows if row.first is not None), default=None)
        largest = max((row.largest for row in rows if row.largest is not None), default=None)
        begin, end = self._coverage[number] or (None, None)
        rows = [
            replace(
                row,
                leading=leading[row.link],
                file_first=first,
                file_largest=largest,
                declared_from=begin,
                declared_to=end,
            )
            for row in rows
        ]
        file = known_files.KnownFile(tuple(sorted(rows, key=lambda row: row.link)))
        whole = [
            each for each in self._ledger.perhaps_whole(file) if self._begins_with(each, file, work.attempt, paths)
        ]
        begun = [
            part for part in self._ledger.perhaps_parts(file) if self._begins_with(file, part, work.attempt, paths)
        ]
        note = MISSING if damaged else ""
        beyond = pc.sum(pc.equal(damage.column("reason"), "sub-second")).as_py() or 0
        doubt = inspect.subsecond_words(beyond, file.packets + sum(row.malformed for row in file.rows))
        doubt = "; ".join(text for text in (doubt, undecoded_share(file.rows).words, *facts.unread) if text)
        unsorted = known_files.UNSORTED if facts.by_time else ""
        notes = "; ".join(text for text in (note, unsorted, absent_words(file.row), doubt) if text)
        portion = self._portion
        portion.results[number] = IngestResult(survey.path, file.rows, "added", notes, doubt)
        portion.decoded[work.attempt] = (
            file,
            tuple(each.row.capture for each in begun),
            tuple(each.row.capture for each in whole),
        )
        portion.seen += self._elsewhere(file, survey.path)
        portion.seen += self._sightings(survey.path, replace(survey, sha256=facts.sha256), work.attempt, work.growing)
        self._ledger.add(file)
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


def contents_of(decoded: Iterable[_Decoded]) -> pa.Table:
    """Returns what the ledger keeps of files that were decoded, with the contents that each begins with, and those that
    begin with it."""
    rows = [(row, part, whole) for file, part, whole in decoded for row in file.rows]
    own = {
        "content": pa.array([row.capture for row, _, _ in rows], pa.string()),
        "decoded_at": pa.array([row.ingested_at for row, _, _ in rows], pa.int64()),
        "begins_with": pa.array([json.dumps(names) if names else None for _, names, _ in rows], pa.string()),
        "begins": pa.array([json.dumps(names) if names else None for _, _, names in rows], pa.string()),
    }
    facts = table_of((row for row, _, _ in rows), pa.schema([each for each in CONTENTS if each.name not in own]))
    columns = {**own, **{name: facts.column(name) for name in facts.column_names}}
    return pa.table([columns[name] for name in CONTENTS.names], schema=CONTENTS)


# What became of files, for people: told by the views before and after an ingest.


class Outcomes:
    """What an ingest has changed of a link."""

    def __init__(self, before: Claims, after: Claims, results: Iterable[IngestResult], by_hand: bool) -> None:
        own = {result.capture.attempt for result in results}
        wholes = {left.by for attempt, left in after.left.items() if attempt in own}
        self._files = known_files.files_of(after, own | wholes)
        gone = {attempt for attempt, left in after.left.items() if left.by in own and attempt not in before.left}
        self._before = known_files.files_of(before, own | gone)
        self._left, self._by_hand = after.left, by_hand

    def of(self, result: IngestResult) -> IngestResult:
        """Returns a result with what the lake has of its file now, and what it has replaced."""
        attempt = result.capture.attempt
        file, old = self._files.get(attempt), self._before.get(attempt)
        if file is None:
            return result
        result, left = replace(result, captures=file.rows), self._left.get(attempt)
        if left is not None and left.why == BEGINNING:
            return replace(result, state="known", note=self._part(file, self._files[left.by]))
        if result.state == "known":
            if old is not None and _covers(file) != _covers(old):
                return replace(result, state="replaced", note=f"now covers {known_files.span(file.row)}")
            return replace(result, note="; ".join([result.note, *self._kept(file)]))
        replaced = [
            each for each in self._before.values() if (gone := self._left.get(each.row.attempt)) and gone.by == attempt
        ]
        said = result.note.partition("; ")
        damaged = said[0] == MISSING
        notes = dict.fromkeys(self._replaces(file, each, self._left[each.row.attempt].why) for each in replaced)
        texts = [MISSING] if damaged else [*notes]
        texts += [*(self._kept(file) if replaced else ()), _note(file), said[2] if damaged else result.note]
        return replace(result, state="replaced" if replaced else "added", note="; ".join(filter(None, texts)))

    def _kept(self, file: known_files.KnownFile) -> list[str]:
        declared = file.row.declared
        if self._by_hand or not file.row.by_hand or declared is None:
            return []
        return [
            f"it keeps the coverage that --covers declared, {'/'.join(format_instant(bound) for bound in declared)}"
        ]

    def _part(self, part: known_files.KnownFile, whole: known_files.KnownFile) -> str:
        counted = "records" if part.row.format in RECORD_KINDS else "packets"
        return (
            f"its {part.packets:,} {counted} are the first of the {whole.packets:,} of {whole.row.path}, which is read"
        )

    def _replaces(self, new: known_files.KnownFile, old: known_files.KnownFile, why: str) -> str:
        same_path = new.row.path == old.row.path
        if why == AGAIN:
            return (
                why
                if new.row.file_digest == old.row.file_digest
                else f"it has the same records as {old.row.path}, which it replaces"
            )
        if why == CHANGED:
            return "the file has changed: what it has now replaces what had its name before"
        grown = ": it has grown" if same_path else ""
        return f"it begins with all {old.row.bytes:,} bytes of {old.row.path}, which it replaces{grown}"


def _covers(file: known_files.KnownFile) -> tuple[object, ...]:
    row = file.row
    return row.covers_from, row.covers_to, row.declared, bool(row.growing), bool(row.by_hand), row.is_declared


MISSING = "read again: packets of it were missing"


def _note(ledger_file: known_files.KnownFile) -> str:
    row = ledger_file.row
    if row.growing:
        return f"it is still growing: it covers {known_files.span(row)} so far; ingest it again later"
    if row.covers_from == row.covers_to:
        if row.declared is not None:
            return "it covers nothing: it is cut before the time that it is declared to cover"
        record = "record" if row.format in RECORD_KINDS else "packet"
        why = f"its first {record} has its largest time" if ledger_file.packets else f"it has no {record}"
        return f"it covers nothing: {why}, and no coverage is declared; ingest it with --covers FROM/TO"
    notes = [damage_note(Captures(ledger_file.rows))]
    if not row.ended_cleanly:
        notes.append(f"it is cut: it covers {known_files.span(row)} only")
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
        decoder_version=known_files.version_of(content),
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
