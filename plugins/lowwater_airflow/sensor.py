"""The deferrable sensor of a run: waits until the links of the interval have reported (SEMANTICS T5, T6).

First task of every `replay_*` DAG. It waits in the triggerer, where hundreds of runs take no worker slot.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from pathlib import Path, PurePath
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lowwater.errors import GapError, LakeError
from lowwater.instants import SECOND, format_instant, parse_duration
from lowwater.storage.paths import lake_path
from lowwater_airflow.operators import interval_of, telling

POLL = 5.0
"""Seconds between two reads of the ledger."""


class LinksReported(BaseOperator):
    """Waits until the links that a query set reads have reported to the end of the run's interval.

    A gap of a link with policy `fail` raises a `GapError` with link and time: at once if the capture of that time is
    cut, otherwise after `patience` seconds. A link with policy `publish` is waited for as long, then passed over. A
    link with policy `wait` is waited for without limit. The parameters `patience` and `only` of a run override the
    arguments.
    """

    ui_color = "#e6f1f2"

    def __init__(self, *, lake: PurePath, queries: Path, query_set: str, patience: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake = str(lake)
        self.queries = str(queries)
        self.query_set = query_set
        self.patience = patience

    def execute(self, context: Context) -> None:
        """Checks the links once; defers to the triggerer if one has not reported."""
        start, end = interval_of(context)
        params = context["params"]
        if only := tuple(params.get("only") or ()):
            with telling(context):
                self._skip_unless(only, start, end)
        patience = params.get("patience")
        seconds = parse_duration(patience) / SECOND if patience else self.patience
        # The time begins behind the first look, which plans the queries: on a busy machine it may take as long.
        trigger = LinksTrigger(self.lake, self.queries, self.query_set, start, end, math.inf if seconds else 0.0)
        readiness = trigger.look()
        if readiness["status"] == "waiting":
            trigger.deadline = time.time() + seconds
            for line in readiness["missing"]:
                self.log.info("waiting until %s at most: %s", format_instant(int(trigger.deadline) * 10**9), line)
            self.defer(trigger=trigger, method_name="resume")
        self.resume(context, readiness)

    def _skip_unless(self, only: tuple[str, ...], start: int, end: int) -> None:
        """Skips the run unless its interval is in one of some states.

        Raises:
            AirflowSkipException: the interval is in another state.
        """
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.due import DueSelection, due

        job = Job.open(lake_path(self.lake), self.query_set, Path(self.queries))
        due_intervals = due(job, DueSelection(start, end, only))
        if not due_intervals:
            raise AirflowSkipException(f"skipped: the interval is not {' or '.join(only)}")
        self.log.info("%s: %s", due_intervals[0].state, "; ".join(due_intervals[0].reasons))

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Continues when the trigger has an event."""
        with telling(context):
            self._conclude(event)

    def _conclude(self, readiness: dict[str, Any]) -> None:
        if readiness["status"] == "gap":
            raise GapError(readiness["message"])
        if readiness["status"] == "error":
            raise LakeError(readiness["message"])
        self.log.info("every link of %s has reported, or is excluded", self.query_set)


class LinksTrigger(BaseTrigger):
    """Polls the ledger until the interval can start, or never will.

    Args:
        lake: folder of the lake.
        queries: folder of the query sets.
        query_set: name of the query set.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        deadline: wall clock time, s, after which only links of policy `wait` are waited for.
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
        """Returns the path of the class and its arguments."""
        names = ("lake", "queries", "query_set", "start", "end", "deadline")
        return f"{type(self).__module__}.LinksTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yields one event: the interval can start, or the reason why it will not."""
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
        """Reads the ledger: status ready, waiting, gap or error, with the messages."""
        from lowwater.errors import LowwaterError
        from lowwater.replay.job import Job
        from lowwater.replay.schedule.link_readiness import link_readiness

        try:
            job = Job.open(lake_path(self.lake), self.query_set, Path(self.queries))
            job.prepare()  # a DAG learns from it whether intervals must run in order
            readiness = link_readiness(job, self.start, self.end, time.time() < self.deadline)
        except LowwaterError as error:
            return {"status": "error", "message": str(error)}
        if readiness.failure is not None:
            return {"status": "gap", "message": str(readiness.failure)}
        return {"status": "ready" if readiness.ready else "waiting", "missing": list(readiness.missing)}
