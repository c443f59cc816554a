"""Why an interval is what it is, and what would make it `done`: `lowwater why`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from lowwater.documents import stored_object
from lowwater.errors import LakeError
from lowwater.instants import format_instant
from lowwater.lake import query_sets, words
from lowwater.lake.keys import differences
from lowwater.lake.ledgers import intervals, runs
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.states import NOWHERE
from lowwater.lake.packets import PacketFiles
from lowwater.plan.queryset import QueryPlan
from lowwater.replay.job import IntervalInputs, Job
from lowwater.replay.schedule.due import PacketEstimate, expected, packet_estimate, with_running
from lowwater.replay.statement_log import Said, StatementSelection, said_of

GAP = "gap"

# The word is that of `status`: this module asks it, and then asks of each part of the answer where it comes from.


@dataclass(frozen=True)
class QueryWhy:
    """The rows of one query."""

    query: str
    word: str
    reason: str
    rows: int | None  # that are published; None without a publication
    want: str  # digest of the inputs of today
    have: str | None  # digest of the inputs of the published rows; None without a publication
    differs: tuple[str, ...]  # how the two differ: file, setting, text, rule, state before
    text: Mapping[str, str]  # part of its text, such as `query flows` -> digest
    published_at: int | None  # ns


@dataclass(frozen=True)
class ReadFile:
    """A capture that a run reads of a link."""

    path: str
    packets: int  # sane records of the whole file
    covers: tuple[int, int]  # ns
    capture: str  # its identity


@dataclass(frozen=True)
class LinkWhy:
    """What a run reads of a link."""

    link: str
    read: tuple[int, int]  # time that it reads, ns
    skew: int  # ns
    policy: str
    files: tuple[ReadFile, ...]


@dataclass(frozen=True)
class DefectWhy:
    """A part of the time that is not as it should be."""

    cause: str  # gap, or one of `query_sets.CAUSES`
    link: str
    start: int
    end: int
    reason: str  # which file, and why
    stops: bool  # whether no run can start for it
    accepted: tuple[str, str, int] | None  # who, why, when; None where nobody has
    remedy: str  # what mends it, or lets it pass; empty where it is accepted


@dataclass(frozen=True)
class Step:
    """One thing to do, and the command for it; empty where no command does it."""

    what: str
    command: str = ""


@dataclass(frozen=True)
class Before:
    """An interval before in a chain, whose state this one continues."""

    start: int
    word: str
    reason: str


@dataclass(frozen=True)
class Why:
    """An interval, or a stretch without records, which runs as one, and what makes it what it is."""

    query_set: str
    start: int
    end: int
    intervals: int
    word: str
    reason: str
    queries: tuple[QueryWhy, ...]
    reads: PacketEstimate  # packets or records that a run reads
    links: tuple[LinkWhy, ...]
    defects: tuple[DefectWhy, ...]
    stops: tuple[str, ...]  # why it cannot start
    statements: tuple[Said, ...]
    error: str  # of the last run; empty if it did not fail
    error_at: int | None
    before: tuple[Before, ...]  # of its chain, from the nearest to the one that is the cause
    steps: tuple[Step, ...]  # what makes it `done`, in order; none where it is

    @property
    def means(self) -> str:
        return words.WORDS[self.word].means


def why(root: PurePath, query_set: str, queries: Path, at: int) -> Why:
    """Explains the interval of a query set that has the instant `at`, ns.
    Raises ConfigError if there is no such query set, and LakeError if it has no interval there."""
    job = Job.open(root, query_set, queries)
    captures = job.captures()
    asked, replays = expected(job, captures), runs.read_replays(job.lake, query_set)
    states = [*intervals.set_status(asked, replays)]
    rows = with_running(job.lake, [row for row in states if row.start <= at < row.end])
    if not rows:
        raise _none(job, states, at)
    if len({(row.start, row.end) for row in rows}) > 1:  # of another length, they overlap: the newest length is asked
        own = [row for row in rows if (row.end - row.start) % job.length == 0 == row.start % job.length] or rows
        rows = [row for row in own if row.start == own[0].start]
    first = intervals.gravest(rows)
    inputs = job.inputs(first.start, first.end, captures)
    mine = [row for row in replays if row.interval == (first.start, first.end)]
    failed = mine[-1] if mine and mine[-1].state == words.FAILED else None
    defects = (*_gaps(inputs), *_missing(inputs))
    before = tuple(_before(job, inputs, states))
    return Why(
        query_set,
        first.start,
        first.end,
        first.intervals,
        first.shown,
        first.why,
        tuple(_query(inputs, query, rows) for query in job.plan.queries),
        packet_estimate(PacketFiles.of(job.lake), inputs),
        tuple(_links(inputs)),
        defects,
        first.lacking,
        tuple(_said(root, queries, inputs)),
        failed.reason if failed is not None else "",
        failed.finished_at if failed is not None else None,
        before,
        tuple(_Steps(job, inputs, first, defects, before, mine).steps()),
    )


def _none(job: Job, states: Sequence[intervals.StatusRow], at: int) -> LakeError:
    name = f"query set {job.query_set}: it has no interval at {format_instant(at)}"
    if not states:
        return LakeError(f"{name}: the lake has no captures of its links", "`lowwater ingest` reads them")
    first, last = min(row.start for row in states), max(row.end for row in states)
    known = f"its intervals are from {format_instant(first)} to {format_instant(last)}"
    return LakeError(f"{name}; {known}", "`lowwater status` lists them")


def _query(inputs: IntervalInputs, query: QueryPlan, rows: Sequence[intervals.StatusRow]) -> QueryWhy:
    row = next(row for row in rows if row.query == query.name)
    last, want, now = inputs.publication(query), inputs.digest(query), inputs.key(query).summary
    differs: tuple[str, ...] = ()
    if last is not None and last.digest != want:
        then = stored_object(last.accounting).get("inputs", {})
        differs = tuple(differences(then, now, inputs.captures)) if last.digest else (last.reason,)
    return QueryWhy(
        query.name,
        row.shown,
        row.why,
        row.rows,
        want,
        None if last is None else last.digest,
        differs,
        now["text"],
        None if last is None else last.finished_at,
    )


def _links(inputs: IntervalInputs) -> Iterator[LinkWhy]:
    for link, begin in inputs.link_starts(inputs.plan.queries).items():
        settings, captures = inputs.config.link(link), Captures.of(inputs.captures.get(link, ()))
        found = []
        for at in captures.meeting(begin, inputs.end):
            capture = captures[at]
            covers = capture.covers_from, capture.covers_to
            found.append(ReadFile(capture.path, capture.packets, covers, capture.capture))
        yield LinkWhy(link, (begin, inputs.end), settings.at(inputs.start).skew, settings.policy, tuple(found))


def _gaps(inputs: IntervalInputs) -> Iterator[DefectWhy]:
    lake = shlex.quote(str(inputs.lake.root))
    for gap in inputs.known.beside_damage(inputs.gaps()):
        for part, _ in inputs.known.unread_in(gap):
            reason = "; ".join(inputs.gap_texts([part]))
            hint = inputs.gap_error(part).hint.replace("--lake DIR", f"--lake {lake}")
            yield DefectWhy(GAP, gap.link, part.since, part.until, reason, not inputs.passes(gap), None, hint)


def _missing(inputs: IntervalInputs) -> Iterator[DefectWhy]:
    stopping = inputs.known.beside_damage(gaps := inputs.gaps()) != gaps
    for found in inputs.all_missing():
        said = inputs.known.accepted(found)
        newest = max(said, key=lambda each: each.at) if said else None
        starts, ends = [each.start for each in found.defects], [each.end for each in found.defects]
        yield DefectWhy(
            found.cause,
            found.link,
            min(starts),
            max(ends),
            found.reason,
            found.cause == query_sets.DAMAGE and stopping and newest is None,
            None if newest is None else (newest.person, newest.why, newest.at),
            "" if newest is not None else _accept(inputs, found.link, found.cause),
        )


def _accept(inputs: IntervalInputs, link: str, cause: str) -> str:
    return (
        f"lowwater accept {shlex.quote(inputs.query_set)} --lake {shlex.quote(str(inputs.lake.root))} --interval "
        f"{format_instant(inputs.start)} --link {shlex.quote(link)} --cause {cause} --why TEXT"
    )


def _said(root: PurePath, queries: Path, inputs: IntervalInputs) -> Iterator[Said]:
    """What people have said of the time that the interval reads; of intervals, only of this one."""
    begins = inputs.link_starts(inputs.plan.queries)
    first = min(begins.values(), default=inputs.start)
    for each in said_of(root, queries, StatementSelection(None, inputs.query_set, first, inputs.end)):
        about = each.statement
        if about.query_set is None or (about.start, about.end) == (inputs.start, inputs.end):
            yield each


def _before(job: Job, inputs: IntervalInputs, states: Sequence[intervals.StatusRow]) -> Iterator[Before]:
    """Walks back through a chain, while what an interval continues from is not published."""
    by_end = {row.end: row for row in states}
    groups = {end: [row for row in states if row.end == end and row.start == by_end[end].start] for end in by_end}
    at, seen = inputs.start, inputs
    while any(seen.takes_up(query) for query in job.plan.queries) and at in groups:
        first = intervals.gravest(groups[at])
        if first.shown in words.VISIBLE:
            return
        yield Before(first.start, first.shown, first.why)
        at = first.start
        seen = replace(inputs, start=first.start, end=first.end)


class _Steps:
    """The shortest list of what makes an interval `done`."""

    def __init__(
        self,
        job: Job,
        inputs: IntervalInputs,
        first: intervals.StatusRow,
        defects: Sequence[DefectWhy],
        before: Sequence[Before],
        rows: Sequence[runs.ReplayRow],
    ) -> None:
        self.job, self.inputs, self.first = job, inputs, first
        self.defects, self.before, self.rows = defects, before, rows
        self.lake, self.set = shlex.quote(str(job.lake.root)), shlex.quote(job.query_set)
        self.begin, self.end = format_instant(first.start), format_instant(first.end)

    def steps(self) -> Iterator[Step]:
        word = self.first.shown
        if word == words.DONE:
            return
        if word == words.RUNNING:
            yield Step(f"wait: {self.first.reason}")
            return
        if removed := self.inputs.removed() or [line for line in self.inputs.outdated() if line.endswith(NOWHERE)]:
            yield Step(f"no run can: {'; '.join(removed)}; what is published of it stays")
            return
        yield from self._ingest()
        yield from self._chain()
        if word == words.ROLLED_BACK or (word == words.DAMAGED and self._rolled_back()):
            yield from self._lift()
        if word == words.HELD and self.job.approval and intervals.awaited(self.rows) and not self._consented():
            yield Step(
                "approve what the audit warned of, which publishes it",
                f"lowwater replay {self.set} --lake {self.lake} --stage publish --from {self.begin} --to {self.end}",
            )
            return
        if word == words.FAILED:
            yield Step(f"mend what its last run ended with: {self.first.reason}")
        yield from self._pass()
        yield Step(
            "run it" if word not in words.TO_CONFIRM else "confirm it: no row changes",
            f"lowwater backfill --lake {self.lake} --query-set {self.set} {self._from()}",
        )

    def _from(self) -> str:
        begin = min([self.first.start, *(each.start for each in self.before)])
        return f"--from {format_instant(begin)} --to {format_instant(self.first.end)}"

    def _consented(self) -> bool:
        return intervals.consented(
            self.rows, {query.name: self.inputs.digest(query) for query in self.job.plan.queries}
        )

    def _rolled_back(self) -> list[str]:
        newest = (self.inputs.publication(query) for query in self.job.plan.queries)
        return [row.query for row in newest if row is not None and row.state == words.ROLLED_BACK and row.digest]

    def _lift(self) -> Iterator[Step]:
        at = format_instant(self.first.start)
        for query in self._rolled_back():
            command = f"lowwater rollback {shlex.quote(query)} --lake {self.lake} --at {at} --lift --because TEXT"
            yield Step(f"lift the roll back of query {query}, if the rows of today's inputs are wanted", command)

    def _ingest(self) -> Iterator[Step]:
        """What must come, or be read again, before a run can start, or for it to be whole."""
        published = self.first.shown in words.VISIBLE
        gaps = [each for each in self.defects if each.cause == GAP and (each.stops or published)]
        for gap in gaps:
            span = f"{format_instant(gap.start)} to {format_instant(gap.end)}"
            yield Step(f"a capture of link {gap.link} of {span} has to come", f"lowwater ingest --lake {self.lake}")
        for line in self.inputs.outdated():
            yield Step(line, f"lowwater ingest --lake {self.lake}")
        for line in self.inputs.rolled_back():
            yield Step(line)
        if self.first.shown == words.PROVISIONAL and not gaps and (waits := self.inputs.open()):
            yield Step(waits, f"lowwater ingest --lake {self.lake}")

    def _chain(self) -> Iterator[Step]:
        if self.before:
            cause = self.before[-1]
            yield Step(
                f"it continues from the interval before; the cause is that of {format_instant(cause.start)}, which is "
                f"{cause.word}: {cause.reason}",
                f"lowwater why {self.set} {format_instant(cause.start)} --lake {self.lake}",
            )

    def _pass(self) -> Iterator[Step]:
        """What is known to be missing, and nobody has accepted."""
        told = set[tuple[str, str]]()
        for each in self.defects:
            if each.cause != GAP and each.accepted is None and (each.link, each.cause) not in told:
                told.add((each.link, each.cause))
                yield Step(f"{each.reason}: mend it, or accept it for good", each.remedy)
