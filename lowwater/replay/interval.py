"""Runs the intervals of a query set over a lake: stages low, high, audit and publish, each recorded in the ledgers.

The command line and the tasks of Airflow call it. A stage reads its inputs from the lake, so the four stages may run in
one process or in four.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from lowwater import __version__
from lowwater.documents import stored_object
from lowwater.errors import AuditError, AwayError, BusyError, LakeError, LowwaterError, OwnerError
from lowwater.high.runner import Runner
from lowwater.instants import format_instant
from lowwater.lake.compaction import tidy_ledgers
from lowwater.lake.layout import Lake, lake_to_read, result_schema, row_schema, stream_schema
from lowwater.lake.ledgers import untold
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.coverage import gap_texts
from lowwater.lake.ledgers.intervals import HELD, RUNNING, StatusInputs, StatusRow, Timetable, status, timetable
from lowwater.lake.ledgers.missing import missing_texts, occupied_intervals
from lowwater.lake.ledgers.runs import (
    AUDIT,
    DONE,
    FAILED,
    HIGH,
    LOW,
    PROVISIONAL,
    PUBLISH,
    ROLLED_BACK,
    Publications,
    ReplayRow,
    last_published,
    read_replays,
    record_heartbeats,
    record_replays,
    record_violations,
)
from lowwater.lake.locks import at_work, folder_of_run, handed_over, run_attempt
from lowwater.lake.packets import PacketFiles
from lowwater.lake.results.pins import publishing
from lowwater.lake.results.publish import check_unchanged, publish
from lowwater.lake.results.streams import (
    fingerprint,
    keep_state,
    other_states,
    state_folder,
    stream_bytes,
    stream_files,
    stream_parts,
    write_stream,
)
from lowwater.lake.results.table_state import damage_of, damages
from lowwater.lake.run_inputs import changes
from lowwater.lake.tables import check_owner, fence_off
from lowwater.plan.operators import Lfta
from lowwater.plan.properties.state import hands_over
from lowwater.plan.queryset import QueryPlan
from lowwater.plan.temporal import END_OF_TIME
from lowwater.quality import suites as judging
from lowwater.quality.streams import WrittenStream
from lowwater.quality.suites import checks_of, suite_digest
from lowwater.replay.accounts import Accounts, heartbeat_rows
from lowwater.replay.consent import WARNED, consented
from lowwater.replay.job import IntervalInputs, Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.links import set_names
from lowwater.replay.stages.audit import LinkScans, audit
from lowwater.replay.stages.engines import high_stage, last_instant, low_stage, state_folders
from lowwater.replay.stages.runners import runner_of, task_account
from lowwater.storage import paths
from lowwater.storage.failures import outages

STAGES = (LOW, HIGH, AUDIT, PUBLISH)

AGAIN_OR_LIFT = "roll it back again with `lowwater rollback`, or lift the roll back with --lift"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one interval.

    Attributes:
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        state: done, provisional or incomplete; the name of the stage if only one was run.
        reason: why the interval is not done; empty if it is.
        rows: query -> number of rows.
        committed: whether anything in `tables/` changed.
        digests: query -> digest of its inputs (S1).
        verdict: verdict of the audit, passed or warned; empty without an audit.
        report: absolute path of the audit's page; empty without an audit.
    """

    start: int
    end: int
    state: str
    reason: str
    rows: dict[str, int]
    committed: bool
    digests: dict[str, str] = field(default_factory=dict)
    verdict: str = ""
    report: str = ""


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
    """Runs the intervals of [start, end), ns, one after another.

    An interval that was published from the same inputs is skipped. A failure is recorded and ends the
    call; earlier intervals stay published. Only audits go on with the other intervals, and fail at the end.

    Args:
        job: the query set.
        start: first instant, a bound of an interval, ns since the epoch.
        end: end, a bound of an interval, ns since the epoch, exclusive.
        stage: stage to run; None for all.
        progress: reports the stages.
        runner: does the work; None for the one that the settings name.
        hold: stop before publishing; an interval that is already published is still skipped.
        ask: the interval of a look, or a stretch of them, which runs as one; it is not published where the audit warned
            and the settings ask for approval.

    Raises:
        GapError: a link has not reported.
        LowwaterError: an interval cannot be published for another reason.
    """
    job.prepare()
    runner = runner or runner_of("lowwater replay", job.config, progress)
    intervals = [(start, end)] if ask else job.intervals(start, end)
    outcomes, failed = list[Outcome](), list[LowwaterError]()
    for at, until in intervals:
        try:
            outcomes.append(_Run(job, at, until, progress, runner, ask=ask).run(stage, hold))
        except LowwaterError as error:
            if stage != AUDIT or isinstance(error, BusyError | AwayError | OwnerError):
                raise
            failed.append(error)
    if failed:
        for other in failed[:-1]:
            progress.say(f"  {other.message}")
        raise failed[-1]
    return outcomes


def run_interval(job: Job, start: int, end: int, progress: Progress, runner: Runner, ask: bool = False) -> Outcome:
    """Runs one interval through all stages; may be called from several threads.

    Args:
        job: the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        progress: reports the stages.
        runner: does the work.
        ask: stop before publishing where the audit warned and the settings ask for approval.

    Raises:
        LowwaterError: the interval cannot be published; the error is recorded.
    """
    return _Run(job, start, end, progress, runner, ask=ask).run(None, False)


@dataclass
class _Run:
    """The run of one interval of a query set, while its lock is held."""

    job: Job
    start: int
    end: int
    progress: Progress
    runner: Runner
    seconds: dict[str, float] = field(default_factory=dict)
    scans: LinkScans = field(init=False)  # for the audit
    verdict: str = ""  # of the audit, once it is known; `report` its page
    report: str = ""
    promises: dict[str, int] = field(default_factory=dict)  # of the low stage: stored, and left out
    stored: int = 0  # bytes of the rows of LFTAs
    cluster: dict[str, Any] = field(default_factory=dict)  # of the stage: where tasks ran, and lost executors
    latest: int = 0  # time of the newest row of the ledger, ns; 0 as long as it is unknown
    shared: PurePath | None = None  # folder of the lake for files of tasks on other machines
    ask: bool = False  # whether a person approves warnings, if the settings say so
    current: str = LOW  # stage at work
    tried: dict[str, str] = field(default_factory=dict)  # digests of its inputs, once they are known
    told: bool = False  # whether its failure is in the ledger, or kept for it

    def run(self, stage: str | None, hold: bool) -> Outcome:
        """Runs the stages. A failure is in the ledger then, or waits on this machine until the lake can be written."""
        stages: tuple[str, ...] = (stage,) if stage else STAGES[:-1] if hold else STAGES
        self.current = stages[0]
        lake, query_set = self.job.lake, self.job.query_set
        try:
            with (
                outages(),
                run_attempt(lake, query_set, self.start, self.end, self._written()) as (folder, fence),
                handed_over(lake, self._handed(), self.runner.far) as shared,
                LinkScans(self.runner.scanning()) as self.scans,
            ):
                self.shared = shared
                self.job = replace(self.job, lake=replace(lake, fence=fence))
                try:
                    with outages():
                        return self._run(stage, stages, folder)
                except (BusyError, OwnerError):
                    raise  # says nothing about this interval: another run, or another query set, is at it
                except LowwaterError as error:
                    self._failed(error)
                    raise
        except AwayError as error:
            if not self.told:
                self._keep(error)
            raise

    def _handed(self) -> PurePath:
        return folder_of_run(self.job.lake, self.job.query_set, self.start, self.end)

    def _failed(self, error: LowwaterError) -> None:
        """Records a failure. What went wrong first is what is said, also where that fails."""
        self.told = True
        try:
            with outages():
                self._record(self.current, FAILED, "", "", None, self._account(error), error.message)
            with suppress(LowwaterError):
                self._end()
        except AwayError:
            self._keep(error)
        except LowwaterError:
            pass  # its lease is lost: another run tells

    def _keep(self, error: LowwaterError) -> None:
        """Keeps a failure that cannot be recorded."""
        self.latest = max(self.latest, time.time_ns())
        row = self._row(self.current, FAILED, "", "", None, self._account(error), error.message)
        untold.keep(self.job.lake, row)

    def _account(self, error: LowwaterError) -> dict[str, Any]:
        """What is kept of a failure: what it was tried on, and whether the same inputs would repeat it."""
        account = error.accounting if isinstance(error, AuditError) else {}
        return {**account, "tried": self.job.attempted(self.tried), "repeats": error.repeats}

    def _run(self, stage: str | None, stages: tuple[str, ...], folder: Path) -> Outcome:
        # A run whose lease was taken over, and is only slow and not dead, writes nothing more.
        fence_off(self._written(), self.job.lake.fence)
        untold.tell(self.job.lake)
        for query in self.job.plan.queries:  # before any work: another set's table is no matter of inputs
            check_owner(self.job.lake.stream(query.name), self.job.query_set)
            check_owner(self.job.lake.table(query.name), self.job.query_set)
        inputs = self.job.inputs(self.start, self.end, self.job.captures())
        digests = {query.name: inputs.digest(query) for query in self.job.plan.queries}
        self.tried = digests
        lost = any(inputs.lost(query) for query in self.job.plan.queries)
        confirms = stage is None and not lost and self._published(digests)
        # Gaps and policies are in the digests: what was let pass then, with --through-end too, stands.
        excluded = inputs.gaps() if confirms else inputs.require()
        state, reason = inputs.state(excluded)
        if stage is not None and not confirms and (outrun := self._outrun(stage, digests)):
            self.progress.say(f"  its inputs have changed since stage {outrun}: it begins again")
            stages, self.ask = STAGES[: STAGES.index(stage) + 1], True  # consent was for another audit
        if stage is None and self.ask and consented(self._rows(), digests):
            stages, self.ask = (PUBLISH,), False
        if confirms:
            outcome = self._confirm(digests, state, reason)
            return replace(outcome, digests=digests, verdict=self.verdict, report=self.report)
        outcome = Outcome(self.start, self.end, state, reason, {}, False)
        if {LOW, HIGH, AUDIT} & set(stages):
            self.runner.begin()
        if AUDIT in stages:
            judging.begin()
        for next_stage in stages:
            if next_stage == PUBLISH and self.ask and self.job.approval and self.verdict == WARNED:
                outcome = replace(outcome, state=HELD, reason=self._consent())
                break
            self.current = next_stage
            if AUDIT in stages and next_stage in (HIGH, AUDIT):
                # The first query of a session waits for a second or two, on one core.
                self.scans.begin(inputs.to_scan, self.job.plan.links)
            outcome = self._stage(next_stage, inputs, digests, outcome, folder)
        self._end()
        return replace(outcome, digests=digests, verdict=self.verdict, report=self.report)

    def _written(self) -> list[PurePath]:
        """The tables that the run writes."""
        lake, plan = self.job.lake, self.job.plan
        lftas = [lake.lfta(self.job.query_set, lfta_folder(lfta)) for lfta in plan.lftas]
        tables = [path for query in plan.queries for path in (lake.stream(query.name), lake.table(query.name))]
        return [*tables, *lftas, *lake.run_ledgers()]

    def _end(self) -> None:
        """Joins small files of ledgers."""
        lake = self.job.lake
        tidy_ledgers(lake.root, lake.run_ledgers(), lake.all_measures())

    def _stage(
        self, stage: str, inputs: IntervalInputs, digests: dict[str, str], outcome: Outcome, folder: Path
    ) -> Outcome:
        begin = time.monotonic()
        detail = f"{self.job.query_set} {format_instant(self.start)}"
        with self.progress.stage(stage, detail):
            if stage == LOW:
                rows = self._low(inputs, folder / "low")
            elif stage == HIGH:
                rows = self._high(inputs, digests, folder / "high")
            elif stage == AUDIT:
                rows = self._audit(inputs, digests, folder / "audit")
            else:
                return self._publish(inputs, digests, outcome)
        self.seconds[stage] = round(time.monotonic() - begin, 3)
        if stage == LOW:
            account = {"promises": self.promises, "stored": self.stored, **self.cluster}
            self._record(LOW, "done", "", _joined(digests), sum(rows.values()), account)
        return Outcome(self.start, self.end, stage, outcome.reason, rows, False) if stage != PUBLISH else outcome

    def _consent(self) -> str:
        """Says what waits, and how a person approves it."""
        where, start, end = self.job.lake.root, format_instant(self.start), format_instant(self.end)
        return (
            "its audit warned, and a person must approve it: "
            f"`lowwater replay {self.job.query_set} --lake {where} --from {start} --to {end} --stage publish`"
        )

    def _outrun(self, stage: str, digests: dict[str, str]) -> str:
        """The first stage before one that ran on other inputs: settings, queries or captures have changed since; empty
        if none did."""
        newest = {(row.stage, row.query): row for row in self._rows() if row.state != FAILED}
        for earlier in STAGES[: STAGES.index(stage)]:
            present = {"": _joined(digests)} if earlier == LOW else digests
            ran = [newest.get((earlier, query)) for query in present]
            if any(row is not None and row.digest != present[row.query] for row in ran):
                return earlier
        return ""

    def _published(self, digests: dict[str, str]) -> bool:
        """Whether every query is published from these inputs, its table has the rows, and nothing has failed since.

        Raises:
            LakeError: the rows of a roll back are damaged: a run would publish what a person has refused.
        """
        publications = [self._last(query) for query in digests]
        mine = [row for row in self._rows() if row.query in ("", *digests)]
        whole = (not mine or mine[-1].state != FAILED) and all(
            last is not None and last.digest == digests[last.query] for last in publications
        )
        for last in publications:
            if last is not None and (why := self._damage(last.query)):
                if last.state == ROLLED_BACK and last.digest == digests[last.query]:
                    raise LakeError(f"query {last.query}: {ROLLED_BACK}, and damaged since: {why}", AGAIN_OR_LIFT)
                whole = False
        return whole

    def _damage(self, query: str) -> str:
        return damage_of(self.job.lake, self.job.query_set, query, self.start, self.end)

    def _last(self, query: str) -> ReplayRow | None:
        return last_published(self.job.lake, self.job.query_set, query, self.start, self.end)

    def _confirm(self, digests: dict[str, str], state: str, reason: str) -> Outcome:
        """Confirms a published interval; a provisional one becomes done once its links have reported, an incomplete one
        once what was missing is read or set aside."""
        rows, outcome_state, why = {}, state, reason
        for query in digests:
            last = self._last(query)
            assert last is not None
            rows[query] = last.rows or 0
            if last.state == ROLLED_BACK:  # stands for these inputs, until somebody lifts it
                outcome_state, why = ROLLED_BACK, last.reason
            elif last.state != state and not (last.state == DONE and state == PROVISIONAL):
                accounting = stored_object(last.accounting)
                of_rows = last.rows, accounting, reason, last.publication
                self._record(PUBLISH, state, query, digests[query], *of_rows)
        for row in self._rows():
            if row.stage == AUDIT and row.query in digests:
                self._recall(row)
        return Outcome(self.start, self.end, outcome_state, why, rows, False)

    def _low(self, inputs: IntervalInputs, folder: Path) -> dict[str, int]:
        job = self.job
        tasks = self.runner.low()
        tunings = job.tunings()
        rows_folder = self.shared / "low" if self.shared is not None and getattr(tasks, "far", False) else folder
        result = low_stage(inputs, job.low_settings(tunings), rows_folder, tasks, tunings, self.progress.say)
        self.cluster = task_account(tasks)
        accounts = Accounts()
        for outcome in result.outcomes:
            accounts.add(outcome.result)
            link = outcome.result.link
            skew = job.config.link(link).skew
            record_violations(job.lake, link, skew, self.start, self.end, outcome.result.violations)
        accounts.check()
        beats = [heartbeat_rows(outcome.result, self.start, self.end) for outcome in result.outcomes]
        record_heartbeats(job.lake, job.query_set, self.start, self.end, pa.concat_tables(beats))
        lfta_counts = accounts.lftas.values()
        self.promises = {name: sum(counts[name] for counts in lfta_counts) for name in ("punctuations", "spared")}
        rows = {}
        for lfta in job.plan.lftas:
            files = [[*map(paths.lake_path, names)] for (name, _), names in result.files.items() if name == lfta.name]
            table = job.lake.lfta(job.query_set, lfta_folder(lfta))
            write_stream(table, stream_schema(lfta.fields), self.start, self.end, files, job.query_set, job.lake.fence)
            self.stored += stream_bytes(table, self.start, self.end)
            rows[lfta.name] = sum(accounts.counts(lfta.name, link)["rows_out"] for link in lfta.links)
        return rows

    def _high(self, inputs: IntervalInputs, digests: dict[str, str], folder: Path) -> dict[str, int]:
        job = self.job
        self._require(LOW, "", _joined(digests))
        files = {}
        for lfta in job.plan.lftas:
            parts = stream_parts(job.lake.lfta(job.query_set, lfta_folder(lfta)), self.start, self.end)
            # One part a link, in the order of the links: the low stage writes them so.
            for link, part in zip(sorted(lfta.links), parts, strict=True):
                files[lfta.name, link] = [str(path) for path in part]
        chosen = {"tick": job.config.replay.tick}
        begin = time.monotonic()
        states = {query: paths.local_folder(path) for query, path in inputs.held().items()}
        rows_folder = None if self.shared is None else self.shared / "high"
        rows = []
        stage = self.runner, inputs, files, folder, chosen, states
        results = high_stage(*stage, published=True, rows=rows_folder)
        self.seconds[HIGH] = round(time.monotonic() - begin, 3)
        for query in job.plan.queries:
            result = results[query.name]
            row_files = [paths.lake_path(path) for path in result.files]
            schema = result_schema(query.high.fields)
            write_stream(
                job.lake.stream(query.name), schema, self.start, self.end, row_files, job.query_set, job.lake.fence
            )
            accounting = {
                "operators": [asdict(operator) for operator in result.operators],
                "fingerprint": fingerprint(stream_files(job.lake.stream(query.name), self.start, self.end)),
                "seconds": round(result.seconds, 3),
                "stored": stream_bytes(job.lake.stream(query.name), self.start, self.end),
                **self.cluster,
            }
            state_files = state_folders(job.plan, folder)[query.name]
            if state_files.is_dir():
                keep_state(state_files, self._state(query.name, digests))
            rows.append(self._row(HIGH, "done", query.name, digests[query.name], result.rows, accounting))
        record_replays(job.lake, rows)  # one commit
        return {name: result.rows for name, result in results.items()}

    def _audit(self, inputs: IntervalInputs, digests: dict[str, str], folder: Path) -> dict[str, int]:
        """Runs the audit; a failure is an error, and nothing of the interval is published (Q1)."""
        written = {}
        for query, digest in digests.items():
            row = self._require(HIGH, query, digest)
            stored = stored_object(row.accounting)
            written[query] = WrittenStream(row.rows or 0, stored.get("fingerprint", ""))
        begin = time.monotonic()
        verdict = audit(self.job, inputs, written, self.scans, folder)
        self.seconds[AUDIT] = round(time.monotonic() - begin, 3)
        self.verdict, self.report = verdict.verdict, verdict.report
        rows = []
        for query, count in verdict.rows.items():
            judged = {"verdict": verdict.verdict, "report": verdict.report, "fingerprint": verdict.fingerprints[query]}
            judged["suite"] = suite_digest(self.job.suites.get(query, ()))
            accounting = {**verdict.accounting, **judged}
            rows.append(self._row(AUDIT, "done", query, digests[query], count, accounting))
        record_replays(self.job.lake, rows)
        return verdict.rows

    def _publish(self, inputs: IntervalInputs, digests: dict[str, str], outcome: Outcome) -> Outcome:
        job, begin = self.job, time.monotonic()
        prints = {name: self._recall(self._require(AUDIT, name, digest)) for name, digest in digests.items()}
        for name, audited in prints.items():  # all of them first, so that one that changed holds back the others
            last = self._last(name)
            if last is None or last.digest != digests[name] or self._damage(name):
                check_unchanged(job.lake, name, self.start, self.end, audited)
        # Captures that have come since the run began are for the next one: these rows are made without them.
        state, reason = inputs.state(inputs.require())
        rows, committed, names = {}, False, [query.name for query in job.plan.queries]
        made: list[ReplayRow] = []
        # A run that lost its lease must not remove those of a later one.
        handing = [query.name for query in job.plan.queries if hands_over(query.high)]
        old_states = [each for name in handing for each in other_states(self._state(name, digests))]
        with publishing(job.lake, job.query_set, names) as act:
            for query in job.plan.queries:
                fields, digest, audited = query.high.fields, digests[query.name], prints[query.name]
                publication = publish(
                    job.lake,
                    job.query_set,
                    query.name,
                    fields,
                    self.start,
                    self.end,
                    digest,
                    audited,
                    act,
                    _words(query),
                    checks_of(job.suites.get(query.name, ()), row_schema(fields)),
                )
                rows[query.name] = publication.rows
                last = self._last(query.name)
                if publication.committed:
                    committed = True
                    self.seconds[PUBLISH] = round(time.monotonic() - begin, 3)
                    of_rows = publication.rows, {"inputs": inputs.parts(query)}, reason, publication.number
                    made.append(self._row(PUBLISH, state, query.name, digest, *of_rows))
                elif last is not None and last.publication != publication.number:
                    made.append(replace(last, finished_at=self._now(), publication=publication.number))
            # One commit for the set: where a run ended before it, tables and ledger differ, and the next one mends it.
            record_replays(job.lake, made)
            for old_state in old_states:
                paths.remove_tree(old_state)
        return Outcome(self.start, self.end, state, reason, rows, committed)

    def _state(self, query: str, digests: dict[str, str]) -> PurePath:
        return state_folder(self.job.lake, self.job.query_set, query, self.start, self.end, digests[query])

    def _now(self) -> int:
        """The time of a new row, ns: later than all rows about instants of the interval, since the newest one counts,
        and another machine that wrote one may have a clock that is ahead."""
        if not self.latest:  # the range is locked: nobody else adds rows meanwhile
            rows = read_replays(self.job.lake, self.job.query_set, (self.start, self.end))
            self.latest = max((row.finished_at for row in rows), default=0)
        self.latest = max(time.time_ns(), self.latest + 1)
        return self.latest

    def _rows(self) -> list[ReplayRow]:
        """The ledger rows of the interval, oldest first."""
        rows = read_replays(self.job.lake, self.job.query_set, (self.start, self.end))
        return [row for row in rows if (row.interval_start, row.interval_end) == (self.start, self.end)]

    def _recall(self, row: ReplayRow) -> str:
        """Reads verdict and report from the record of an audit; returns the fingerprint of the audited files."""
        accounting = stored_object(row.accounting)
        self.verdict, self.report = accounting.get("verdict", ""), accounting.get("report", "")
        return str(accounting.get("fingerprint", ""))

    def _require(self, stage: str, query: str, digest: str) -> ReplayRow:
        """Returns the newest row of an earlier stage, which ran on these inputs."""
        # A failure is recorded for the whole query set.
        rows = [row for row in self._rows() if row.stage == stage and row.query in (query, "")]
        if not rows or rows[-1].state == FAILED or rows[-1].digest != digest:
            cause = "failed" if rows and rows[-1].state == FAILED else "has not run"
            interval = format_instant(self.start)
            raise LakeError(
                f"interval {interval}: stage {stage} {cause}", f"run `lowwater replay` with --stage {stage}"
            )
        return rows[-1]

    def _record(self, *fields: Any) -> None:
        """Records a row with the fields of `_row`."""
        record_replays(self.job.lake, [self._row(*fields)])

    def _row(
        self,
        stage: str,
        state: str,
        query: str,
        digest: str,
        rows: int | None,
        accounting: dict[str, Any] | None = None,
        reason: str = "",
        publication: int | None = None,
    ) -> ReplayRow:
        """A row of the ledger about a stage of this interval."""
        replay, texts = self.job.config.replay, "".join(each.text for each in self.job.plan.queries)
        queries = sha256(texts.encode()).hexdigest()[:16]
        settings = json.dumps(
            {"heartbeat": str(replay.heartbeat), "tick": replay.tick, "release": __version__, "queries": queries}
        )
        return ReplayRow(
            query_set=self.job.query_set,
            query=query,
            interval_start=self.start,
            interval_end=self.end,
            stage=stage,
            state=state,
            finished_at=self._now(),
            reason=reason,
            digest=digest,
            rows=rows,
            settings=settings,
            timings=json.dumps(self.seconds),
            accounting=json.dumps(accounting or {}),
            publication=publication,
        )


def lfta_folder(lfta: Lfta) -> str:
    """The folder of an LFTA's rows; it contains a hash of the columns, so a changed query gets a new folder."""
    columns = ",".join(f"{f.name}:{f.type}" for f in lfta.fields)
    return f"{lfta.name}-{sha256(columns.encode()).hexdigest()[:8]}"


def _words(query: QueryPlan) -> dict[str, str]:
    """Properties that tell other tools what a published table holds."""
    texts = [text for label, text in query.parts if label.startswith("query ")]  # not the values of parameters
    return {"lowwater.query": "\n\n".join(texts), "lowwater.key": ", ".join(query.key or ())}


def _joined(digests: dict[str, str]) -> str:
    return " ".join(digests[name] for name in sorted(digests))


def statuses(
    root: PurePath, queries: Path, tell: Callable[[str, LowwaterError], None] | None = None
) -> list[StatusRow]:
    """The state of every interval of the query sets that are configured or were ever run; without any, of those in a
    folder.

    Args:
        root: folder of the lake.
        queries: folder of query sets.
        tell: called with each query set that cannot be planned and the error; None raises the first error.
    """
    sets = []
    for name in set_names(root, queries):
        try:
            job = Job.open(root, name, queries)
            sets.append(expected(job, job.captures()))
        except LowwaterError as error:
            if tell is None:
                raise
            tell(name, error)
    lake = lake_to_read(root)
    return with_running(lake, status(lake, sets))


def with_running(lake: Lake, rows: Sequence[StatusRow]) -> list[StatusRow]:
    """Returns the states of intervals, of which those are `running` on which a process is at work now."""
    held = {name: at_work(lake, name) for name in {row.query_set for row in rows}}
    shown = []
    for row in rows:
        spans = held[row.query_set].items()
        who = next((who for (first, last), who in spans if first < row.end and row.start < last), "")
        shown.append(replace(row, state=RUNNING, reason=who, lacking=()) if who else row)
    return shown


def expected(job: Job, captures: Mapping[str, Captures]) -> StatusInputs:
    """Collects what `status` needs to know of a query set, given the captures of its links."""
    queries = {query.name: query for query in job.plan.queries}
    known, past = job.known_missing(captures), Publications(job.lake, job.query_set)

    def digest(query: str, start: int, end: int) -> str:
        return job.inputs(start, end, captures, known, past).digest(queries[query])

    def changed(query: str, start: int, end: int, accounting: str) -> str:
        before = stored_object(accounting).get("inputs", {})
        return "; ".join(changes(before, job.inputs(start, end, captures, known, past).parts(queries[query]), captures))

    def outdated(start: int, end: int) -> str:
        return "; ".join(job.inputs(start, end, captures, known, past).outdated())

    def lacking(start: int, end: int) -> list[str]:
        return job.inputs(start, end, captures, known, past).lacking()

    def lost(query: str, start: int, end: int) -> str:
        return job.inputs(start, end, captures, known, past).lost(queries[query])

    def missing(start: int, end: int) -> list[str]:
        return missing_texts(job.inputs(start, end, captures, known, past).missing())

    def gaps(start: int, end: int) -> list[str]:
        inputs = job.inputs(start, end, captures, known, past)
        return gap_texts(inputs.gaps(), captures, inputs.why_needed)

    def unsettled(start: int, end: int) -> str:
        # Of a year of intervals few end where coverage does.
        return job.inputs(start, end, captures, known, past).open() if times.in_gap(end, end + longest) else ""

    times, longest = (
        times_of(job, captures),
        max((job.config.link(link).longest_skew for link in job.plan.links), default=0),
    )
    return StatusInputs(
        job.query_set,
        tuple(queries),
        times,
        digest,
        outdated,
        lacking,
        changed=changed,
        lost=lost,
        missing=missing,
        gaps=gaps,
        unsettled=unsettled,
        damages=lambda query, rows: damages(job.lake, query, rows),
    )


def times_of(job: Job, captures: Mapping[str, Captures]) -> Timetable:
    """The intervals of a query set, given the captures of its links."""
    rows = {link: Captures.of(captures.get(link, ())) for link in job.plan.links}
    at = max((each.end or 0 for each in rows.values()), default=0) // job.length * job.length
    starts = job.inputs(at, at + job.length, captures).link_starts(job.plan.queries)
    return timetable(
        rows,
        {link: job.config.link(link) for link in rows},
        job.length,
        occupied_intervals(PacketFiles.of(job.lake), rows, job.config, job.length),
        end_of_rows(job, captures),
        at - min(starts.values(), default=at),
        job.passed,
    )


def end_of_rows(job: Job, captures: Mapping[str, Captures]) -> int:
    """The first instant (ns) after the last possible row of a query set whose links have all ended and are fully
    covered.

    0 where a link goes on or its end is unknown.
    """
    ends = []
    for name in job.plan.links:
        settings = job.config.link(name)
        covered = Captures.of(captures.get(name, ())).end or 0
        if settings.until is None or covered + settings.gap_tolerance < settings.until:
            return 0
        ends.append(settings.until)
    if not ends:
        return 0
    last = max(last_instant(job.config, query, max(ends) - 1) for query in job.plan.queries)
    return last + 1 if last < END_OF_TIME - 1 else 0
