"""The operators of a schedule that takes care of itself: ingest what is new, look at a query set, run what is due.

Airflow's clock says when to look, not what to look at. Each look asks the lake (`replay.schedule.looks`), so it does
not matter which runs were missed or failed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseXCom, Context
from airflow.sdk.exceptions import AirflowSkipException

from lowwater.config import load_config
from lowwater.errors import BusyError, CaptureError, GapError, LowwaterError
from lowwater.instants import format_instant, parse_instant, spoken_duration
from lowwater.lake.words import BLOCKED, DONE, HELD, RUNNING, WAITING
from lowwater.storage.captures import capture_path
from lowwater.storage.paths import lake_path
from lowwater_airflow.alerts import has_connection
from lowwater_airflow.checks import of_notify
from lowwater_airflow.child import error_of
from lowwater_airflow.notes import FATES, FOUND
from lowwater_airflow.operators import (
    MOST_TOLD,
    IngestCaptures,
    PublishInterval,
    ingest_spark,
    interval_of,
    tell_ingested,
    telling,
    told_refusals,
)
from lowwater_airflow.retries import FIRST, Patient

if TYPE_CHECKING:
    from lowwater.lake.ingestion.batch import IngestResult
    from lowwater.replay.job import Job
    from lowwater.replay.schedule.due import Due
    from lowwater.replay.schedule.looks import Left

TITLE = "{{ map_index_label | default(task.title) }}"
"""Name of a mapped task: its hour or file, which `policy` gives to those that wait; then with its state."""
MOST_NAMED = 3
"""Most files, or intervals, of which the reason of one task tells."""
MOST_FATES = 50
"""Most of what has become of intervals that a task stores for the note of its run."""
MOST_INTERVALS = 2_000
"""Most intervals of a task of which is asked whether they are published; a day has 1,440 minutes."""
PUBLISHED = "published"
"""Key under which a task that fails stores the outcomes of what it has published."""


class IngestNew(IngestCaptures):
    """Ingests every file that is new, or has changed, in the folders of the links, whichever interval it is of."""

    def __init__(self, *, queries: Path, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.queries = str(queries)

    def _ingest(self, context: Context) -> list[dict[str, Any]]:
        from lowwater.lake.layout import lake_to_read
        from lowwater.lake.ledgers.files import absent_folders
        from lowwater.replay.schedule.looks import Looker

        def tell(line: str, problem: bool) -> None:
            (self.log.warning if problem else self.log.info)("%s", line)

        looker = Looker(lake_path(self.lake), (), Path(self.queries), tell, spark=ingest_spark(), alone=True)
        found = looker.ingest(load_config(lake_path(self.lake)))
        tell_ingested(self, context, found.results)
        new = sum(each.state != "known" for each in found.results)
        waits = [f"link {link} waits: {fault.splitlines()[0]}" for link, fault in found.faults.items()]
        absent = absent_folders(lake_to_read(lake_path(self.lake)))
        waits += [f"link {link!r}: {why}" for link, why in sorted(absent.items())]
        context["ti"].xcom_push(FOUND, {"files": new, "waits": waits})
        if found.hindered is not None:
            raise found.hindered
        return told_refusals(found.refusals)


class RefusedFile(IngestCaptures):
    """Fails with the reason why a file is refused: red in the grid of the run that has tried it.

    A task that somebody has cleared tries the file again; where it is ingested, set aside or gone by then, it succeeds.

    Args:
        files: (link, path) of the file, or of several that have no task of their own.
        title: its name in the grid.
    """

    def __init__(self, *, files: Sequence[tuple[str, str]], title: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.files, self.title = files, title

    def _ingest(self, context: Context) -> list[dict[str, Any]]:
        from lowwater.lake.ingestion.arrivals import still_refused
        from lowwater.lake.layout import open_lake
        from lowwater.replay.progress import Progress
        from lowwater.replay.schedule.ingesting import try_again
        from lowwater.replay.stages.runners import ingest_tasks

        root = lake_path(self.lake)
        config, lake = load_config(root), open_lake(root, make=False)
        files = [(link, capture_path(path)) for link, path in self.files]
        reasons = {} if was_cleared(context) else still_refused(lake, config, files)
        results: list[IngestResult] = []
        if again := [each for each in files if each not in reasons]:
            tasks = ingest_tasks(config, Progress(quiet=True), ingest_spark())
            tried = [try_again(lake, config, link, path, tasks) for link, path in again]
            results = [result for ingested, _ in tried for result in ingested]
            reasons |= {file: why for file, (_, why) in zip(again, tried, strict=True) if why}
        for link, path in files:
            self.log.info("%s %s: %s", link, path.name, reasons.get((link, path), "is not refused any more"))
        tell_ingested(self, context, results, alone=True)
        if reasons:
            raise CaptureError(_all_of(reasons))
        return []


def _all_of(reasons: Mapping[tuple[str, Path], str]) -> str:
    """Why files are refused, in one line; of many, the first ones."""
    if len(reasons) == 1:
        return next(iter(reasons.values()))
    told = [f"{link} {path.name}: {why.splitlines()[0]}" for (link, path), why in reasons.items()]
    more = f"; and {len(told) - MOST_NAMED:,} more" if len(told) > MOST_NAMED else ""
    return f"{len(told):,} files are refused: {'; '.join(told[:MOST_NAMED])}{more}"


def was_cleared(context: Context) -> bool:
    """Whether somebody has cleared tasks of this run: what they asked for is what is there now."""
    return bool(getattr(context.get("dag_run"), "clear_number", 0))


class LookAtSet(Patient):
    """Looks at a query set: what of the last days it lacks, what of it can run now, and why the rest cannot.

    Returns the intervals for `KeepInterval`: those that run, and those of which is told for the first time that they
    cannot start. What is told is kept only when Airflow has it, and a try after it tells the same.
    """

    def __init__(self, *, lake: PurePath, queries: Path, query_set: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake, self.queries, self.query_set = str(lake), str(queries), query_set

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Returns the arguments of a `KeepInterval` for each of them. Why one cannot start is not among them: its task
        asks when it runs."""
        with telling(context), self.waiting(context):
            return self._look(context)

    def _look(self, context: Context) -> list[dict[str, Any]]:
        from lowwater.instants import range_words
        from lowwater.lake.clocks import doubts
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.backfill import batches
        from lowwater.replay.schedule.looks import MOST, keep_told, look

        def name(due: Due) -> str:
            return range_words(due.start, due.end, due.intervals)

        job = Job.open(lake_path(self.lake), self.query_set, Path(self.queries))
        by = str(getattr(context.get("dag_run"), "run_id", ""))
        found = look(job, time.time_ns(), by)
        for line in doubts(job.lake, time.time_ns()):
            self.log.warning("%s", line)
        for due in found.runs:
            self.log.info("runs: %s, %s: %s", name(due), due.state, "; ".join(due.reasons))
        for left in found.waits:
            self.log.info("waits: %s: %s", name(left.due), left.why)
        for left in found.stuck:
            self.log.warning("%s: %s: %s", "stays" if left.failed else BLOCKED, name(left.due), left.why)
        news = [left for left in found.stuck if left.news]
        failed = [left for left in found.stuck if left.failed]
        old = [left for left in found.stuck if not left.news and not left.failed]

        def example(some: Sequence[Left]) -> str:
            """The first of some, and why; of several, the time in which all lie before it."""
            if not some:
                return ""
            first = f"{name(some[0].due)}: {some[0].why}"
            if len(some) == 1:
                return first
            begin, end = min(each.due.start for each in some), max(each.due.end for each in some)
            return f"{format_instant(begin)} to {format_instant(end)}, first {first}"

        def number(some: Iterable[Due]) -> int:
            return sum(due.intervals for due in some)

        summary = {
            "waits": number(left.due for left in found.waits),
            "waiting": example(found.waits),
            "stuck": number(left.due for left in old),
            "failed": number(left.due for left in failed),
            "failure": example(failed),
            "untold": number(left.due for left in news[MOST_TOLD:]),
            "more": number(found.runs[MOST:]),
            "days": spoken_duration(job.config.schedule.look_back),
            "example": example(old),
            "lacks": "; ".join(each.text for each in of_notify(job.config.notify, has_connection)),
        }
        context["ti"].xcom_push(FOUND, summary)
        groups = [*batches(job, found.runs[:MOST]), *((left.due,) for left in news[:MOST_TOLD])]
        edition = job.edition
        tasks = []
        for group in sorted(groups, key=lambda each: each[0].start):
            start, end, count = group[0].start, group[-1].end, number(group)
            about = {"title": range_words(start, end, count), "intervals": count, "edition": edition}
            tasks.append({"start": format_instant(start), "end": format_instant(end), **about})
        context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, tasks)
        keep_told(lake_path(self.lake), self.query_set, news[:MOST_TOLD], by)
        return tasks


class KeepInterval(PublishInterval):
    """Runs an interval that a look has found, or a batch of intervals that follow one another, through all stages in
    one process, and publishes what can be published.

    Whether one can run is asked when the task runs: at first, at a further try, or days later, when somebody has
    cleared it. It fails with the reason of that moment where an interval cannot start or has failed: the others of a
    batch are published. It succeeds where all are published as they should be. It leaves an interval `held` of which a
    person must approve the warnings, and is skipped where a later look takes up all by itself.

    Args:
        end: its end.
        edition: of the queries and settings by which the look has found it; after an edit it is left to the next look,
            unless somebody clears its task.
        title: its name in the grid.
        intervals: more than one for a batch, or for a stretch without records.
    """

    all_stages = True
    only: Sequence[str] = ()
    """States in one of which an interval must be to run; empty for all."""

    def __init__(
        self, *, start: str, end: str, edition: str = "", title: str = "", intervals: int = 1, **kwargs: Any
    ) -> None:
        kwargs.pop("why", None)  # of a look by version 0.2.0, that somebody clears now
        super().__init__(**kwargs)
        self.start, self.end, self.edition, self.title, self.intervals = start, end, edition, title or start, intervals
        self._ran: list[dict[str, Any]] = []

    def execute(self, context: Context) -> dict[str, Any]:
        if was_cleared(context):
            self.edition = ""  # an edit may be what mends it
        outcome = super().execute(context)
        context["map_index_label"] = f"{self.title} {outcome['state']}"  # type: ignore[typeddict-unknown-key]
        return outcome

    def _report(self, context: Context) -> dict[str, Any]:
        from lowwater.replay.interval import unchanged
        from lowwater.replay.schedule.due import UNAPPROVED
        from lowwater.replay.schedule.looks import asked, edited, state_now

        job, (start, end) = self.job(), self._bounds(context)
        if self.edition and (left := edited(job, start, end, self.edition)):
            raise AirflowSkipException(left.reason)
        now = time.time_ns()
        found = asked(job, start, end, now, self.only)
        results = self._run_due(start, end) if found.runs else []
        failed = [each for each in results if "error" in each]
        undone = [each for each in results if each.get("state") in (WAITING, RUNNING)]
        self._ran = [each for each in results if each not in failed and each not in undone]
        if self.intervals > 1:
            self._tell_fates(context, job, start, end)
            if context["ti"].try_number > 1 or self.pauses or was_cleared(context):
                self._ran += self._stands(job, start, end)
        try:
            if busy := [each["reason"] for each in undone if each["state"] == RUNNING]:
                raise BusyError(busy[0])
            if failed:
                raise self._failure(failed)
            if found.stuck:
                raise GapError(f"{BLOCKED}: {_whys(found.stuck)}")
        except LowwaterError:
            context["ti"].xcom_push(PUBLISHED, self.pieces({}))  # Airflow takes no event from a task that fails
            raise
        waits = found.waits
        if waits and waits[0].due.blocked == UNAPPROVED and not self._ran:
            return asdict(unchanged(start, end, HELD, UNAPPROVED))
        if not self._ran and (waits or undone):
            raise AirflowSkipException(_whys(waits) if waits else undone[0]["reason"])
        if len(self._ran) == 1 and self._ran[0]["start"] == start and self._ran[0]["end"] == end:
            return self._ran[0]
        if (standing := self._standing(context)) is not None:
            return standing
        rows = Counter[str]()
        for each in self._ran:
            rows.update(each["rows"])
        return asdict(unchanged(start, end, *state_now(job, start, end, now))) | {"rows": dict(rows)}

    def _run_due(self, start: int, end: int) -> list[dict[str, Any]]:
        """Runs what is due of a range, ns, in batches; the outcome of each interval, or its error."""
        only = [word for kind in self.only for word in ("--only", kind)]
        edition = ["--edition", self.edition] if self.edition else []
        return self._child_run(start, end, ["--due", *only, *edition])

    def _tell_fates(self, context: Context, job: Job, start: int, end: int) -> None:
        """Stores what has become of each interval, for the note of the run."""
        from lowwater.lake.tables import interval_page
        from lowwater.replay.schedule.looks import fates

        found = fates(job, start, end, time.time_ns())
        for each in found:
            self.log.info("%s %s: %s %s", self.query_set, each.title, each.state, each.why)
        told = [
            [each.title, each.state, each.why, each.intervals]
            + [interval_page(self.query_set, each.start, each.end)] * (each.intervals == 1)
            for each in found[:MOST_FATES]
        ]
        context["ti"].xcom_push(FATES, told)

    def _stands(self, job: Job, start: int, end: int) -> list[dict[str, Any]]:
        """The outcomes of intervals that are published and did not run in this try: one that died told nobody."""
        from lowwater.replay.interval import standing

        ran = {(each["start"], each["end"]) for each in self._ran}
        spans = [(at, at + job.length) for at in range(start, end, job.length)][:MOST_INTERVALS]
        found = [standing(job, *span) for span in spans if span not in ran]
        return [asdict(outcome) for outcome in found if outcome is not None]

    def _failure(self, failed: Sequence[dict[str, Any]]) -> LowwaterError:
        """The error of a try in which intervals failed: that of one that another try may help, if there is one."""
        errors = [error_of(each["error"], each["message"]) for each in failed]
        first = next((each for each in errors if not each.repeats), errors[0])
        if self.intervals == 1:
            return first
        told = [f"{format_instant(each['start'])}: {each['message'].partition(chr(10))[0]}" for each in failed]
        more = f"; and {len(told) - MOST_NAMED:,} more" if len(told) > MOST_NAMED else ""
        said = f"{len(failed):,} of {self.intervals:,} intervals failed: {'; '.join(told[:MOST_NAMED])}{more}"
        return error_of(type(first).__name__, said)

    def pieces(self, outcome: dict[str, Any]) -> list[dict[str, Any]]:
        return self._ran or ([outcome] if outcome else [])

    def _bounds(self, context: Context) -> tuple[int, int]:
        return parse_instant(self.start), parse_instant(self.end)


class TellPublished(PublishInterval):
    """Adds the events of what tasks have published that failed: those of the other intervals of their batches."""

    all_stages = True

    def __init__(self, *, of: str, **kwargs: Any) -> None:
        super().__init__(trigger_rule="one_failed", **kwargs)
        self.of = of

    def _report(self, context: Context) -> dict[str, Any]:
        """Waits without a slot until the last of them has ended: the first one that fails begins this task."""
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        ti = context["ti"]
        about: dict[str, Any] = {"dag_id": ti.dag_id, "run_ids": [ti.run_id], "task_ids": [self.of]}
        ended = ["success", "failed", "skipped", "upstream_failed", "removed"]
        if ti.get_ti_count(**about, states=ended) < ti.get_ti_count(**about):
            self.defer(trigger=TimeDeltaTrigger(timedelta(seconds=FIRST)), method_name="resume")
        told = ti.xcom_pull(task_ids=[self.of], key=PUBLISHED) or []
        self._told = [piece for pieces in told for piece in pieces or ()]
        rows = Counter(query for piece in self._told for query in piece["rows"])
        return {"start": 0, "end": 0, "state": DONE, "reason": f"{len(self._told):,} published", "rows": dict(rows)}

    def resume(self, context: Context, event: Any) -> dict[str, Any]:
        return self.execute(context)

    def pieces(self, outcome: dict[str, Any]) -> list[dict[str, Any]]:
        return self._told

    def _bounds(self, context: Context) -> tuple[int, int]:
        return 0, 0


def tell_of_failed(intervals: Any, common: Mapping[str, Any]) -> None:
    """Puts behind the tasks of a DAG that run intervals what tells of those that were published where others failed.
    The run fails with them all the same: the state of a run is that of its last tasks."""
    # Imported only here: tasks of other DAGs need none.
    from airflow.providers.standard.operators.empty import EmptyOperator

    intervals >> [TellPublished(task_id="tell", of=intervals.task_id, **common), EmptyOperator(task_id="end")]


class BackfillBatch(KeepInterval):
    """Runs what is due of the data interval of a run, as a batch: a day of intervals, of which somebody asks, or that
    part of it which lies in the time that is asked for (params `from` and `to`)."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(start="", end="", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        from lowwater.instants import range_words

        (start, end), params = interval_of(context), context["params"]
        length = load_config(lake_path(self.lake)).length(self.query_set)
        if params.get("from"):
            start = max(start, -(-parse_instant(params["from"]) // length) * length)
        if params.get("to"):
            end = min(end, parse_instant(params["to"]) // length * length)
        if end <= start:
            raise AirflowSkipException("nobody asks for an interval of this day")
        self.start, self.end = format_instant(start), format_instant(end)
        self.intervals = (end - start) // length
        self.title, self.only = range_words(start, end, self.intervals), params.get("only") or ()
        return super().execute(context)


def _whys(some: Sequence[Left]) -> str:
    """Why intervals do not run; of several, of which each reason is."""
    from lowwater.instants import range_words

    if len(some) == 1:
        return some[0].why
    told = [f"{range_words(each.due.start, each.due.end, each.due.intervals)}: {each.why}" for each in some]
    more = f"; and {len(told) - MOST_NAMED:,} more" if len(told) > MOST_NAMED else ""
    return f"{sum(each.due.intervals for each in some):,} intervals: {'; '.join(told[:MOST_NAMED])}{more}"
