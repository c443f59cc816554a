"""The deferrable sensor on the links of an interval: a run starts when they have reported (SEMANTICS T5, T6).

First task of every `replay_*` DAG. It waits in the triggerer, where hundreds of runs cost no slot.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lowwater.errors import GapError, LakeError
from lowwater.instants import SECOND, format_instant, parse_duration
from lowwater_airflow.operators import interval_of, telling

POLL = 5.0
"""Seconds between two looks at the ledger."""


class LinksReported(BaseOperator):
    """Waits until the links that a query set reads have reported to the end of the run's interval.

    Fails with a `GapError` that names the link and since when: at once if its capture is there and cut, else after
    `patience` seconds. A gap of a link of policy `publish` is waited for as long, then let pass; one of policy `wait`
    is waited for without end. The run's parameters `patience` and `only` go over its own.
    """

    ui_color = "#e6f1f2"

    def __init__(self, *, lake: Path, queries: Path, query_set: str, patience: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.queries = str(queries)
        self.query_set = query_set
        self.patience = patience

    def execute(self, context: Context) -> None:
        """Looks once; defers if a link has not reported."""
        start, end = interval_of(context)
        params = context["params"]
        if only := tuple(params.get("only") or ()):
            with telling(context):
                self._skip_unless(only, start, end)
        patience = params.get("patience")
        deadline = time.time() + (parse_duration(patience) / SECOND if patience else self.patience)
        trigger = LinksTrigger(self.lake, self.queries, self.query_set, start, end, deadline)
        readiness = trigger.look()
        if readiness["status"] == "waiting":
            for line in readiness["missing"]:
                self.log.info("waiting until %s at most: %s", format_instant(int(deadline) * 10**9), line)
            self.defer(trigger=trigger, method_name="resume")
        self.resume(context, readiness)

    def _skip_unless(self, only: tuple[str, ...], start: int, end: int) -> None:
        """Skips the run if its interval is in none of some states.

        Raises:
            AirflowSkipException: it is in another one.
        """
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.due import DueSelection, due

        job = Job.open(Path(self.lake), self.query_set, Path(self.queries))
        due_intervals = due(job, DueSelection(start, end, only))
        if not due_intervals:
            raise AirflowSkipException(f"skipped: the interval is not {' or '.join(only)}")
        self.log.info("%s: %s", due_intervals[0].state, "; ".join(due_intervals[0].reasons))

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Called when the trigger has seen enough."""
        with telling(context):
            self._conclude(event)

    def _conclude(self, readiness: dict[str, Any]) -> None:
        if readiness["status"] == "gap":
            raise GapError(readiness["message"])
        if readiness["status"] == "error":
            raise LakeError(readiness["message"])
        self.log.info("every link of %s has reported, or is excluded", self.query_set)


class LinksTrigger(BaseTrigger):
    """Polls the ledger until the interval may start or may never.

    Args:
        lake: folder of the lake; `queries` that of the query sets.
        query_set: whose links.
        start: the start of the interval, ns; `end` its end.
        deadline: wall clock, seconds, after which only links of policy `wait` are waited for.
    """

    def __init__(self, lake: str, queries: str, query_set: str, start: int, end: int, deadline: float) -> None:
        super().__init__()
        self.lake = lake
        self.queries = queries
        self.query_set = query_set
        self.start = start
        self.end = end
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class and its arguments."""
        names = ("lake", "queries", "query_set", "start", "end", "deadline")
        return f"{type(self).__module__}.LinksTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: the interval may start, or why it will not."""
        reported: list[str] = []
        while True:
            readiness = await asyncio.to_thread(self.look)
            if readiness["status"] != "waiting":
                yield TriggerEvent(readiness)
                return
            if readiness["missing"] != reported:
                reported = readiness["missing"]
                self.log.info("waiting: %s", json.dumps(reported))
            await asyncio.sleep(POLL)

    def look(self) -> dict[str, Any]:
        """What the ledger says now: status ready, waiting, gap or error, and the words for it."""
        from lowwater.errors import LowwaterError
        from lowwater.lake.layout import open_lake
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.link_readiness import link_readiness

        try:
            open_lake(Path(self.lake))  # the first ingest may not have made it yet
            job = Job.open(Path(self.lake), self.query_set, Path(self.queries))
            readiness = link_readiness(job, self.start, self.end, time.time() < self.deadline)
        except LowwaterError as error:
            return {"status": "error", "message": str(error)}
        if readiness.failure is not None:
            return {"status": "gap", "message": str(readiness.failure)}
        return {"status": "ready" if readiness.ready else "waiting", "missing": list(readiness.missing)}
