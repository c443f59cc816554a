"""Runs the intervals of a query set over a lake: plan, low, high, audit and publish, from top to bottom of this file.

The command line and the tasks of Airflow call it. A stage reads its inputs from the lake, so the four stages may run in
one process or in four.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from operator import call
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from lowwater import __version__, documents, errors
from lowwater.high.operators import StoredState
from lowwater.high.runner import Level, Runner, Running
from lowwater.instants import format_instant, range_words
from lowwater.lake import layout, locks, tables, upkeep, words
from lowwater.lake.ledgers import intervals, runs, statements
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.missing import KnownMissing
from lowwater.lake.results import pins, streams
from lowwater.lake.results.publish import Audited, PublishResult, check_unchanged, publish
from lowwater.lake.results.published import damages_of
from lowwater.lake.results.streams import fingerprint
from lowwater.lake.tables import fence_off
from lowwater.plan import properties, queryset
from lowwater.quality import judge, suites
from lowwater.quality.streams import WrittenStream
from lowwater.replay import reuse
from lowwater.replay.accounts import Accounts, heartbeat_rows
from lowwater.replay.job import IntervalInputs, Job, require_owned
from lowwater.replay.progress import Progress
from lowwater.replay.stages import batches
from lowwater.replay.stages.audit import LinkScans, audit
from lowwater.replay.stages.engines import high_level, high_results, low_level, low_stage
from lowwater.replay.stages.runners import runner_of
from lowwater.storage import failures, paths

STAGES = (runs.LOW, runs.HIGH, runs.AUDIT, runs.PUBLISH)

AGAIN_OR_LIFT = "roll it back again with `lowwater rollback`, or lift the roll back with --lift"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one interval."""

    start: int
    end: int
    state: str  # done, provisional or incomplete; the name of the stage if only one was run
    reason: str
    rows: dict[str, int]
    committed: bool  # whether anything in `tables/` changed
    digests: dict[str, str] = field(default_factory=dict)  # query -> digest of its inputs (S1)
    verdict: str = ""  # verdict of the audit, passed or warned; empty without an audit
    report: str = ""  # absolute path of the audit's page; empty without an audit


def replay(
    job: Job,
    start: int,
    end: int,
    stage: str | None,
    progress: Progress,
    runner: Runner | None = None,
    hold: bool = False,
    ask: bool = False,
) -> list[Outcome]:
    """Runs the intervals of [start, end), ns, one after another; with `ask` they are one, of a look, perhaps a stretch,
    that is not published where the audit warned and the settings ask for approval; `hold` stops before publishing.

    An interval that was published from the same inputs is skipped. A failure is recorded and ends the
    call; earlier intervals stay published. Only audits go on with the other intervals, and fail at the end.
    Raises GapError if a link has not reported, and LowwaterError if an interval cannot be published for another reason.
    """
    job.require_suites()
    job.prepare()
    runner = runner or runner_of("lowwater replay", job.config, progress)
    stages = (stage,) if stage else STAGES[:-1] if hold else STAGES
    outcomes, failed = list[Outcome](), list[errors.LowwaterError]()
    for at, until in [(start, end)] if ask else job.intervals(start, end):
        try:
            outcomes.append(run_interval(job, at, until, progress, runner, stages, ask))
        except errors.LowwaterError as error:
            if stage != runs.AUDIT or isinstance(error, errors.BusyError | errors.AwayError | errors.OwnerError):
                raise
            failed.append(error)
    if failed:
        for other in failed[:-1]:
            progress.say(f"  {other.message}")
        raise failed[-1]
    return outcomes


def standing(job: Job, start: int, end: int) -> Outcome | None:
    """The outcome of an interval that a run would leave as it is, since it is published from its present inputs; None
    where there is something to run. It takes no lock and writes nothing, and Spark and the engines are not loaded.
    Raises LakeError if a ledger cannot be read."""
    require_owned(job)
    journal = _Journal(job, start, end, runs.PUBLISH, (start, end))
    inputs = job.inputs(start, end, job.captures())
    digests = {query.name: inputs.digest(query) for query in job.plan.queries}
    damages = {query: damages_of(job.lake, job.query_set, query, start, end) for query in digests}
    if any(inputs.lost(query) for query in job.plan.queries) or not _is_published(journal, digests, damages):
        return None
    state, reason = inputs.state(inputs.gaps())
    if any(_is_news(last, state) for query in digests if (last := journal.last(query)) is not None):
        return None
    return _stands(journal, digests, state, reason)


def run_interval(
    job: Job,
    start: int,
    end: int,
    progress: Progress,
    runner: Runner,
    stages: tuple[str, ...] = STAGES,
    ask: bool = False,
) -> Outcome:
    """Runs one interval through its stages, of STAGES one, or all, the last perhaps left out; may be called from
    several threads. `ask` as of `replay`.
    Raises LowwaterError if the interval cannot be published. The error is in the ledger then, or waits on this machine
    until the lake can be written."""
    (result,) = run_batch(job, [(start, end)], progress, runner, stages, ask)
    if isinstance(result, errors.LowwaterError):
        raise result
    return result


Result = Outcome | errors.LowwaterError
"""What became of an interval: its outcome, or why it is not published."""


def run_batch(
    job: Job,
    intervals: Sequence[runs.Range],
    progress: Progress,
    runner: Runner,
    stages: tuple[str, ...] = STAGES,
    ask: bool = False,
    evaluated: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Runs intervals, each of which begins where the one before ends, as `run_interval` does one after another; returns
    what became of each. Those that are alike are planned, evaluated, audited and published together, as an interval
    that is as long as all of them: its rows are theirs (the law). One whose audit fails is held back alone; where
    anything else fails, each runs by itself. `evaluated` is called where low and high of the first ones are done.
    Raises BusyError if another process is at work on one of them, and LowwaterError if none was begun."""
    runner = runner.about(f"{job.query_set} {format_instant(intervals[0][0])}")
    results: dict[runs.Range, Result] = {}
    try:
        with _attempt(job, intervals, progress, runner, stages, ask, results) as attempt:
            turns = _planned(attempt)
            told = iter([evaluated])  # once: the other batches follow in the same turn
            for batch in _together(turns, job.length):
                if left := [turn for turn in batch if turn.span not in results]:
                    _run(attempt, left, lambda: next(told, lambda: None)())
            if turns:
                _tidy(job.lake)
    except errors.BusyError:
        raise
    except errors.LowwaterError as error:
        if not results:
            raise
        results |= {span: error for span in intervals if span not in results}
    return [results[span] for span in intervals]


# An attempt: the range of time is locked, and a failure is told.


@dataclass
class _Journal:
    """What one attempt writes into the ledger `replays` about an interval, while the range is locked."""

    job: Job
    start: int
    end: int
    stage: str  # at work
    within: runs.Range  # what is read of the ledger at once: the range of the attempt
    tried: Mapping[str, str] = field(default_factory=dict)  # what it is made on (`IntervalInputs.tried`), once known
    seconds: dict[str, float] = field(default_factory=dict)  # that each stage took in this attempt
    latest: int = 0  # time of the newest row of the ledger, ns; 0 as long as it is unknown
    told: bool = False  # whether a failure is in the ledger, or kept for it
    # rows of the range, of all its intervals, that are to be in the ledger with those of a later stage
    held: list[runs.ReplayRow] = field(default_factory=list)

    def meeting(self) -> Sequence[runs.ReplayRow]:
        """The ledger rows about instants of the range, oldest first."""
        return (*runs.interval_replays(self.job.lake, self.job.query_set, *self.within), *self.held)

    def rows(self) -> list[runs.ReplayRow]:
        """The ledger rows of the interval, oldest first."""
        return [row for row in self.meeting() if row.interval == (self.start, self.end)]

    def last(self, query: str) -> runs.ReplayRow | None:
        """The publication of the visible rows of a query."""
        return runs.last_of(self.meeting(), query, self.start, self.end)

    def require(self, stage: str, query: str, digest: str) -> runs.ReplayRow:
        """Returns the newest row of an earlier stage, which ran on these inputs."""
        # A failure is recorded for the whole query set.
        rows = [row for row in self.rows() if row.stage == stage and row.query in (query, "")]
        if not rows or rows[-1].state == words.FAILED or rows[-1].digest != digest:
            cause = "failed" if rows and rows[-1].state == words.FAILED else "has not run"
            message = f"interval {format_instant(self.start)}: stage {stage} {cause}"
            raise errors.LakeError(message, f"run `lowwater replay` with --stage {stage}")
        return rows[-1]

    def now(self) -> int:
        """The time of a new row, ns: later than all rows about instants of the interval, since the newest one counts,
        and another machine that wrote one may have a clock that is ahead."""
        if not self.latest:  # the range is locked: nobody else adds rows meanwhile
            self.latest = max((row.finished_at for row in self.meeting()), default=0)
        self.latest = max(time.time_ns(), self.latest + 1)
        return self.latest

    def row(self, query: str, digest: str, rows: int | None, accounting: dict[str, Any], **more: Any) -> runs.ReplayRow:
        """A row about a query, or the whole set, at the stage at work; `more` are further fields of the row."""
        replay, texts = self.job.config.replay, "".join(each.text for each in self.job.plan.queries)
        queries = sha256(texts.encode()).hexdigest()[:16]
        beat = {"heartbeat": str(replay.heartbeat), "tick": replay.tick}
        by = {"by": self.job.by} if self.job.by else {}
        settings = json.dumps({**beat, "release": __version__, "queries": queries, **by})
        about = self.job.query_set, query, self.start, self.end, self.stage, more.pop("state", "done"), self.now()
        kept = {"timings": json.dumps(self.seconds), "accounting": json.dumps(accounting), "settings": settings}
        return runs.ReplayRow(*about, digest=digest, rows=rows, **{"reason": "", **kept, **more})

    def failure(self, error: errors.LowwaterError) -> runs.ReplayRow:
        """The row of a failure: what it was tried on, and whether the same inputs would repeat it."""
        account = error.accounting if isinstance(error, errors.AuditError) else {}
        account = {**account, "tried": self.job.attempted(self.tried), "repeats": error.repeats}
        return self.row("", "", None, account, state=words.FAILED, reason=error.message)

    def keep(self, error: errors.LowwaterError) -> None:
        """Keeps a failure on this machine until the ledger can be written."""
        self.latest = max(self.latest, time.time_ns())  # the ledger cannot be read either
        runs.keep_untold(self.job.lake, self.failure(error))


@dataclass
class _Attempt:
    """One attempt at intervals that follow one another, while their range is locked."""

    job: Job  # commits to its lake are refused once the lock is lost
    stages: tuple[str, ...]  # that somebody asks for, with `ask` as of `replay`
    ask: bool
    journals: Mapping[runs.Range, _Journal]
    results: dict[runs.Range, Result]  # what became of the intervals that are done with
    progress: Progress
    runner: Runner
    folder: Path  # of this machine, for temporary files
    shared: PurePath | None  # of the lake, for files of tasks on other machines; None where there are none
    scans: LinkScans  # of records, for the audit
    begin_level: Callable[[Level], Running]
    high: Running | None = None  # the high level of the batch at work, once it has begun
    tell: Callable[[str], None] = lambda _: None  # says how far the stage at work is

    @property
    def span(self) -> runs.Range:
        bounds = [*self.journals]
        return bounds[0][0], bounds[-1][1]

    @cached_property
    def captures(self) -> dict[str, Captures]:
        return self.job.captures()

    @cached_property
    def _known(self) -> KnownMissing:
        return self.job.known_missing(self.captures)

    @cached_property
    def past(self) -> runs.Publications:
        """What was published of the range, of all that meets what meets it, and up to its begin."""
        about, (first, end) = (self.job.lake, self.job.query_set), self.span
        meeting = [row.interval for row in runs.interval_replays(*about, first - 1, end)]
        bounds = [(first - 1, end), *meeting]
        return runs.Publications(*about, (min(start for start, _ in bounds), max(end for _, end in bounds)))

    def inputs(self, start: int, end: int) -> IntervalInputs:
        """The inputs of an interval, or of a batch, of the range; the ledgers are read once for all of them."""
        return self.job.inputs(start, end, self.captures, self._known, self.past)

    def damages(self, query: str) -> Mapping[runs.Range, str]:
        """Published intervals of which the table of a query does not have the rows, and why."""
        return damages_of(self.job.lake, self.job.query_set, query, *self.span)

    @property
    def held(self) -> list[runs.ReplayRow]:
        """Rows of stages that are to be in the ledger with those of a later one."""
        return next(iter(self.journals.values())).held

    def hold(self, *rows: runs.ReplayRow) -> None:
        """Takes rows of a stage for the ledger: they are written with those of the next stages, in one commit. A run
        that is killed before makes them again, so those of long work are written at once."""
        self.held.extend(rows)
        if any(sum(json.loads(row.timings).values()) > HELD for row in rows):
            self.write()

    def write(self, *rows: runs.ReplayRow) -> None:
        """Writes rows into the ledger, with those that are held."""
        runs.record_replays(self.job.lake, [*self.held, *rows])
        self.held.clear()

    def failed(self, errors_: Mapping[runs.Range, errors.LowwaterError]) -> None:
        """Writes failures of intervals. What went wrong first is what is said, also where that fails."""
        lake, told = self.job.lake, [(self.journals[span], error) for span, error in errors_.items()]
        self.results |= errors_
        for journal, _ in told:
            journal.told = True
        try:
            with failures.outages():
                self.write(*(journal.failure(error) for journal, error in told))
            with suppress(errors.LowwaterError):
                _tidy(lake)
        except errors.AwayError:
            for journal, error in told:
                journal.keep(error)
        except errors.LowwaterError:
            pass  # its lease is lost: another run tells


HELD = 3.0
"""Seconds of work on an interval above which the ledger tells of a stage once it is done."""


def _tidy(lake: layout.Lake) -> None:
    upkeep.tidy_ledgers(lake, lake.run_ledgers(), lake.all_measures())


ABOUT_ALL = errors.BusyError, errors.OwnerError, errors.AwayError, errors.TakenOverError
"""Errors that are not of one interval: another run or query set is at it, the disk is full, the lease is lost."""


@contextmanager
def _attempt(
    job: Job,
    intervals: Sequence[runs.Range],
    progress: Progress,
    runner: Runner,
    stages: tuple[str, ...],
    ask: bool,
    results: dict[runs.Range, Result],
) -> Iterator[_Attempt]:
    """Locks the range of intervals for an attempt. A failure is written for those without a result, or kept until it
    can be."""
    lake, bounds = job.lake, (intervals[0][0], intervals[-1][1])
    held = list[runs.ReplayRow]()
    journals = {span: _Journal(job, *span, stages[0], bounds, held=held) for span in intervals}
    try:
        with (
            failures.outages(),
            locks.run_attempt(lake, job.query_set, *bounds, _written(job)) as (folder, fence),
            locks.handed_over(lake, locks.folder_of_run(lake, job.query_set, *bounds), runner.far) as shared,
            LinkScans(runner.tasks("audit")) as scans,
            runner.levels() as level,
        ):
            if len(statements.renames(lake)) != job.renames:
                raise errors.BusyError("names in the lake have changed since this run began", "run it again")
            job = replace(job, lake=replace(lake, fence=fence))
            for journal in journals.values():
                journal.job = job
            about = job, stages, ask, journals, results
            attempt = _Attempt(*about, progress, runner, folder, shared, scans, level)
            try:
                with failures.outages():
                    yield attempt
            except (errors.BusyError, errors.OwnerError):
                raise  # says nothing about these intervals: another run, or another query set, is at them
            except errors.LowwaterError as error:
                attempt.failed({span: error for span in intervals if span not in results})
                raise
    except errors.AwayError as error:
        for span, journal in journals.items():
            if span not in results and not journal.told:
                journal.keep(error)
        raise


def _written(job: Job) -> list[PurePath]:
    lftas = [job.lake.lfta(job.query_set, reuse.lfta_folder(lfta)) for lfta in job.plan.lftas]
    tables = [path for query in job.plan.queries for path in (job.lake.stream(query.name), job.lake.table(query.name))]
    return [*tables, *lftas, *job.lake.run_ledgers()]


# Plan: the inputs as they are now, and which stages they ask for.


@dataclass(frozen=True)
class _Plan:
    """What an attempt has to do for an interval."""

    inputs: IntervalInputs
    digests: dict[str, str]  # query -> digest of its inputs
    state: str  # that its publication would have now, and the reason why it is not done
    reason: str
    stages: tuple[str, ...]
    ask: bool  # whether it waits for a person where the audit warns and the settings ask for approval
    published: bool  # whether nothing is left to run
    alone: bool  # whether somebody asks for one stage


@dataclass
class _Turn:
    """An interval of an attempt that has something to run."""

    journal: _Journal
    plan: _Plan
    outcome: Outcome

    @property
    def span(self) -> runs.Range:
        return self.journal.start, self.journal.end

    @cached_property
    def home(self) -> runs.Range | None:
        """Where rows of its LFTAs are that need not be made again (`reuse.home`)."""
        return reuse.home(self.journal.job, self.plan.inputs)


@dataclass(frozen=True)
class _Batch:
    """Intervals that follow one another, one or more, and are evaluated as one."""

    turns: list[_Turn]
    inputs: IntervalInputs  # of an interval as long as all of them
    # queries whose streams are of these inputs, as they are published: nothing is evaluated of them
    kept: frozenset[str] = frozenset()
    lows: Mapping[str, str] = field(default_factory=dict)  # LFTA -> key of its rows (`keys.low_key`)
    anew: frozenset[str] = frozenset()  # LFTAs to run: of the other queries, without rows of these keys
    # LFTA -> key of rows that the lake of a trial may have (`reuse.taken`), of those to run
    wanted: Mapping[str, str] = field(default_factory=dict)

    @property
    def span(self) -> runs.Range:
        return self.inputs.start, self.inputs.end

    @property
    def range(self) -> dict[str, runs.Range]:
        """What the ledger says beside an account that is of all its intervals together; nothing for a single one."""
        return {"range": self.span} if len(self.turns) > 1 else {}

    def folder(self, home: Any, stage: str) -> Any:
        """The folder of a stage in one for temporary files."""
        return home / f"{self.span[0]}-{self.span[1]}" / stage

    @property
    def evaluated(self) -> IntervalInputs:
        """The inputs, with the queries to evaluate."""
        return replace(self.inputs, plan=self.inputs.plan.without(self.kept)) if self.kept else self.inputs

    def begin(self, stage: str) -> None:
        for turn in self.turns:
            turn.journal.stage = stage

    def took(self, begun: float) -> None:
        """Says how long the stage has taken, since an instant of the monotonic clock: an interval its part."""
        seconds = round((time.monotonic() - begun) / len(self.turns), 3)
        for turn in self.turns:
            turn.journal.seconds[turn.journal.stage] = seconds


def _planned(attempt: _Attempt) -> list[_Turn]:
    """Plans the intervals of an attempt, and returns those that have something to run. A published one is confirmed,
    and the failure of one that cannot start is written."""
    job = attempt.job
    # A run whose lease was taken over, and is only slow and not dead, writes nothing more.
    fence_off(_written(job), job.lake.fence)
    runs.tell_untold(job.lake)
    require_owned(job)  # before any work: another set's table is no matter of inputs
    damages = {query.name: attempt.damages(query.name) for query in job.plan.queries}
    turns, failed = list[_Turn](), dict[runs.Range, errors.LowwaterError]()
    confirmed, made = dict[runs.Range, Outcome](), list[runs.ReplayRow]()
    for span, journal in attempt.journals.items():
        try:
            plan = _plan(attempt, journal, damages)
        except ABOUT_ALL:
            raise
        except errors.LowwaterError as error:
            failed[span] = error
            if job.chained:
                _leave_behind(attempt, span)
                break
            continue
        if plan.published:
            made += _confirmed(journal, plan)
            confirmed[span] = _stands(journal, plan.digests, plan.state, plan.reason)
        else:
            turns.append(_Turn(journal, plan, Outcome(*span, plan.state, plan.reason, {}, False, plan.digests)))
            for query in job.plan.queries if plan.stages[-1] == runs.PUBLISH else ():
                if properties.hands_over(query.high):  # the next one is planned behind it
                    attempt.past.expect(query.name, *span, plan.digests[query.name])
    if failed:
        attempt.failed(failed)
    attempt.write(*made)
    attempt.results |= confirmed
    return turns


def _plan(
    attempt: _Attempt,
    journal: _Journal,
    damages: Mapping[str, Mapping[runs.Range, str]],
) -> _Plan:
    """Reads the ledgers, and chooses the stages that the inputs of an interval ask for."""
    job, stages, ask = attempt.job, attempt.stages, attempt.ask
    inputs = attempt.inputs(journal.start, journal.end)
    digests = {query.name: inputs.digest(query) for query in job.plan.queries}
    journal.tried = inputs.tried(digests)
    alone = len(stages) == 1
    lost = any(inputs.lost(query) for query in job.plan.queries)
    published = not alone and not lost and _is_published(journal, digests, damages)
    # Gaps and policies are in the digests: what was let pass then, with --through-end too, stands.
    state, reason = inputs.state(inputs.gaps() if published else inputs.require())
    if alone and (outrun := _outrun(journal, stages[0], digests)):
        attempt.progress.say(f"  its inputs have changed since stage {outrun}: it begins again")
        stages, ask = STAGES[: STAGES.index(stages[0]) + 1], True  # consent was for another audit
    elif not alone and ask and intervals.consented(journal.rows(), digests):
        stages, ask = (runs.PUBLISH,), False
    return _Plan(inputs, digests, state, reason, stages, ask, published, alone)


def _together(turns: Sequence[_Turn], length: int) -> Iterator[list[_Turn]]:
    """Divides intervals into batches: those that follow one another, have the length of the query set, run the same
    stages, see the same ends of links (T5), and have no rows of LFTAs, or those of one batch, that need not be made
    again (S1). What hands a state over is evaluated one by one, so these do not count."""
    batch: list[_Turn] = []
    for turn in turns:
        if batch and not _joins(batch[0], batch[-1], turn, length):
            yield batch
            batch = []
        batch.append(turn)
    if batch:
        yield batch


def _joins(first: _Turn, last: _Turn, turn: _Turn, length: int) -> bool:
    plan, before = turn.plan, last.plan
    return (
        batches.divides(length)
        and last.span[1] == turn.span[0]
        and all(each.span[1] - each.span[0] == length for each in (last, turn))
        and turn.span[1] - first.span[0] <= batches.LONGEST
        and (plan.stages, plan.ask, plan.inputs.ends) == (before.stages, before.ask, before.inputs.ends)
        and (turn.journal.job.chained or turn.home == last.home != last.span)
    )


def _batch(attempt: _Attempt, turns: list[_Turn]) -> _Batch:
    """Chooses the queries and LFTAs to run: those whose key has changed (S1). Where that is none, and after a failure
    of an audit, which may be of what was kept, it is all of them; so are the LFTAs of a stage that somebody asks for by
    itself, and those after a failure."""
    job, span = attempt.job, (turns[0].span[0], turns[-1].span[1])
    inputs = turns[0].plan.inputs if len(turns) == 1 else attempt.inputs(*span)
    if turns[0].plan.stages[0] not in (runs.LOW, runs.HIGH) or (job.chained and len(turns) > 1):
        return _Batch(turns, inputs)
    lows, there = inputs.low_keys(), reuse.lows_there(job, *span)
    same = {name for name, key in lows.items() if key and there.get(name) == key}
    damages = {query.name: attempt.damages(query.name) for query in job.plan.queries} if same else {}
    kept = {
        query.name
        for query in job.plan.queries
        if {lfta.name for lfta in query.lftas} <= same
        and all(_keeps(job, turn, query, damages[query.name]) for turn in turns)
    }
    newest = [
        row
        for turn in turns
        for row in [each for each in turn.journal.rows() if each.query in ("", *turn.plan.digests)][-1:]
    ]
    failed = [row for row in newest if row.state == words.FAILED]
    if len(kept) == len(job.plan.queries) or any(row.stage == runs.AUDIT for row in failed):
        kept = set()
    needed = {lfta.name for query in job.plan.queries if query.name not in kept for lfta in query.lftas}
    trusted = not turns[0].plan.alone and not failed
    anew = needed - same if trusted else needed
    if kept:
        attempt.progress.say(f"  kept, since their inputs are the same: {', '.join(sorted(kept))}")
    wanted = {name: lows[name] for name in anew if lows[name]} if trusted else {}
    return _Batch(turns, inputs, frozenset(kept), lows, frozenset(anew), wanted)


def _keeps(job: Job, turn: _Turn, query: queryset.QueryPlan, damages: Mapping[runs.Range, str]) -> bool:
    """Whether an interval of a query is published from its present inputs, and its stream is there."""
    last, digest = turn.journal.last(query.name), turn.plan.digests[query.name]
    return (
        last is not None
        and last.digest == digest
        and not damages.get(turn.span)
        and not turn.plan.inputs.lost(query)
        and reuse.has_stream(job, turn.journal.rows(), query.name, digest, *turn.span)
    )


def _is_published(journal: _Journal, digests: dict[str, str], damages: Mapping[str, Mapping[runs.Range, str]]) -> bool:
    """Whether every query is published from these inputs, its table has the rows, and nothing has failed since.
    Raises LakeError if the rows of a roll back are damaged: a run would publish what a person has refused."""
    publications = [journal.last(query) for query in digests]
    mine = [row for row in journal.rows() if row.query in ("", *digests)]
    whole = (not mine or mine[-1].state != words.FAILED) and all(
        last is not None and last.digest == digests[last.query] for last in publications
    )
    for last in publications:
        if last is not None and (why := damages[last.query].get((journal.start, journal.end), "")):
            if last.state == words.ROLLED_BACK and last.digest == digests[last.query]:
                raise errors.LakeError(
                    f"query {last.query}: {words.ROLLED_BACK}, and damaged since: {why}", AGAIN_OR_LIFT
                )
            whole = False
    return whole


def _outrun(journal: _Journal, stage: str, digests: dict[str, str]) -> str:
    """The first stage before one that ran on other inputs: settings, queries or captures have changed since, or the
    rows of its LFTAs are those of a batch, or were removed; empty if none did."""
    newest = {(row.stage, row.query): row for row in journal.rows() if row.state != words.FAILED}
    for earlier in STAGES[: STAGES.index(stage)]:
        present = {"": _joined(digests)} if earlier == runs.LOW else digests
        ran = [newest.get((earlier, query)) for query in present]
        if any(row is not None and row.digest != present[row.query] for row in ran):
            return earlier
        own, low = (journal.start, journal.end), ran[0]
        there = low is None or (reuse.low_range(low) == own and reuse.has_lows(journal.job, *own))
        if stage == runs.HIGH and not there:
            return earlier
    return ""


def _joined(digests: dict[str, str]) -> str:
    return " ".join(digests[name] for name in sorted(digests))


def _confirmed(journal: _Journal, plan: _Plan) -> Iterator[runs.ReplayRow]:
    """Yields the rows that confirm a published interval: a provisional one becomes done once its links have reported,
    an incomplete one once what was missing is read or set aside."""
    journal.stage = runs.PUBLISH
    for query, digest in plan.digests.items():
        last = journal.last(query)
        assert last is not None
        if _is_news(last, plan.state):
            now = {"state": plan.state, "reason": plan.reason, "publication": last.publication}
            yield journal.row(query, digest, last.rows, documents.stored_object(last.accounting), **now)


def unchanged(start: int, end: int, state: str, reason: str) -> Outcome:
    """The outcome of a range [start, end), ns, of which nothing ran, in a state and for a reason of now."""
    return Outcome(start, end, state, reason, {}, False)


def _stands(journal: _Journal, digests: dict[str, str], state: str, reason: str) -> Outcome:
    """The outcome of an interval that stays published as it is, in a state and for a reason of now."""
    rows, audited = {}, _Audited()
    for query in digests:
        last = journal.last(query)
        assert last is not None
        rows[query] = last.rows or 0
        if last.state == words.ROLLED_BACK:  # stands for these inputs, until somebody lifts it
            state, reason = words.ROLLED_BACK, last.reason
    for row in journal.rows():
        if row.stage == runs.AUDIT and row.query in digests:
            audited = _Audited.of(row)
    return Outcome(journal.start, journal.end, state, reason, rows, False, digests, audited.verdict, audited.report)


def _is_news(last: runs.ReplayRow, state: str) -> bool:
    """Whether a publication that stands has come to another state since."""
    stays = last.state == words.ROLLED_BACK or (last.state == words.DONE and state == words.PROVISIONAL)
    return last.state != state and not stays


# The stages. Each takes what those before have left in the lake and the ledger for the intervals of a batch.


def _run(attempt: _Attempt, turns: list[_Turn], evaluated: Callable[[], None]) -> None:
    """Runs a batch through its stages. Where it fails, which interval is at fault is known once each runs by itself."""
    try:
        _stages(attempt, _batch(attempt, turns), evaluated)
    except ABOUT_ALL:
        raise
    except errors.LowwaterError as error:
        if attempt.high is not None:
            attempt.high.ended.set()  # it may wait for files of a low level that has failed
        left = [turn.span for turn in turns if turn.span not in attempt.results]
        if attempt.runner.broken(error):
            raise
        if len(turns) == 1:
            attempt.failed(dict.fromkeys(left, error))
            return
        attempt.progress.say(f"  {len(left)} intervals run one by one: {error.message}")
        attempt.scans.forget()
        for span in left:
            if span in attempt.results:
                continue  # behind one of its chain that is not published
            alone = replace(attempt, journals={span: attempt.journals[span]})
            for turn in _planned(alone):
                _run(alone, [turn], evaluated)
            if attempt.job.chained and not _went_on(attempt.results[span]):
                _leave_behind(attempt, span)


def _stages(attempt: _Attempt, batch: _Batch, evaluated: Callable[[], None]) -> None:
    """Runs the stages of a batch. What hands a state over is evaluated one by one; audit and commits are shared."""
    stages, plans = batch.turns[0].plan.stages, [turn.plan for turn in batch.turns]
    if {runs.LOW, runs.HIGH, runs.AUDIT} & set(stages):
        attempt.runner.begin()
    if runs.AUDIT in stages:
        judge.begin()
    if attempt.job.chained and len(batch.turns) > 1:
        first = [stage for stage in stages if stage in (runs.LOW, runs.HIGH)]
        for turn in batch.turns if first else ():
            _staged(attempt, _batch(attempt, [turn]), first, plans, evaluated)
        stages = stages[len(first) :]
    batch = _staged(attempt, batch, stages, plans, evaluated)
    attempt.write()
    if batch.turns:
        attempt.results |= {turn.span: turn.outcome for turn in batch.turns}


def _staged(
    attempt: _Attempt, batch: _Batch, stages: Sequence[str], plans: Sequence[_Plan], evaluated: Callable[[], None]
) -> _Batch:
    """Runs some of the stages, and returns the batch without intervals that have their result; `plans` are those of all
    intervals that are audited together."""
    about = f"{attempt.job.query_set} {range_words(*batch.span, len(batch.turns))}"
    attempt.high = None
    for stage in stages:
        if stage == runs.PUBLISH:
            batch = _approved(attempt, batch)
        if not batch.turns:
            break
        if stage == runs.AUDIT:
            evaluated()
        batch.begin(stage)
        begun = time.monotonic()
        if runs.AUDIT in plans[0].stages and stage in (runs.HIGH, runs.AUDIT):
            # The first query of a session waits for a second or two, on one core.
            attempt.scans.begin(plan.inputs for plan in plans)
        with attempt.progress.stage(stage, about) as attempt.tell:
            work = {runs.LOW: _low, runs.HIGH: _high, runs.AUDIT: _audit, runs.PUBLISH: _publish}[stage]
            left = work(attempt, batch, begun) or batch
        batch.took(begun)
        batch = left
    return batch


BEHIND = "an earlier interval of its chain was not published"
"""Why an interval does not run whose state is not there."""


def _leave_behind(attempt: _Attempt, span: runs.Range) -> None:
    """Leaves the intervals behind one of a chain that is not published; nothing is written about them."""
    for start, end in attempt.journals:
        if start > span[0] and (start, end) not in attempt.results:
            attempt.results[start, end] = unchanged(start, end, words.WAITING, BEHIND)


def _went_on(result: Result) -> bool:
    """Whether an interval left the state that the next one of its chain continues."""
    return not isinstance(result, errors.LowwaterError) and result.state not in (words.HELD, words.WAITING)


def _approved(attempt: _Attempt, batch: _Batch) -> _Batch:
    """Holds the intervals back of which a person must approve the warnings, and leaves the others."""
    left = []
    for turn in batch.turns:
        if turn.plan.ask and attempt.job.approval and turn.outcome.verdict == words.WARNED:
            reason = _how_to_approve(attempt.job, turn)
            attempt.results[turn.span] = replace(turn.outcome, state=words.HELD, reason=reason)
            if attempt.job.chained:
                _leave_behind(attempt, turn.span)
                break
        else:
            left.append(turn)
    return replace(batch, turns=left)


def _how_to_approve(job: Job, turn: _Turn) -> str:
    where, (start, end) = job.lake.root, map(format_instant, turn.span)
    return (
        "its audit warned, and a person must approve it: "
        f"`lowwater replay {job.query_set} --lake {where} --from {start} --to {end} --stage publish`"
    )


def _parts(batch: _Batch, whole: int) -> list[int]:
    """Divides a number of bytes among the intervals of a batch, by the packets that they read."""
    weights = [max(1, turn.plan.inputs.packets) for turn in batch.turns]
    return [whole * weight // sum(weights) for weight in weights]


def _low(attempt: _Attempt, batch: _Batch, begun: float) -> None:
    """Packets to the streams of LFTAs, with late packets and heartbeats. Where the high level is next, it begins too:
    punctuation closes its parts while this stage is at work."""
    job, (start, end), tunings = attempt.job, batch.span, attempt.job.tunings()
    taken = reuse.taken(job, batch.wanted, start, end, batch.folder(attempt.folder, "taken"))
    folder = batch.folder(attempt.shared or attempt.folder, "low")
    about = batch.inputs, job.low_settings(tunings), folder, tunings, attempt.progress.say
    level = low_level(*about, batch.anew - taken.files.keys())

    def beside() -> None:
        if runs.HIGH in batch.turns[0].plan.stages:
            attempt.high = _begun(attempt, batch, level.files, taken.files)

    result = low_stage(level, attempt.runner, beside, attempt.tell)
    accounts = Accounts()
    for link, late in taken.violations.items():
        runs.record_violations(job.lake, link, job.config.link(link), start, end, late)
    for each in result.links:
        accounts.add(each)
        runs.record_violations(job.lake, each.link, job.config.link(each.link), start, end, each.violations)
    accounts.check()
    rows, stored = {}, 0
    for lfta in (lfta for lfta in job.plan.lftas if lfta.name in batch.anew):
        own = [[*map(paths.lake_path, names)] for (name, _), names in result.files.items() if name == lfta.name]
        files, table = taken.files.get(lfta.name, own), job.lake.lfta(job.query_set, reuse.lfta_folder(lfta))
        about_table = layout.stream_schema(lfta.fields), {batch.span: files}, job.query_set, job.lake.fence
        key, stays = batch.lows[lfta.name], attempt.high is not None
        count = streams.write_stream(table, *about_table, key, stays)[batch.span]
        stored += streams.stream_bytes(table, start, end)
        made = lfta.name not in taken.files
        rows[lfta.name] = sum(accounts.counts(lfta.name, link)["rows_out"] for link in lfta.links) if made else count
    # Behind the files: where a run ends between, no row of the ledger says that these accounts are of those files.
    beats = [heartbeat_rows(each, start, end) for each in result.links]
    told = pa.concat_tables([taken.heartbeats, *beats])
    runs.record_heartbeats(job.lake, job.query_set, start, end, told, batch.lows.keys() - batch.anew)
    batch.took(begun)
    counts = accounts.lftas.values()
    promises = {name: sum(each[name] for each in counts) for name in ("punctuations", "spared")}
    there = {**reuse.lows_there(job, start, end), **{name: batch.lows[name] for name in batch.anew}}
    lows = {"lows": there, "ran": sorted(batch.anew - taken.files.keys()), "taken": sorted(taken.files)}
    account = {"promises": promises, **lows, **batch.range}
    if result.runs:  # on a cluster
        account["tasks"] = [asdict(run) for run in result.runs]
    total = None if batch.range else sum(rows.values())  # a batch does not count the rows of one interval
    attempt.hold(
        *(
            turn.journal.row("", _joined(turn.plan.digests), total, {**account, "stored": part})
            for turn, part in zip(batch.turns, _parts(batch, stored), strict=True)
        )
    )
    before = [row for row in batch.turns[0].journal.meeting() if row.stage == runs.LOW]
    if any(reuse.low_range(row) != batch.span for row in before):
        attempt.write()  # else the accounts, which are these now, would count as those of the rows of another range
    for turn in batch.turns:
        turn.outcome = replace(turn.outcome, state=runs.LOW, rows=rows)


def _begun(
    attempt: _Attempt,
    batch: _Batch,
    made: Mapping[tuple[str, str], list[str]] = MappingProxyType({}),
    taken: Mapping[str, Sequence[Sequence[PurePath]]] = MappingProxyType({}),
) -> Running:
    """Begins the high level over the files of the low one, by (LFTA, link), which is at work; over those that are
    taken, by LFTA; and of other LFTAs over those that are there."""
    job, evaluated, files = attempt.job, batch.evaluated, dict(made)
    for lfta in (lfta for lfta in evaluated.plan.lftas if lfta.name not in {name for name, _ in made}):
        table = job.lake.lfta(job.query_set, reuse.lfta_folder(lfta))
        parts = taken.get(lfta.name) or streams.stream_parts(table, *batch.span)
        # One part a link, in the order of the links: the low stage writes them so.
        for link, part in zip(sorted(lfta.links), parts, strict=True):
            files[lfta.name, link] = [str(path) for path in part]
    settings = {"tick": job.config.replay.tick, "most": attempt.runner.most}
    states = {query: StoredState(streams.kept_state(path), str(path)) for query, path in evaluated.held().items()}
    about = files, batch.folder(attempt.shared or attempt.folder, "high"), settings, states
    return attempt.begin_level(high_level(evaluated, *about, published=True, coming=frozenset(made)))


def _high(attempt: _Attempt, batch: _Batch, begun: float) -> None:
    """The streams of LFTAs to those of queries, with the states for the interval after."""
    job, folder = attempt.job, batch.folder(attempt.folder, "high")
    for turn in batch.turns:
        turn.journal.require(runs.LOW, "", _joined(turn.plan.digests))
        turn.outcome = replace(turn.outcome, state=runs.HIGH, rows={})
    evaluated, attempt.high = batch.evaluated, attempt.high or _begun(attempt, batch)
    results = high_results(attempt.high.result(attempt.tell))
    batch.took(begun)
    made, spans = list[runs.ReplayRow](), [turn.span for turn in batch.turns]
    asked, there = evaluated.plan.queries, batch.folder(attempt.shared or attempt.folder, "high")
    work = [partial(batches.divided, results[each.name], each.high.fields, spans, there / each.name) for each in asked]
    with tables.lake_errors(f"{job.query_set}: rows cannot be divided among intervals"):
        divided = [*(attempt.runner.tasks("division of rows") if len(spans) > 1 else map)(call, work)]
    for query, shares in zip(asked, divided, strict=True):
        result, stream = results[query.name], job.lake.stream(query.name)
        schema, own = layout.result_schema(query.high.fields), {span: share.files for span, share in shares.items()}
        streams.write_stream(stream, schema, own, job.query_set, job.lake.fence)
        for turn in batch.turns:
            digest = turn.plan.digests[query.name]
            accounting = {
                "operators": [asdict(operator) for operator in result.operators],
                "fingerprint": fingerprint(streams.stream_files(stream, *turn.span)),
                "seconds": round(result.seconds / len(spans), 3),
                "stored": streams.stream_bytes(stream, *turn.span),
                **batch.range,
            }
            if result.states:
                streams.keep_state(result.states, folder / f"state-{query.name}", _state(job, turn, query.name))
            made.append(turn.journal.row(query.name, digest, shares[turn.span].rows, accounting))
            turn.outcome.rows[query.name] = shares[turn.span].rows
    attempt.hold(*made)


def _audit(attempt: _Attempt, batch: _Batch, begun: float) -> _Batch:
    """Tests the streams of queries; where that fails, nothing of an interval is published (Q1). Returns the batch
    without such intervals."""
    written = list[dict[str, WrittenStream]]()
    for turn in batch.turns:
        rows = {query: turn.journal.require(runs.HIGH, query, digest) for query, digest in turn.plan.digests.items()}
        written.append(
            {
                query: WrittenStream(row.rows or 0, documents.stored_object(row.accounting).get("fingerprint", ""))
                for query, row in rows.items()
            }
        )
    inputs = [turn.plan.inputs for turn in batch.turns]
    verdicts = audit(attempt.job, inputs, written, attempt.scans, attempt.folder / "audit")
    batch.took(begun)
    made, passed, failed = list[runs.ReplayRow](), list[_Turn](), dict[runs.Range, errors.LowwaterError]()
    for turn, verdict in zip(batch.turns, verdicts, strict=True):
        if isinstance(verdict, errors.AuditError):
            failed[turn.span] = verdict
            if attempt.job.chained:
                _leave_behind(attempt, turn.span)
                break
            continue
        for query, count in verdict.rows.items():
            judged = {"verdict": verdict.verdict, "report": verdict.report, "fingerprint": verdict.fingerprints[query]}
            judged |= attempt.job.audit_key(query, turn.plan.digests[query])
            made.append(turn.journal.row(query, turn.plan.digests[query], count, {**verdict.accounting, **judged}))
        turn.outcome = replace(
            turn.outcome, state=runs.AUDIT, rows=verdict.rows, verdict=verdict.verdict, report=verdict.report
        )
        passed.append(turn)
    attempt.hold(*made)
    if failed:
        attempt.failed(failed)
    return replace(batch, turns=passed)


class _Audited(NamedTuple):
    """What the ledger keeps of an audit: its verdict, its page, and the fingerprint of the audited files."""

    verdict: str = ""
    report: str = ""
    fingerprint: str = ""

    @classmethod
    def of(cls, row: runs.ReplayRow) -> _Audited:
        account = documents.stored_object(row.accounting)
        return cls(*(str(account.get(name, "")) for name in cls._fields))


def _publish(attempt: _Attempt, batch: _Batch, begun: float) -> None:
    """The audited rows become visible in `tables/`, in place of those of the same intervals."""
    job, turns = attempt.job, batch.turns
    damages = {query.name: attempt.damages(query.name) for query in job.plan.queries}
    audits = [
        {
            name: _Audited.of(turn.journal.require(runs.AUDIT, name, digest))
            for name, digest in turn.plan.digests.items()
        }
        for turn in turns
    ]
    for turn, mine in zip(turns, audits, strict=True):
        for name, audited in mine.items():  # all of them first, so that one that changed holds back the others
            last = turn.journal.last(name)
            if last is None or last.digest != turn.plan.digests[name] or damages[name].get(turn.span):
                check_unchanged(job.lake, name, *turn.span, audited.fingerprint)
    # Captures that have come since the run began are for the next one: these rows are made without them.
    states = [turn.plan.inputs.state(turn.plan.inputs.require()) for turn in turns]
    made = list[runs.ReplayRow]()
    for turn, (now, why), mine in zip(turns, states, audits, strict=True):
        verdict, report, _ = [*mine.values()][-1]
        turn.outcome = Outcome(*turn.span, now, why, {}, False, turn.plan.digests, verdict, report)
    # A run that lost its lease must not remove those of a later one.
    handing = [query.name for query in job.plan.queries if properties.hands_over(query.high)]
    old_states = [old for name in handing for turn in turns for old in streams.other_states(_state(job, turn, name))]
    about, names = (job.lake, job.query_set), [query.name for query in job.plan.queries]
    with pins.publishing(*about, names) as act:
        for query in job.plan.queries:
            name, fields = query.name, query.high.fields
            prints = {
                turn.span: Audited(turn.plan.digests[name], mine[name].fingerprint)
                for turn, mine in zip(turns, audits, strict=True)
            }
            checks = suites.checks_of(job.suites.get(name, ()), layout.row_schema(fields))
            found = publish(*about, name, fields, prints, act, _words(query), checks)
            batch.took(begun)
            for turn, state in zip(turns, states, strict=True):
                made += _noted(turn, query, found[turn.span], *state)
        # One commit for the set: where a run ended before it, tables and ledger differ, and the next one mends it.
        attempt.write(*made)
        for old_state in old_states:
            paths.remove_tree(old_state)


def _noted(
    turn: _Turn, query: queryset.QueryPlan, publication: PublishResult, state: str, reason: str
) -> Iterator[runs.ReplayRow]:
    """Takes the publication of a query into the outcome of an interval, and yields the row of the ledger about it."""
    outcome, journal, last = turn.outcome, turn.journal, turn.journal.last(query.name)
    turn.outcome = replace(
        outcome,
        rows={**outcome.rows, query.name: publication.rows},
        committed=outcome.committed or publication.committed,
    )
    if publication.committed:
        now = {"state": state, "reason": reason, "publication": publication.number}
        accounting = {"inputs": turn.plan.inputs.key(query).summary}
        yield journal.row(query.name, turn.plan.digests[query.name], publication.rows, accounting, **now)
    elif last is not None:
        stands = replace(last, state=state, reason=reason) if _is_news(last, state) else last
        if stands != last or last.publication != publication.number:
            yield replace(stands, finished_at=journal.now(), publication=publication.number)
        if last.state == words.ROLLED_BACK:
            turn.outcome = replace(turn.outcome, state=last.state, reason=last.reason)


def _state(job: Job, turn: _Turn, query: str) -> PurePath:
    """The folder of the state that a query leaves for the interval after."""
    return streams.state_folder(job.lake, job.query_set, query, *turn.span, turn.plan.digests[query])


def _words(query: queryset.QueryPlan) -> dict[str, str]:
    """Properties that tell other tools what a published table holds."""
    texts = [text for label, text in query.parts if label.startswith("query ")]  # not the values of parameters
    return {"lowwater.query": "\n\n".join(texts), "lowwater.key": ", ".join(query.key or ())}
