"""Where the tasks of ingest and of the low stage run: in this process while they are few, else as Spark tasks.

Between the stages and `high.tasks`. The first Spark task of a process starts Python workers that load pyarrow and the
kernels anew, several seconds on every core, before a packet is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.lake.ingest import Runner, in_process

if TYPE_CHECKING:
    from lowwater.high.tasks import Session

SPREAD_PACKETS = 8_000_000
"""Packets from which Spark's workers are the faster way through the low stage (measured: docs/adr/0007)."""

SPREAD_BYTES = 2_000_000_000
"""Bytes of captures from which they are the faster way to ingest several files."""


def low_runner(packets: int, spark: Callable[[], Session]) -> Runner:
    """The runner of a low stage that reads so many packets; a session is asked for only where it is needed."""
    return _on(spark) if packets >= SPREAD_PACKETS else in_process


def ingest_runner(files: Iterable[Path], spark: Callable[[], Session]) -> Runner:
    """The runner of an ingest of these files; one file is one task, which nothing can spread."""
    sizes = [path.stat().st_size for path in files if path.is_file()]
    return _on(spark) if len(sizes) > 1 and sum(sizes) >= SPREAD_BYTES else in_process


def _on(spark: Callable[[], Session]) -> Runner:
    from lowwater.high.tasks import spark_runner

    return spark_runner(spark())
