"""Chooses where tasks of ingest and of the low stage run: on threads while there are few packets, otherwise on Spark.

The first Spark task of a process starts Python workers, which load pyarrow and the kernels again. That takes several
seconds on every core before a packet is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowwater.capture.tables.ordered import MOST_THREADS
from lowwater.cluster import LostExecutor, on_cluster, spreads
from lowwater.lake.ingestion.tasks import Runner, on_threads

if TYPE_CHECKING:
    from lowwater.high.executors import Executors
    from lowwater.high.spark_tasks import Session

SPREAD_PACKETS = 8_000_000
"""From this number of packets on, the workers of a cluster run the low stage faster than threads."""

SPREAD_COLD = 30_000_000
"""The same limit before a session has executors: their start takes as long as two threads take for so many packets."""

SPREAD_LOCALLY = 128_000_000
"""The same limit for workers on one machine; they help only where cores outnumber the threads."""

SPREAD_BYTES = 2_000_000_000
"""From this number of bytes on, the workers of a cluster ingest faster; on one machine threads are faster."""


def low_runner(packets: int, spark: Callable[[], Session], warm: bool) -> Runner:
    """Chooses the runner of a low stage over so many packets; starts a session only if needed.

    Args:
        packets: number of packets of the stage.
        spark: the session; starts it, or waits until it has started.
        warm: whether the session has executors that wait for tasks.
    """
    if on_cluster():
        return _on(spark) if spreads(packets, SPREAD_PACKETS if warm else SPREAD_COLD) else on_threads
    return _on(spark) if packets >= SPREAD_LOCALLY and (os.cpu_count() or 1) > MOST_THREADS else on_threads


def ingest_runner(files: Iterable[Path], spark: Callable[[], Session]) -> Runner:
    """Chooses the runner of an ingest; starts a session only for large captures on a cluster."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    return _on(spark) if spreads(size, SPREAD_BYTES) else on_threads


def task_account(runner: Runner) -> dict[str, Any]:
    """Returns where the tasks of a runner ran on a cluster and which executors died, for the ledger; else nothing."""
    runs, lost = getattr(runner, "runs", ()), getattr(runner, "lost", None)
    tasks = {"tasks": [asdict(run) for run in runs]} if runs else {}
    return {**tasks, **(_lost(lost()) if lost is not None else {})}


class SessionWatch:
    """A session that is asked for later, and the executors that it loses from then on.

    Args:
        spark: the session; starts it, or waits until it has started.
    """

    def __init__(self, spark: Callable[[], Session]) -> None:
        self._spark = spark
        self._executors: Executors | None = None

    def session(self) -> Session:
        """Returns the session, and watches its executors on a cluster."""
        session = self._spark()
        if on_cluster() and self._executors is None:
            from lowwater.high.executors import Executors

            self._executors = Executors(session)
        return session

    def lost(self) -> dict[str, Any]:
        """Returns the executors that died, for the ledger; nothing without a cluster."""
        return _lost(self._executors.lost()) if self._executors is not None else {}


def _lost(executors: Sequence[LostExecutor]) -> dict[str, Any]:
    return {"lost": [asdict(each) for each in executors]} if executors else {}


def lost_lines(account: Mapping[str, Any]) -> list[str]:
    """Returns a line for each executor that died, for the report of a run."""
    return [
        f"  lost executor {each['executor']} on {each['host']} ({each['reason']}): its tasks run again on others"
        for each in account.get("lost", ())
    ]


def _on(spark: Callable[[], Session]) -> Runner:
    from lowwater.high.spark_tasks import spark_runner

    return spark_runner(spark())
