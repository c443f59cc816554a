"""The files of one ingest on their way into the ledger: which tasks they need, and what is written when those are done.

Between `ingest`, which holds the lock of the link, and the tasks (`survey`, `packing`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lowwater.capture.content.retention import Keeping
from lowwater.capture.formats.division import Chunk
from lowwater.capture.reader import DECODER_VERSION
from lowwater.capture.records.facts import CaptureSummary, InterfaceSummary
from lowwater.config import Link
from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.ingestion.interfaces import join, link_names
from lowwater.lake.ingestion.packing import FILE_ROWS, Packed, PackTask, not_written
from lowwater.lake.ingestion.replacement import Coverage, Files, Held, is_path_of, span
from lowwater.lake.ingestion.survey import Failed, Survey, Surveying, SurveyTask, survey
from lowwater.lake.ingestion.tasks import Runner
from lowwater.lake.ledgers.captures import Capture, put_malformed
from lowwater.lake.ledgers.outside import attempt_paths, strays
from lowwater.lake.packets import PacketFiles
from lowwater.lake.tables import DataFile, swap_files

CHUNK_BYTES = 8 << 20
"""Bytes of a chunk, about: what a task holds of the file at a time."""

TASK_ROWS = FILE_ROWS // 2
"""Records of a task, about."""


@dataclass(frozen=True)
class Ingested:
    """What became of one file.

    Attributes:
        path: as given.
        captures: its rows of the ledger, one a link.
        state: `added`, `replaced` (another version of the file, another decoder, max_jump, interfaces, coverage or
            something else to keep) or `known` (nothing was done).
        note: what the user should know, or an empty string.
    """

    path: Path
    captures: tuple[Capture, ...]
    state: str
    note: str = ""

    @property
    def capture(self) -> Capture:
        """The first of its rows, for what concerns the file."""
        return self.captures[0]


@dataclass
class _Work:
    """A file that is being packed: how many tasks it has so far, what they gave; in the end what its survey found."""

    attempt: str
    tasks: int = 0
    survey: Survey | None = None
    growing: bool = False
    done: list[Packed | Failed] = field(default_factory=list)


class Batch:
    """The files of one ingest on their way into the ledger."""

    def __init__(
        self,
        held: Files,
        settings: Link,
        paths: Sequence[Path],
        coverage: Sequence[Coverage | None],
        growing: bool,
        clock: Callable[[], int],
        by_hand: bool = False,
    ) -> None:
        self.found: dict[int, Ingested] = {}
        self.errors: list[LowwaterError] = []
        self._held = held
        self._settings = settings
        self._keeping = Keeping.of(settings)
        self._paths = paths
        self._coverage = coverage
        self._growing = growing
        self._clock = clock
        self._by_hand = by_hand
        self._works: dict[int, _Work] = {}
        self._twins: list[tuple[int, Survey]] = []

    def tasks(self, runner: Runner) -> Iterator[PackTask]:
        """The tasks of all files that are to be packed, as their surveys come in."""
        if len(self._paths) == 1 and self._is_of_a_new_length(self._paths[0]):
            yield from self._ahead(0)
            return
        for number, each in enumerate(runner(survey, [self._survey_of(path) for path in self._paths])):
            if isinstance(each, Failed):
                self.errors.append(each.error)
                continue
            if self._is_there(number, each):
                continue
            if any(work.survey and work.survey.sha256 == each.sha256 for work in self._works.values()):
                self._twins.append((number, each))
            else:
                yield from self._tasks_of(number, each)

    def take(self, result: Packed | Failed) -> None:
        """Takes what a task gave; with the last one of its file the file becomes visible."""
        work = self._works[result.file]
        work.done.append(result)
        self._settle(result.file, work)

    def rest(self) -> Iterator[PackTask]:
        """Settles the files whose bytes another one of the batch had: tasks of those that are captures of their own."""
        for number, each in self._twins:
            if not self._is_there(number, each):
                yield from self._tasks_of(number, each)

    def _is_there(self, number: int, found: Survey) -> bool:
        """Whether the lake has the records of a file as they would be taken in now: only its coverage may change."""
        same = self._held.same(found.sha256, self._coverage[number])
        if same is None or not same.fits(self._settings, self._keeping):
            return False
        self._redeclare(number, found, same)
        return True

    def _survey_of(self, path: Path) -> SurveyTask:
        return SurveyTask(path, self._settings.jump, CHUNK_BYTES)

    def _is_of_a_new_length(self, path: Path) -> bool:
        """Whether no file of the link has as many bytes: then it is none of them, whatever its digest will be."""
        try:
            size = path.stat().st_size
        except OSError:
            return False  # the survey says what is wrong
        return all(held.row.bytes != size for held in self._held.all)

    def _ahead(self, number: int) -> Iterator[PackTask]:
        """The tasks of a file that is not there, while it is surveyed: none waits for its digest."""
        surveying = Surveying(self._survey_of(self._paths[number]))
        yield from self._parts(number, surveying)
        found = surveying.found
        if isinstance(found, Failed):
            self.errors.append(found.error)
        elif found.index is None:
            yield from self._tasks_of(number, found)
        elif not self._is_there(number, found):  # it may have grown to the length of one that is
            self._surveyed(number, found)

    def _tasks_of(self, number: int, found: Survey) -> Iterator[PackTask]:
        if found.index is None:
            self._works[number] = work = _Work(uuid.uuid4().hex[:12], tasks=1)
            yield replace(self._task(number, work, None, 0), sha256=found.sha256, bytes=found.bytes)
        else:
            yield from self._parts(number, found.index.chunks)
        self._surveyed(number, found)

    def _parts(self, number: int, chunks: Iterable[Chunk]) -> Iterator[PackTask]:
        """A task for successive chunks of about TASK_ROWS records together."""
        self._works[number] = work = _Work(uuid.uuid4().hex[:12])
        portion: list[Chunk] = []
        first = 0
        for chunk in chunks:
            if portion and chunk.position - portion[0].position >= TASK_ROWS:
                work.tasks += 1
                yield self._task(number, work, tuple(portion), first)
                first, portion = first + len(portion), []
            portion.append(chunk)
        if portion:
            work.tasks += 1
            yield self._task(number, work, tuple(portion), first)

    def _task(self, number: int, work: _Work, chunks: tuple[Chunk, ...] | None, first: int) -> PackTask:
        return PackTask(
            packets=self._held.lake.packets,
            link=self._held.link,
            file=number,
            path=self._paths[number],
            attempt=work.attempt,
            max_jump=self._settings.jump,
            one=self._settings.interfaces == "one",
            keeping=self._keeping,
            chunks=chunks,
            number=first,
        )

    def _surveyed(self, number: int, found: Survey) -> None:
        """All tasks of a file are given, and it is known what it is."""
        work = self._works[number]
        work.survey, work.growing = found, self._is_growing(number, found)
        self._settle(number, work)

    def _settle(self, number: int, work: _Work) -> None:
        """Makes a file visible that is surveyed and packed."""
        if work.survey is None or len(work.done) < work.tasks:
            return
        try:
            self._add(number, work, work.survey)
        except LowwaterError as error:
            self.errors.append(error)

    def _is_growing(self, number: int, found: Survey) -> bool:
        declared = self._coverage[number]
        now = self._clock()
        return self._growing or found.grew or (declared is not None and declared[0] <= now < declared[1])

    def _redeclare(self, number: int, found: Survey, old: Held) -> None:
        """The same records: nothing to do, or only another declaration of what they cover."""
        said, stands = self._coverage[number], bool(old.row.by_hand) and not self._by_hand
        by_hand = self._by_hand or (old.row.by_hand if said is None else stands)
        if self._by_hand:
            declared = said
        elif is_path_of(found.path, old):
            declared = old.declaring(said)
        else:
            declared = old.row.declared if stands else said or old.row.declared
        new = old.covering(declared, self._is_growing(number, found), by_hand)
        if (
            new.covers == old.covers
            and new.row.declared == old.row.declared
            and new.row.growing == bool(old.row.growing)
            and bool(by_hand) == bool(old.row.by_hand)
        ):
            kept = f"; {_kept(declared)}" if stands and declared and declared != said else ""
            note = f"ingested already as {old.row.path}{kept}"
            self.found[number] = Ingested(found.path, old.rows, "known", note)
            return
        held = PacketFiles.of(self._held.lake)
        new = Held(tuple(_counted(row, attempt_paths(held, row)) for row in new.rows))
        try:
            self._held.put(new, self._settings, 0)
        except LowwaterError as error:
            self.errors.append(error)
            return
        self.found[number] = Ingested(found.path, new.rows, "replaced", f"now covers {span(new.row)}")

    def _add(self, number: int, work: _Work, survey: Survey) -> None:
        failed = next((each for each in work.done if isinstance(each, Failed)), None)
        if failed is not None:
            raise failed.error
        lake, done = self._held.lake, [each for each in work.done if isinstance(each, Packed)]
        if survey.index is not None:
            facts, damage = survey.index.summary, survey.damage
        else:
            assert done[0].summary is not None
            facts, damage = done[0].summary, done[0].damage
        parts = [
            replace(each, undecoded=sum(one.undecoded.get(each.interface.index, 0) for one in done))
            for each in facts.interfaces
        ]
        try:
            files = [(at, file.of(facts.sha256)) for one in done for at, file in one.files]
        except OSError as error:
            raise not_written(lake.packets, survey.path, error) from error
        names = [each.interface.name for each in parts]
        links = link_names(self._held.link, names, survey.path, self._settings.interfaces == "one")
        if len(parts) > 1 and self._settings.interfaces == "one":
            joined = join(parts, [lake.packets / file.path for _, file in files], damage)
            parts, damage = [joined.summary], joined.damage
        rows = [
            _row(link, survey.path, work, facts, each, len(facts.interfaces) - len(parts) + 1, self._keeping)
            for link, each in zip(links, parts, strict=False)
        ]
        bare = Held(tuple(sorted(rows, key=lambda row: row.link)))
        held, kept = bare.covering(self._coverage[number], work.growing, self._by_hand), ""
        by_hand = None if self._by_hand else self._held.declared_by_hand(held, self._settings, facts.unpacked)
        if by_hand is not None:  # nobody says it twice of a file that grew or was read again
            held, kept = bare.covering(by_hand, work.growing, True), _kept(by_hand)
        paths = {link: [lake.packets / file.path for at, file in files if links[at] == link] for link in links}
        held = Held(tuple(_counted(row, paths[row.link]) for row in held.rows))
        swap_files(lake.packets, [_of_link(file, links[at]) for at, file in files], lambda table: [])
        if damage.num_rows:
            put_malformed(lake, damage, links, facts.sha256, work.attempt)
        replaced, note = self._held.put(held, self._settings, facts.unpacked)
        notes = "; ".join(text for text in (note, kept, _note(held)) if text)
        self.found[number] = Ingested(survey.path, held.rows, "replaced" if replaced else "added", notes)


def _of_link(file: DataFile, link: str) -> DataFile:
    return replace(file, partition={"link": link, **file.partition})


def _kept(declared: Coverage) -> str:
    return f"it keeps the coverage that --covers declared, {'/'.join(format_instant(bound) for bound in declared)}"


def _counted(row: Capture, paths: Sequence[Path]) -> Capture:
    """With the records outside of its declared coverage counted."""
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


def _note(held: Held) -> str:
    row = held.row
    if row.growing:
        return f"it is still growing: it covers {span(row)} so far; ingest it again later"
    if row.covers_from == row.covers_to:
        if row.declared is not None:
            return "it covers nothing: it is cut before the time that it is declared to cover"
        why = "its first packet has its largest time" if held.packets else "it has no packet"
        return f"it covers nothing: {why}, and no coverage is declared; ingest it with --covers FROM/TO"
    return "" if row.ended_cleanly else f"it is cut: it covers {span(row)} only"


def _row(
    link: str, path: Path, work: _Work, facts: CaptureSummary, part: InterfaceSummary, interfaces: int, keeping: Keeping
) -> Capture:
    return Capture(
        link=link,
        capture=facts.sha256,
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
        covers_from=0,
        covers_to=0,
        declared_from=None,
        declared_to=None,
        ended_cleanly=facts.ended_cleanly,
        largest_ahead=facts.largest_ahead,
        smallest_jump=facts.smallest_jump,
        decoder_version=DECODER_VERSION,
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
        kept=str(keeping),
        key=keeping.key_digest,
    )
