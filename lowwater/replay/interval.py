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
from hashlib import sha256
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from lowwater import __version__, documents, errors
from lowwater.high.operators import StoredState
from lowwater.high.runner import Level, Runner, Running
from lowwater.instants import format_instant
from lowwater.lake import layout, locks, upkeep, words
from lowwater.lake.ledgers import intervals, runs
from lowwater.lake.results import pins, streams
from lowwater.lake.results.publish import check_unchanged, publish
from lowwater.lake.results.published import damage_of
from lowwater.lake.results.streams import fingerprint
from lowwater.lake.tables import fence_off
from lowwater.plan import properties, queryset
from lowwater.quality import judge, suites
from lowwater.quality.streams import WrittenStream
from lowwater.replay import reuse
from lowwater.replay.accounts import Accounts, heartbeat_rows
from lowwater.replay.job import IntervalInputs, Job, require_owned
from lowwater.replay.progress import Progress
from lowwater.replay.stages.audit import LinkScans, audit
from lowwater.replay.stages.engines import LowResult, high_level, high_results, low_level
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
    journal = _Journal(job, start, end, runs.PUBLISH)
    inputs = job.inputs(start, end, job.captures())
    digests = {query.name: inputs.digest(query) for query in job.plan.queries}
    if any(inputs.lost(query) for query in job.plan.queries) or not _is_published(journal, digests):
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
    evaluated: Callable[[], None] = lambda: None,
) -> Outcome:
    """Runs one interval through its stages, of STAGES one, or all, the last perhaps left out; may be called from
    several threads. `ask` as of `replay`; `evaluated` is called where low and high are done.
    Raises LowwaterError if the interval cannot be published. The error is in the ledger then, or waits on this machine
    until the lake can be written."""
    runner = runner.about(f"{job.query_set} {format_instant(start)}")
    with _attempt(job, start, end, progress, runner, stages[0]) as attempt:
        plan = _plan(attempt, stages, ask)
        if plan.published:
            return _confirm(attempt, plan)
        outcome = Outcome(start, end, plan.state, plan.reason, {}, False, plan.digests)
        if {runs.LOW, runs.HIGH, runs.AUDIT} & set(plan.stages):
            runner.begin()
        if runs.AUDIT in plan.stages:
            judge.begin()
        for stage in plan.stages:
            if stage == runs.PUBLISH and plan.ask and job.approval and outcome.verdict == words.WARNED:
                outcome = replace(outcome, state=words.HELD, reason=_how_to_approve(attempt))
                break
            if stage == runs.AUDIT:
                evaluated()
            attempt.journal.begin(stage)
            if runs.AUDIT in plan.stages and stage in (runs.HIGH, runs.AUDIT):
                # The first query of a session waits for a second or two, on one core.
                attempt.scans.begin(plan.inputs.to_scan, job.plan.links)
            with progress.stage(stage, f"{job.query_set} {format_instant(start)}") as attempt.tell:
                outcome = {runs.LOW: _low, runs.HIGH: _high, runs.AUDIT: _audit, runs.PUBLISH: _publish}[stage](
                    attempt, plan, outcome
                )
            attempt.journal.took()
        upkeep.tidy_ledgers(job.lake.root, job.lake.run_ledgers(), job.lake.all_measures())
        return outcome


# An attempt: the range of time is locked, and a failure is told.


@dataclass
class _Journal:
    """What one attempt writes into the ledger `replays` about its interval, while the range is locked."""

    job: Job
    start: int
    end: int
    stage: str  # at work
    tried: Mapping[str, str] = field(default_factory=dict)  # what it is made on (`IntervalInputs.tried`), once known
    seconds: dict[str, float] = field(default_factory=dict)  # that each stage took in this attempt
    begun: float = 0.0  # when the stage began, s of the monotonic clock
    latest: int = 0  # time of the newest row of the ledger, ns; 0 as long as it is unknown
    told: bool = False  # whether a failure is in the ledger, or kept for it

    def begin(self, stage: str) -> None:
        self.stage, self.begun = stage, time.monotonic()

    def took(self) -> None:
        self.seconds[self.stage] = round(time.monotonic() - self.begun, 3)

    def rows(self) -> list[runs.ReplayRow]:
        """The ledger rows of the interval, oldest first."""
        rows = runs.interval_replays(self.job.lake, self.job.query_set, self.start, self.end)
        return [row for row in rows if (row.interval_start, row.interval_end) == (self.start, self.end)]

    def last(self, query: str) -> runs.ReplayRow | None:
        """The publication of the visible rows of a query."""
        return runs.last_published(self.job.lake, self.job.query_set, query, self.start, self.end)

    def damage(self, query: str) -> str:
        """Why the table of a query does not have the rows that were published; empty if it has them."""
        return damage_of(self.job.lake, self.job.query_set, query, self.start, self.end)

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
            rows = runs.interval_replays(self.job.lake, self.job.query_set, self.start, self.end)
            self.latest = max((row.finished_at for row in rows), default=0)
        self.latest = max(time.time_ns(), self.latest + 1)
        return self.latest

    def row(self, query: str, digest: str, rows: int | None, accounting: dict[str, Any], **more: Any) -> runs.ReplayRow:
        """A row about a query, or the whole set, at the stage at work; `more` are further fields of the row."""
        replay, texts = self.job.config.replay, "".join(each.text for each in self.job.plan.queries)
        queries = sha256(texts.encode()).hexdigest()[:16]
        beat = {"heartbeat": str(replay.heartbeat), "tick": replay.tick}
        settings = json.dumps({**beat, "release": __version__, "queries": queries})
        about = self.job.query_set, query, self.start, self.end, self.stage, more.pop("state", "done"), self.now()
        kept = {"timings": json.dumps(self.seconds), "accounting": json.dumps(accounting), "settings": settings}
        return runs.ReplayRow(*about, digest=digest, rows=rows, **{"reason": "", **kept, **more})

    def write(self, *rows: runs.ReplayRow) -> None:
        runs.record_replays(self.job.lake, [*rows])

    def failed(self, error: errors.LowwaterError) -> None:
        """Writes a failure. What went wrong first is what is said, also where that fails."""
        self.told, lake = True, self.job.lake
        try:
            with failures.outages():
                self.write(self._failure(error))
            with suppress(errors.LowwaterError):
                upkeep.tidy_ledgers(lake.root, lake.run_ledgers(), lake.all_measures())
        except errors.AwayError:
            self.keep(error)
        except errors.LowwaterError:
            pass  # its lease is lost: another run tells

    def keep(self, error: errors.LowwaterError) -> None:
        self.latest = max(self.latest, time.time_ns())  # the ledger cannot be read either
        runs.keep_untold(self.job.lake, self._failure(error))

    def _failure(self, error: errors.LowwaterError) -> runs.ReplayRow:
        """The row of a failure: what it was tried on, and whether the same inputs would repeat it."""
        account = error.accounting if isinstance(error, errors.AuditError) else {}
        account = {**account, "tried": self.job.attempted(self.tried), "repeats": error.repeats}
        return self.row("", "", None, account, state=words.FAILED, reason=error.message)


@dataclass
class _Attempt:
    """One attempt at an interval, while its range is locked."""

    job: Job  # commits to its lake are refused once the lock is lost
    start: int
    end: int
    progress: Progress
    runner: Runner
    journal: _Journal
    folder: Path  # of this machine, for temporary files
    shared: PurePath | None  # of the lake, for files of tasks on other machines; None where there are none
    scans: LinkScans  # of records, for the audit
    begin_level: Callable[[Level], Running]
    high: Running | None = None  # the high level, once it has begun
    tell: Callable[[str], None] = lambda _: None  # says how far the stage at work is


@contextmanager
def _attempt(job: Job, start: int, end: int, progress: Progress, runner: Runner, stage: str) -> Iterator[_Attempt]:
    """Locks an interval for an attempt that begins with a stage. Its failure is written, or kept until it can be."""
    journal, lake = _Journal(job, start, end, stage), job.lake
    try:
        with (
            failures.outages(),
            locks.run_attempt(lake, job.query_set, start, end, _written(job)) as (folder, fence),
            locks.handed_over(lake, locks.folder_of_run(lake, job.query_set, start, end), runner.far) as shared,
            LinkScans(runner.tasks("audit")) as scans,
            runner.levels() as level,
        ):
            journal.job = replace(job, lake=replace(lake, fence=fence))
            try:
                with failures.outages():
                    yield _Attempt(journal.job, start, end, progress, runner, journal, folder, shared, scans, level)
            except (errors.BusyError, errors.OwnerError):
                raise  # says nothing about this interval: another run, or another query set, is at it
            except errors.LowwaterError as error:
                journal.failed(error)
                raise
    except errors.AwayError as error:
        if not journal.told:
            journal.keep(error)
        raise


def _written(job: Job) -> list[PurePath]:
    lftas = [job.lake.lfta(job.query_set, reuse.lfta_folder(lfta)) for lfta in job.plan.lftas]
    tables = [path for query in job.plan.queries for path in (job.lake.stream(query.name), job.lake.table(query.name))]
    return [*tables, *lftas, *job.lake.run_ledgers()]


# Plan: the inputs as they are now, and which stages they ask for.


@dataclass(frozen=True)
class _Plan:
    """What an attempt has to do."""

    inputs: IntervalInputs
    digests: dict[str, str]  # query -> digest of its inputs
    state: str  # that its publication would have now, and the reason why it is not done
    reason: str
    stages: tuple[str, ...]
    ask: bool  # whether it waits for a person where the audit warns and the settings ask for approval
    published: bool  # whether nothing is left to run
    # queries whose streams are of these inputs, as they are published: nothing is evaluated of them
    kept: frozenset[str] = frozenset()
    lows: Mapping[str, str] = field(default_factory=dict)  # LFTA -> key of its rows (`keys.low_key`)
    anew: frozenset[str] = frozenset()  # LFTAs to run: of the other queries, without rows of these keys
    # LFTA -> key of rows that the lake of a trial may have (`reuse.taken`), of those to run
    wanted: Mapping[str, str] = field(default_factory=dict)

    @property
    def evaluated(self) -> IntervalInputs:
        """The inputs, with the queries to evaluate."""
        return replace(self.inputs, plan=self.inputs.plan.without(self.kept)) if self.kept else self.inputs


def _plan(attempt: _Attempt, stages: tuple[str, ...], ask: bool) -> _Plan:
    """Reads the ledgers, and chooses the stages that the inputs ask for."""
    job, journal = attempt.job, attempt.journal
    # A run whose lease was taken over, and is only slow and not dead, writes nothing more.
    fence_off(_written(job), job.lake.fence)
    runs.tell_untold(job.lake)
    require_owned(job)  # before any work: another set's table is no matter of inputs
    inputs = job.inputs(attempt.start, attempt.end, job.captures())
    digests = {query.name: inputs.digest(query) for query in job.plan.queries}
    journal.tried = inputs.tried(digests)
    alone = len(stages) == 1
    lost = any(inputs.lost(query) for query in job.plan.queries)
    published = not alone and not lost and _is_published(journal, digests)
    # Gaps and policies are in the digests: what was let pass then, with --through-end too, stands.
    state, reason = inputs.state(inputs.gaps() if published else inputs.require())
    if alone and (outrun := _outrun(journal, stages[0], digests)):
        attempt.progress.say(f"  its inputs have changed since stage {outrun}: it begins again")
        stages, ask = STAGES[: STAGES.index(stages[0]) + 1], True  # consent was for another audit
    elif not alone and ask and intervals.consented(journal.rows(), digests):
        stages, ask = (runs.PUBLISH,), False
    plan = _Plan(inputs, digests, state, reason, stages, ask, published)
    return plan if published or stages[0] not in (runs.LOW, runs.HIGH) else _without_kept(attempt, plan, alone)


def _without_kept(attempt: _Attempt, plan: _Plan, alone: bool) -> _Plan:
    """Chooses the queries and LFTAs to run: those whose key has changed (S1). Where that is none, and after a failure
    of an audit, which may be of what was kept, it is all of them; so are the LFTAs of a stage that somebody asks for by
    itself, and those after a failure."""
    job, journal, bounds = attempt.job, attempt.journal, (attempt.start, attempt.end)
    rows, lows = journal.rows(), plan.inputs.low_keys()
    there = reuse.lows_there(job, *bounds)
    same = {name for name, key in lows.items() if key and there.get(name) == key}
    kept = {
        query.name
        for query in job.plan.queries
        if (last := journal.last(query.name)) is not None
        and last.digest == plan.digests[query.name]
        and {lfta.name for lfta in query.lftas} <= same
        and not journal.damage(query.name)
        and not plan.inputs.lost(query)
        and reuse.has_stream(job, rows, query.name, plan.digests[query.name], *bounds)
    }
    newest = [row for row in rows if row.query in ("", *plan.digests)][-1:]
    failed = bool(newest) and newest[0].state == words.FAILED
    if len(kept) == len(job.plan.queries) or (failed and newest[0].stage == runs.AUDIT):
        kept = set()
    needed = {lfta.name for query in job.plan.queries if query.name not in kept for lfta in query.lftas}
    trusted = not alone and not failed
    anew = needed - same if trusted else needed
    if kept:
        attempt.progress.say(f"  kept, since their inputs are the same: {', '.join(sorted(kept))}")
    wanted = {name: lows[name] for name in anew if lows[name]} if trusted else {}
    return replace(plan, kept=frozenset(kept), lows=lows, anew=frozenset(anew), wanted=wanted)


def _is_published(journal: _Journal, digests: dict[str, str]) -> bool:
    """Whether every query is published from these inputs, its table has the rows, and nothing has failed since.
    Raises LakeError if the rows of a roll back are damaged: a run would publish what a person has refused."""
    publications = [journal.last(query) for query in digests]
    mine = [row for row in journal.rows() if row.query in ("", *digests)]
    whole = (not mine or mine[-1].state != words.FAILED) and all(
        last is not None and last.digest == digests[last.query] for last in publications
    )
    for last in publications:
        if last is not None and (why := journal.damage(last.query)):
            if last.state == words.ROLLED_BACK and last.digest == digests[last.query]:
                raise errors.LakeError(
                    f"query {last.query}: {words.ROLLED_BACK}, and damaged since: {why}", AGAIN_OR_LIFT
                )
            whole = False
    return whole


def _outrun(journal: _Journal, stage: str, digests: dict[str, str]) -> str:
    """The first stage before one that ran on other inputs: settings, queries or captures have changed since; empty if
    none did."""
    newest = {(row.stage, row.query): row for row in journal.rows() if row.state != words.FAILED}
    for earlier in STAGES[: STAGES.index(stage)]:
        present = {"": _joined(digests)} if earlier == runs.LOW else digests
        ran = [newest.get((earlier, query)) for query in present]
        if any(row is not None and row.digest != present[row.query] for row in ran):
            return earlier
    return ""


def _joined(digests: dict[str, str]) -> str:
    return " ".join(digests[name] for name in sorted(digests))


def _confirm(attempt: _Attempt, plan: _Plan) -> Outcome:
    """Confirms a published interval; a provisional one becomes done once its links have reported, an incomplete one
    once what was missing is read or set aside."""
    journal = attempt.journal
    journal.begin(runs.PUBLISH)
    for query, digest in plan.digests.items():
        last = journal.last(query)
        assert last is not None
        if _is_news(last, plan.state):
            now = {"state": plan.state, "reason": plan.reason, "publication": last.publication}
            journal.write(journal.row(query, digest, last.rows, documents.stored_object(last.accounting), **now))
    return _stands(journal, plan.digests, plan.state, plan.reason)


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


# The stages. Each takes the outcome of those before, and returns its own; streams and the ledger are in the lake.


def _how_to_approve(attempt: _Attempt) -> str:
    where, start, end = attempt.job.lake.root, format_instant(attempt.start), format_instant(attempt.end)
    return (
        "its audit warned, and a person must approve it: "
        f"`lowwater replay {attempt.job.query_set} --lake {where} --from {start} --to {end} --stage publish`"
    )


def _low(attempt: _Attempt, plan: _Plan, outcome: Outcome) -> Outcome:
    """Packets to the streams of LFTAs, with late packets and heartbeats. Where the high level is next, it begins too:
    punctuation closes its parts while this stage is at work."""
    job, journal, start, end = attempt.job, attempt.journal, attempt.start, attempt.end
    tunings, folder = job.tunings(), attempt.shared or attempt.folder
    taken = reuse.taken(job, plan.wanted, start, end, attempt.folder / "taken")
    about = plan.inputs, job.low_settings(tunings), folder / "low", tunings, attempt.progress.say
    level = low_level(*about, plan.anew - taken.files.keys())
    low = attempt.begin_level(level) if level.tasks else None
    if runs.HIGH in plan.stages:
        attempt.high = _begun(attempt, plan, level.files, taken.files, coming=True)
    result = low.result(attempt.tell) if low else LowResult((), {})
    accounts = Accounts()
    for link, late in taken.violations.items():
        runs.record_violations(job.lake, link, job.config.link(link).skew, start, end, late)
    for each in result.links:
        accounts.add(each)
        runs.record_violations(job.lake, each.link, job.config.link(each.link).skew, start, end, each.violations)
    accounts.check()
    rows, stored = {}, 0
    for lfta in (lfta for lfta in job.plan.lftas if lfta.name in plan.anew):
        own = [[*map(paths.lake_path, names)] for (name, _), names in result.files.items() if name == lfta.name]
        files, table = taken.files.get(lfta.name, own), job.lake.lfta(job.query_set, reuse.lfta_folder(lfta))
        where = layout.stream_schema(lfta.fields), start, end
        key, stays = plan.lows[lfta.name], attempt.high is not None
        count = streams.write_stream(table, *where, files, job.query_set, job.lake.fence, key, stays)
        stored += streams.stream_bytes(table, start, end)
        made = lfta.name not in taken.files
        rows[lfta.name] = sum(accounts.counts(lfta.name, link)["rows_out"] for link in lfta.links) if made else count
    # Behind the files: where a run ends between, no row of the ledger says that these accounts are of those files.
    beats = [heartbeat_rows(each, start, end) for each in result.links]
    told = pa.concat_tables([taken.heartbeats, *beats])
    runs.record_heartbeats(job.lake, job.query_set, start, end, told, plan.lows.keys() - plan.anew)
    journal.took()
    counts = accounts.lftas.values()
    promises = {name: sum(each[name] for each in counts) for name in ("punctuations", "spared")}
    lows = {"lows": _made(attempt, plan), "ran": sorted(plan.anew - taken.files.keys()), "taken": sorted(taken.files)}
    account = {"promises": promises, "stored": stored, **lows}
    if low and low.runs:  # on a cluster
        account["tasks"] = [asdict(run) for run in low.runs]
    journal.write(journal.row("", _joined(plan.digests), sum(rows.values()), account))
    return replace(outcome, state=runs.LOW, rows=rows)


def _made(attempt: _Attempt, plan: _Plan) -> dict[str, str]:
    """LFTA -> key of the rows that are there once a low stage is done: that of the stage, or of the one before."""
    there = reuse.lows_there(attempt.job, attempt.start, attempt.end)
    return {**there, **{name: plan.lows[name] for name in plan.anew}}


def _begun(
    attempt: _Attempt,
    plan: _Plan,
    made: Mapping[tuple[str, str], list[str]] = MappingProxyType({}),
    taken: Mapping[str, Sequence[Sequence[PurePath]]] = MappingProxyType({}),
    coming: bool = False,
) -> Running:
    """Begins the high level over the files of the low one, by (LFTA, link), which may be coming; over those that are
    taken, by LFTA; and of other LFTAs over those that are there."""
    job, evaluated, files = attempt.job, plan.evaluated, dict(made)
    for lfta in (lfta for lfta in evaluated.plan.lftas if lfta.name not in {name for name, _ in made}):
        table = job.lake.lfta(job.query_set, reuse.lfta_folder(lfta))
        parts = taken.get(lfta.name) or streams.stream_parts(table, attempt.start, attempt.end)
        # One part a link, in the order of the links: the low stage writes them so.
        for link, part in zip(sorted(lfta.links), parts, strict=True):
            files[lfta.name, link] = [str(path) for path in part]
    settings = {"tick": job.config.replay.tick, "most": attempt.runner.most}
    states = {query: StoredState(streams.kept_state(path), str(path)) for query, path in evaluated.held().items()}
    about = files, (attempt.shared or attempt.folder) / "high", settings, states
    return attempt.begin_level(high_level(evaluated, *about, published=True, coming=coming))


def _high(attempt: _Attempt, plan: _Plan, outcome: Outcome) -> Outcome:
    """The streams of LFTAs to those of queries, with the states for the interval after."""
    job, journal, folder, bounds = attempt.job, attempt.journal, attempt.folder / "high", (attempt.start, attempt.end)
    journal.require(runs.LOW, "", _joined(plan.digests))
    evaluated, attempt.high = plan.evaluated, attempt.high or _begun(attempt, plan)
    results = high_results(attempt.high.result(attempt.tell))
    journal.took()
    made = []
    for query in evaluated.plan.queries:
        result, stream, digest = results[query.name], job.lake.stream(query.name), plan.digests[query.name]
        row_files = [paths.lake_path(path) for path in result.files]
        streams.write_stream(
            stream, layout.result_schema(query.high.fields), *bounds, row_files, job.query_set, job.lake.fence
        )
        accounting = {
            "operators": [asdict(operator) for operator in result.operators],
            "fingerprint": fingerprint(streams.stream_files(stream, *bounds)),
            "seconds": round(result.seconds, 3),
            "stored": streams.stream_bytes(stream, *bounds),
        }
        if result.states:
            streams.keep_state(result.states, folder / f"state-{query.name}", _state(attempt, query.name, digest))
        made.append(journal.row(query.name, digest, result.rows, accounting))
    journal.write(*made)
    return replace(outcome, state=runs.HIGH, rows={name: result.rows for name, result in results.items()})


def _audit(attempt: _Attempt, plan: _Plan, outcome: Outcome) -> Outcome:
    """Tests the streams of queries; a failure is an error, and nothing of the interval is published (Q1)."""
    journal, written = attempt.journal, {}
    for query, digest in plan.digests.items():
        row = journal.require(runs.HIGH, query, digest)
        written[query] = WrittenStream(row.rows or 0, documents.stored_object(row.accounting).get("fingerprint", ""))
    verdict = audit(attempt.job, plan.inputs, written, attempt.scans, attempt.folder / "audit")
    journal.took()
    made = []
    for query, count in verdict.rows.items():
        judged = {"verdict": verdict.verdict, "report": verdict.report, "fingerprint": verdict.fingerprints[query]}
        judged |= attempt.job.audit_key(query, plan.digests[query])
        made.append(journal.row(query, plan.digests[query], count, {**verdict.accounting, **judged}))
    journal.write(*made)
    return replace(outcome, state=runs.AUDIT, rows=verdict.rows, verdict=verdict.verdict, report=verdict.report)


class _Audited(NamedTuple):
    """What the ledger keeps of an audit: its verdict, its page, and the fingerprint of the audited files."""

    verdict: str = ""
    report: str = ""
    fingerprint: str = ""

    @classmethod
    def of(cls, row: runs.ReplayRow) -> _Audited:
        account = documents.stored_object(row.accounting)
        return cls(*(str(account.get(name, "")) for name in cls._fields))


def _publish(attempt: _Attempt, plan: _Plan, outcome: Outcome) -> Outcome:
    """The audited rows become visible in `tables/`, in place of those of the same interval."""
    job, journal, bounds = attempt.job, attempt.journal, (attempt.start, attempt.end)
    audits = {name: _Audited.of(journal.require(runs.AUDIT, name, digest)) for name, digest in plan.digests.items()}
    for name, audited in audits.items():  # all of them first, so that one that changed holds back the others
        last = journal.last(name)
        if last is None or last.digest != plan.digests[name] or journal.damage(name):
            check_unchanged(job.lake, name, *bounds, audited.fingerprint)
    # Captures that have come since the run began are for the next one: these rows are made without them.
    state, reason = plan.inputs.state(plan.inputs.require())
    rows, made, committed, shown = {}, list[runs.ReplayRow](), False, (state, reason)
    # A run that lost its lease must not remove those of a later one.
    handing = [query.name for query in job.plan.queries if properties.hands_over(query.high)]
    old_states = [each for name in handing for each in streams.other_states(_state(attempt, name, plan.digests[name]))]
    about, names = (job.lake, job.query_set), [query.name for query in job.plan.queries]
    with pins.publishing(*about, names) as act:
        for query in job.plan.queries:
            fields, digest, print_ = query.high.fields, plan.digests[query.name], audits[query.name].fingerprint
            checks = suites.checks_of(job.suites.get(query.name, ()), layout.row_schema(fields))
            publication = publish(*about, query.name, fields, *bounds, digest, print_, act, _words(query), checks)
            rows[query.name] = publication.rows
            last = journal.last(query.name)
            if publication.committed:
                committed = True
                journal.took()
                now = {"state": state, "reason": reason, "publication": publication.number}
                accounting = {"inputs": plan.inputs.key(query).summary}
                made.append(journal.row(query.name, digest, publication.rows, accounting, **now))
            elif last is not None:
                stands = replace(last, state=state, reason=reason) if _is_news(last, state) else last
                if stands != last or last.publication != publication.number:
                    made.append(replace(stands, finished_at=journal.now(), publication=publication.number))
                if last.state == words.ROLLED_BACK:
                    shown = last.state, last.reason
        # One commit for the set: where a run ended before it, tables and ledger differ, and the next one mends it.
        journal.write(*made)
        for old_state in old_states:
            paths.remove_tree(old_state)
    verdict, report, _ = [*audits.values()][-1]
    return Outcome(*bounds, *shown, rows, committed, plan.digests, verdict, report)


def _state(attempt: _Attempt, query: str, digest: str) -> PurePath:
    """The folder of the state that a query leaves for the interval after."""
    job = attempt.job
    return streams.state_folder(job.lake, job.query_set, query, attempt.start, attempt.end, digest)


def _words(query: queryset.QueryPlan) -> dict[str, str]:
    """Properties that tell other tools what a published table holds."""
    texts = [text for label, text in query.parts if label.startswith("query ")]  # not the values of parameters
    return {"lowwater.query": "\n\n".join(texts), "lowwater.key": ", ".join(query.key or ())}
