"""Where the tasks of ingest and of the low stage run: on threads of this process while they are few, else on Spark.

Between the stages and `high.spark_tasks`. The first Spark task of a process starts Python workers that load pyarrow and the
kernels anew, several seconds on every core, before a packet is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.lake.ingestion.tasks import MOST_THREADS, Runner, on_threads

if TYPE_CHECKING:
    from lowwater.high.spark_tasks import Session

SPREAD_PACKETS = 8_000_000
"""Packets from which the workers of a cluster are the faster way through the low stage."""

SPREAD_LOCALLY = 128_000_000
"""The same of the workers of one machine, which read no faster than threads but where there are more of them."""

SPREAD_BYTES = 2_000_000_000
"""Bytes of captures from which the workers of a cluster are the faster way to ingest; on one machine threads are."""


def low_runner(packets: int, spark: Callable[[], Session]) -> Runner:
    """The runner of a low stage that reads so many packets; a session is asked for only where it is needed."""
    if _cluster():
        return _on(spark) if packets >= SPREAD_PACKETS else on_threads
    return _on(spark) if packets >= SPREAD_LOCALLY and (os.cpu_count() or 1) > MOST_THREADS else on_threads


def ingest_runner(files: Iterable[Path], spark: Callable[[], Session]) -> Runner:
    """The runner of an ingest of these files; a session is asked for only where a cluster is named and much is read."""
    size = sum(path.stat().st_size for path in files if path.is_file())
    return _on(spark) if _cluster() and size >= SPREAD_BYTES else on_threads


def _cluster() -> bool:
    return not os.environ.get("LOWWATER_SPARK_MASTER", "local").startswith("local")


def _on(spark: Callable[[], Session]) -> Runner:
    from lowwater.high.spark_tasks import spark_runner

    return spark_runner(spark())
