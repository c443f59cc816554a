"""Waits until the links of an interval have reported (SEMANTICS T5, T6): a task of its own, or that of the interval.

Both wait in the triggerer, where hundreds of runs take no worker slot.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from pathlib import Path, PurePath
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from lowwater.errors import AwayError, GapError, LakeError, LowwaterError
from lowwater.instants import SECOND, format_instant, parse_duration
from lowwater.lake.query_sets import SKIPPED
from lowwater.storage.failures import outages
from lowwater.storage.paths import lake_path
from lowwater_airflow.operators import PublishInterval, interval_of, telling
from lowwater_airflow.retries import Patient
from lowwater_airflow.settings import moment

POLL = 5.0
"""Seconds between two reads of the ledger."""


class LinksReported(Patient):
    """Waits until the links that a query set reads have reported to the end of the run's interval.

    A gap of a link with policy `fail` raises a `GapError` with link and time: at once if the capture of that time is
    cut, otherwise after `patience` seconds. A link with policy `publish` is waited for as long, then passed over. A
    link with policy `wait` is waited for without limit. The parameters `patience` and `only` of a run override the
    arguments.

    An interval that continues from the state of the one before first waits for the end of its run, where one is at
    work.
    """

    ui_color = "#e6f1f2"

    def __init__(self, *, lake: PurePath, queries: Path, query_set: str, patience: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.queries = str(queries)
        self.query_set = query_set
        self.patience = patience

    def execute(self, context: Context) -> None:
        """Looks once; defers to the triggerer if there is something to wait for."""
        self._wait(context, _trigger(self, context, _unbegun(_patience(context, self.patience))))

    def resume(self, context: Context, event: dict[str, Any], deadline: float) -> None:
        self._wait(context, _trigger(self, context, deadline))

    def _wait(self, context: Context, trigger: LinksTrigger) -> None:
        _wait(self, context, trigger)
        self.log.info("every link of %s has reported, or is excluded", self.query_set)


def _wait(operator: LinksReported | RunInterval, context: Context, trigger: LinksTrigger) -> None:
    """Defers to the triggerer if there is something to wait for, and fails or is skipped where nothing is. What the
    trigger has seen is asked again: a task may have waited for its slot since.
    Raises LowwaterError and AirflowSkipException."""
    readiness = trigger.look()
    if readiness["status"] == "waiting":
        trigger.begin(_patience(context, operator.patience))
        for line in readiness.get("missing", ()):
            until = format_instant(int(trigger.deadline) * 10**9)
            operator.log.info("waiting, for links until %s: %s", until, line)
        operator.defer(trigger=trigger, method_name="resume", kwargs={"deadline": trigger.deadline})
    with telling(context), operator.waiting(context):
        _conclude(readiness)


def _patience(context: Context, patience: float) -> float:
    """How long links are waited for, s: the parameter of the run decides, else the settings."""
    own = context["params"].get("patience")
    return parse_duration(own) / SECOND if own else patience


def _unbegun(patience: float) -> float:
    """The deadline of a first look: it plans the queries, which on a busy machine may take all of the patience."""
    return math.inf if patience else 0.0


def _trigger(operator: LinksReported | RunInterval, context: Context, deadline: float) -> LinksTrigger:
    only, dag = list(context["params"].get("only") or ()), context["ti"].dag_id
    start, end = interval_of(context)
    return LinksTrigger(operator.lake, operator.queries, operator.query_set, start, end, deadline, only, dag)


def _conclude(readiness: dict[str, Any]) -> None:
    if readiness["status"] == "skip":
        raise AirflowSkipException(readiness["message"])
    if readiness["status"] == "gap":
        raise GapError(readiness["message"])
    if readiness["status"] == "away":
        raise AwayError(readiness["message"])
    if readiness["status"] == "error":
        raise LakeError(readiness["message"])


class RunInterval(PublishInterval):
    """Runs the interval of a run through all stages and publishes it, in one process: nothing holds it in between.

    Its task first looks whether the links have reported. If not, it waits in the triggerer without a slot, as
    `LinksReported` does, and then looks anew. The process begins only where there is something to run.

    Args:
        patience: how long to wait for links that have not reported, s.
    """

    all_stages = True

    def __init__(self, *, patience: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.patience = patience

    def execute(self, context: Context) -> dict[str, Any]:
        _wait(self, context, _trigger(self, context, _unbegun(_patience(context, self.patience))))
        return super().execute(context)

    def resume(self, context: Context, event: dict[str, Any], deadline: float) -> dict[str, Any]:
        _wait(self, context, _trigger(self, context, deadline))
        return super().execute(context)

    def _mode(self) -> list[str]:
        return ["--ask"]


class LinksTrigger(BaseTrigger):
    """Polls the ledger until the interval can start, or never will.

    Args:
        deadline: wall clock time, s, after which only links of policy `wait` are waited for.
        only: states in one of which the interval must be; empty for any.
        dag: id of the DAG whose run of the interval before is waited for.
    """

    def __init__(
        self, lake: str, queries: str, query_set: str, start: int, end: int, deadline: float, only: list[str], dag: str
    ) -> None:
        super().__init__()
        self.lake = lake
        self.queries = queries
        self.query_set = query_set
        self.start = start
        self.end = end
        self.deadline = deadline
        self.only = only
        self.dag = dag

    def begin(self, patience: float) -> None:
        """Begins to wait, where it has not begun: for `patience` seconds at most."""
        if math.isinf(self.deadline):
            self.deadline = time.time() + patience

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("lake", "queries", "query_set", "start", "end", "deadline", "only", "dag")
        return f"{type(self).__module__}.LinksTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yields one event: the interval can start, or the reason why it will not."""
        reported: list[str] = []
        look = sync_to_async(self.look, thread_sensitive=False)  # a thread that may ask Airflow
        while True:
            readiness = await look()
            if readiness["status"] != "waiting":
                yield TriggerEvent(readiness)
                return
            if readiness["missing"] != reported:
                reported = readiness["missing"]
                self.log.info("waiting: %s", json.dumps(reported))
            await asyncio.sleep(POLL)

    def look(self) -> dict[str, Any]:
        """Reads the ledger: status ready, waiting, skip, gap, away or error, with the messages."""
        try:
            with outages():
                return self._look()
        except LowwaterError as error:
            return {"status": "away" if isinstance(error, AwayError) else "error", "message": str(error)}

    def _look(self) -> dict[str, Any]:
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.looks import left_alone, waits_for

        job = Job.open(lake_path(self.lake), self.query_set, Path(self.queries))
        job.prepare()  # a DAG learns from it whether intervals must run in order
        before = self.start - job.length
        if job.chained and _runs(self.dag, before):
            said = f"the run of {format_instant(before)}, before it in its chain, is at work"
            return {"status": "waiting", "missing": [said]}
        try:
            alone = left_alone(job, self.start, self.end, self.deadline, self.only)
        except GapError as error:
            return {"status": "gap", "message": str(error)}
        if alone is not None:
            skips = {"status": "skip", "message": alone.reason}
            return skips if alone.state == SKIPPED else {"status": "waiting", "missing": [alone.reason]}
        behind = waits_for(job, self.start, self.end)
        return {"status": "ready"} if behind is None else {"status": "gap", "message": behind.reason}


def _runs(dag: str, start: int) -> bool:
    """Whether a run of a DAG is at work on the interval that begins at `start`, ns."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    return RuntimeTaskInstance.get_dr_count(dag, logical_dates=[moment(start)], states=["running"]) > 0
