"""Chooses where tasks of ingest and of the low stage run: on threads while there are few packets, otherwise on Spark.

The first Spark task of a process starts Python workers, which load pyarrow and the kernels again. That takes several
seconds on every core before a packet is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.capture.tables.ordered import MOST_THREADS
from lowwater.cluster import on_cluster, spreads
from lowwater.lake.ingestion.tasks import Runner, on_threads

if TYPE_CHECKING:
    from lowwater.high.spark_tasks import Session

SPREAD_PACKETS = 8_000_000
"""From this number of packets on, the workers of a cluster run the low stage faster than threads."""

SPREAD_LOCALLY = 128_000_000
"""The same limit for workers on one machine; they help only where cores outnumber the threads."""

SPREAD_BYTES = 2_000_000_000
"""From this number of bytes on, the workers of a cluster ingest faster; on one machine threads are faster."""


def low_runner(packets: int, spark: Callable[[], Session]) -> Runner:
    """Chooses the runner of a low stage over so many packets; starts a session only if needed."""
    if on_cluster():
        return _on(spark) if spreads(packets, SPREAD_PACKETS) else on_threads
    return _on(spark) if packets >= SPREAD_LOCALLY and (os.cpu_count() or 1) > MOST_THREADS else on_threads


def ingest_runner(files: Iterable[Path], spark: Callable[[], Session]) -> Runner:
    """Chooses the runner of an ingest; starts a session only for large captures on a cluster."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    return _on(spark) if spreads(size, SPREAD_BYTES) else on_threads


def _on(spark: Callable[[], Session]) -> Runner:
    from lowwater.high.spark_tasks import spark_runner

    return spark_runner(spark())
