"""The runner on Spark: a session of the command, whose stream of punctuation closes the parts of the high level.

Work that is too small for executors stays on threads of the driver: the first Spark task of a process starts Python
workers, which load pyarrow and the kernels again. That takes several seconds on every core before a packet is read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

from lowwater.capture.tables import reader as ordered
from lowwater.capture.tables.reader import TaskMap
from lowwater.cluster import SPREAD_PACKETS, on_cluster, spreads
from lowwater.errors import LowwaterError
from lowwater.high.runner import Outcomes, PlanParts
from lowwater.spark.executors import Executors
from lowwater.spark.micro_batches import run_parts
from lowwater.spark.sessions import Sessions
from lowwater.spark.tasks import SparkTasks

SPREAD_COLD = 30_000_000
"""The same limit before a session has executors: their start takes as long as two threads take for so many packets."""
SPREAD_LOCALLY = 128_000_000
"""The same limit for workers on one machine; they help only where cores outnumber the threads."""
MOST_THREADS = 4
"""Threads of one machine beyond which its workers help."""
SPREAD_BYTES = 2_000_000_000
"""From this number of bytes on, the workers of a cluster ingest faster; on one machine threads are faster."""
SPREAD_ROWS = 16_000_000
"""From this number of rows on, executors on one machine are faster than threads; starting Python there takes
seconds."""
CLUSTER_ROWS = 1_000_000
"""The same limit for a cluster."""
CLUSTER_COLD = 8_000_000
"""The same limit for executors that have just started: their Python processes load for seconds."""
PYTHON_ROW_COST = 16
"""Weight of a row that an aggregate in Python reads: threads take turns at it."""


class OnSpark:
    """Does the work of a command on Spark.

    Args:
        sessions: the session of the command.
    """

    name = "spark"

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.far = on_cluster(sessions.master)
        self._warm = False  # whether there were executors before the low stage
        self._executors: Executors | None = None
        self._lock = Lock()

    def begin(self, intervals: int = 1) -> None:
        """Starts the session in the background."""
        self._sessions.begin(intervals)

    def broken(self, error: LowwaterError) -> bool:
        """Whether an error is the failure to start the session."""
        return self._sessions.broken(error)

    def ingesting(self, size: int) -> TaskMap:
        """Returns what runs the tasks of an ingest; starts a session only for large captures on a cluster."""
        return self._tasks() if self.far and spreads(size, SPREAD_BYTES) else ordered.each_on_threads

    def low(self, packets: int) -> TaskMap:
        """Returns what runs the tasks of a low stage; starts a session only for many packets."""
        self._warm = self.far and self._sessions.has_executors()
        if self.far:
            least = SPREAD_PACKETS if self._warm else SPREAD_COLD
            return self._tasks() if spreads(packets, least) else ordered.each_on_threads
        wide = packets >= SPREAD_LOCALLY and (os.cpu_count() or 1) > MOST_THREADS
        return self._tasks() if wide else ordered.each_on_threads

    def evaluate(self, plans: Mapping[str, PlanParts], work: Path) -> Outcomes:
        """Evaluates parts on one stream of punctuation; the first use waits until Spark has started."""
        rows = sum(plan.rows * (PYTHON_ROW_COST if plan.python else 1) for plan in plans.values())
        session = self._sessions.spark
        with self._lock:
            if self.far and self._executors is None:
                self._executors = Executors(session)
        try:
            return run_parts(plans, session, work, self.far, self._spread(rows))
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def lost(self) -> dict[str, Any]:
        """Returns the executors that died since the first evaluation; none outside of a cluster."""
        lost = self._executors.lost() if self._executors is not None else []
        return {"lost": [asdict(each) for each in lost]} if lost else {}

    def _spread(self, rows: int) -> bool:
        """Whether executors read so many rows, those of an aggregate in Python by their weight."""
        if self.far:
            return spreads(rows, CLUSTER_ROWS if self._warm else CLUSTER_COLD)
        return rows >= SPREAD_ROWS

    def _tasks(self) -> SparkTasks:
        return SparkTasks(self._sessions.spark, self.far)
