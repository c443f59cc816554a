"""Runs the slices of a query as a stream of punctuation: each micro-batch brings the promises that close some slices.

Between `high.run` and the tasks. The rows of the LFTAs stay where they are: a promise names the slice that it closes,
and a task reads what that needs. Tasks run on threads of the driver while rows are few, else on Spark's executors.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lowwater.errors import LowwaterError
from lowwater.high.failures import translate
from lowwater.high.results import HighResult, HighSettings, OperatorCounts
from lowwater.high.slices.task import SliceOutcome, SliceTask, run_slice
from lowwater.high.tasks import spark_runner

SPREAD_ROWS = 16_000_000
"""Rows from which the executors of one machine are the faster way: to start Python there takes seconds."""
CLUSTER_ROWS = 1_000_000
"""The same of a cluster."""


@dataclass
class SliceBatches:
    """What Spark calls for each micro-batch: it evaluates the slices that the punctuation closes.

    Attributes:
        tasks: of all slices.
        spread: whether they run on Spark's executors.
        outcomes: of the slices so far, in order.
        error: the first of a task.
    """

    tasks: Sequence[SliceTask]
    spread: bool
    outcomes: list[SliceOutcome] = field(default_factory=list)
    error: LowwaterError | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Evaluates the slices of a micro-batch."""
        closed = [self.tasks[row["slice"]] for row in sorted(frame.collect())]
        try:
            self.outcomes += self._run(frame.sparkSession, closed)
        except LowwaterError as error:  # Spark would hand it on as the text of a Java exception
            self.error = error
            raise

    def _run(self, session: SparkSession, tasks: Sequence[SliceTask]) -> list[SliceOutcome]:
        if self.spread:
            return spark_runner(session)(run_slice, tasks)
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="lowwater-slice") as pool:
            return list(pool.map(run_slice, tasks))


def run_slices(
    query: str, session: SparkSession, tasks: Sequence[SliceTask], folder: Path, rows: int, settings: HighSettings
) -> list[SliceOutcome]:
    """Evaluates all slices; their outcomes in order.

    Args:
        query: name of the output query.
        session: that streams the punctuation.
        tasks: one a slice, in order.
        folder: for the punctuation and the checkpoint.
        rows: that they read, about.
        settings: of the run.

    Raises:
        ValueOverflowError: if an integer sum does not fit 64 bits.
        LowwaterError: if the Python of a user or Spark fails.
    """
    size = max(1, len(tasks) * settings.most_rows // max(rows, 1))
    stream = _punctuation(tasks, folder / "punctuation", min(size, len(tasks)))
    local = (session.sparkContext.master or "local").startswith("local")
    batches = SliceBatches(tasks, rows >= (SPREAD_ROWS if local else CLUSTER_ROWS))
    frame = session.readStream.schema("slice int, promise bigint").option("maxFilesPerTrigger", 1).parquet(str(stream))
    writer = frame.writeStream.foreachBatch(batches).trigger(availableNow=True).queryName(f"{query}:{folder.name}")
    try:
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    except PySparkException as error:
        raise batches.error or translate(query, error) from error
    return batches.outcomes


def _punctuation(tasks: Sequence[SliceTask], folder: Path, size: int) -> Path:
    """A file for each micro-batch, with the promises that close its slices."""
    folder.mkdir(parents=True)
    for number, begin in enumerate(range(0, len(tasks), size)):
        chosen = range(begin, min(begin + size, len(tasks)))
        promises = [tasks[at].slice_.end for at in chosen]
        table = pa.table({"slice": pa.array(chosen, pa.int32()), "promise": pa.array(promises, pa.int64())})
        file = folder / f"{number:05d}.parquet"
        pq.write_table(table, file)
        # Spark's file source plays files in the order of their modification times.
        os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))
    return folder


def add_up(outcomes: Sequence[SliceOutcome], result: HighResult) -> None:
    """Adds what slices counted to a result."""
    result.batches += len(outcomes)
    result.state_rows = max(result.state_rows, *(outcome.read for outcome in outcomes))
    for points in zip(*(outcome.points for outcome in outcomes), strict=True):
        total: Counter[str] = Counter()
        for _, _, counts in points:
            total.update(counts)
        kind, query, _ = points[0]
        result.operators.append(OperatorCounts(query, kind, dict(total)))
