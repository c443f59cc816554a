"""Evaluates the parts of queries on one stream of punctuation: each micro-batch brings promises that close some parts.

`runner` calls it. The rows of the LFTAs stay in their files, and the task of a part reads what it needs. Tasks run on
threads of the driver while rows are few, otherwise on Spark's executors. Parts of a plan whose state outlives a slice
run in order on one thread of the driver.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lowwater.errors import LowwaterError
from lowwater.high.closing import closed_parts
from lowwater.high.process import evaluated_chain, first_error
from lowwater.high.runner import Outcomes, PlanParts
from lowwater.high.slices.part import ChainState, Part, PartOutcome, evaluate_part
from lowwater.spark.player import count_up, place, play
from lowwater.spark.tasks import SparkTasks

COUNTED = ["timestamp", "value"]
"""Columns of a stream that counts up."""
MOST_ROWS = 2_000_000
"""Approximate number of rows that the parts of a micro-batch read."""

CONF = {
    "spark.sql.streaming.minBatchesToRetain": "1",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.adaptive.enabled": "false",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    # A stream of punctuation has few rows: no Java code is generated and compiled for it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark settings of a stream that make a micro-batch cheap.

Spark's default manager of checkpoint files starts four processes (`readlink`) for every file on a local disk.
"""


@dataclass
class SliceBatches:
    """The function that Spark calls for each micro-batch: evaluates the parts that the punctuation closes.

    Attributes:
        tasks: (query, part) of all parts of all queries, in the order in which they are closed.
        groups: numbers of the parts that each micro-batch closes.
        spread: whether the tasks run on Spark's executors.
        far: whether these may be on other machines.
        outcomes: query -> outcomes of its parts so far, in order.
        failures: query -> its first error; the parts after it are not evaluated.
        chains: query -> the state that goes from part to part.
        error: an error that is of no query.
    """

    tasks: Sequence[tuple[str, Part]]
    groups: Sequence[Sequence[int]]
    spread: bool
    far: bool
    outcomes: dict[str, list[PartOutcome]] = field(default_factory=dict)
    failures: dict[str, LowwaterError] = field(default_factory=dict)
    chains: dict[str, ChainState] = field(default_factory=dict)
    error: LowwaterError | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Evaluates the parts of a micro-batch."""
        if frame.columns == COUNTED:
            closing = [at for row in frame.collect() for at in self.groups[row["value"]]]
        else:
            closing = sorted(row["slice"] for row in frame.collect())
        named_tasks = [self.tasks[at] for at in closing]
        closed = [(query, task) for query, task in named_tasks if query not in self.failures]
        try:
            outcomes_of = self._run(frame.sparkSession, closed)
        except LowwaterError as error:  # Spark would hand it on as the text of a Java exception
            self.error = error
            raise
        for query, outcomes in outcomes_of.items():
            self.outcomes.setdefault(query, []).extend(outcomes)
            if (failure := first_error(outcomes)) is not None:
                self.failures.setdefault(query, failure)

    def _run(self, session: SparkSession, closed: Sequence[tuple[str, Part]]) -> dict[str, list[PartOutcome]]:
        """The outcomes of each query; parts of a plan with a state are evaluated here, one after another."""
        apart = [(query, task) for query, task in closed if task.carry is None]
        chained: dict[str, list[Part]] = {}
        for query, task in closed:
            if task.carry is not None:
                chained.setdefault(query, []).append(task)
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="lowwater-slice") as pool:
            going = {query: pool.submit(evaluated_chain, query, parts, self.chains) for query, parts in chained.items()}
            parts = [part for _, part in apart]
            if self.spread:
                found = SparkTasks(session, self.far)(partial(evaluate_part, again=True), parts)
            else:
                found = list(pool.map(evaluate_part, parts))
            outcomes: dict[str, list[PartOutcome]] = {}
            for (query, _), outcome in zip(apart, found, strict=True):
                outcomes.setdefault(query, []).append(outcome)
            return outcomes | {query: future.result() for query, future in going.items()}


def run_parts(plans: Mapping[str, PlanParts], spark: SparkSession, folder: Path, far: bool, spread: bool) -> Outcomes:
    """Evaluates all parts of some queries on one stream of punctuation.

    Args:
        plans: query -> its parts.
        spark: Spark session.
        folder: folder for the punctuation and the checkpoint.
        far: whether executors may be on other machines, which cannot read files of this one.
        spread: whether executors evaluate the parts, rather than threads of this process.

    Returns:
        The outcomes of each query in order, or its error.

    Raises:
        LowwaterError: if Spark fails, or a source does not promise the end of its interval.
    """
    tasks = list(closed_parts(plans))
    share = {query: plan.rows / max(1, len(plan.parts)) for query, plan in plans.items()}
    groups = _groups([share[query] for query, _ in tasks], MOST_ROWS)
    batches = SliceBatches(tasks, groups, spread, far)
    queries, checkpoint = ", ".join(plans), folder / "checkpoint"
    session = spark.newSession()
    for key, value in CONF.items():
        session.conf.set(key, value)
    try:
        if far:  # micro-batches are numbers of groups
            count_up(queries, folder.name, session, len(groups), batches, checkpoint)
        else:
            stream = _punctuation([task for _, task in tasks], groups, folder)
            rows_of = session.readStream.schema("slice int, promise bigint").option("maxFilesPerTrigger", 1)
            play(queries, folder.name, rows_of.parquet(str(stream)), batches, checkpoint)
    except LowwaterError as error:
        raise batches.error or error from error
    return {query: batches.failures.get(query) or batches.outcomes[query] for query in plans}


def _groups(rows: Sequence[float], most: int) -> list[list[int]]:
    """Groups parts that together read at most so many rows, or a single part."""
    batches: list[list[int]] = []
    batch_rows = 0.0
    for at, count in enumerate(rows):
        if not batches or batch_rows + count > most:
            batches.append([])
            batch_rows = 0.0
        batches[-1].append(at)
        batch_rows += count
    return batches


def _punctuation(tasks: Sequence[Part], groups: Sequence[Sequence[int]], folder: Path) -> Path:
    """Writes a file for each micro-batch: the promises that close the parts of a group."""
    target = folder / "punctuation"
    target.mkdir(parents=True)
    for number, chosen in enumerate(groups):
        promises = [tasks[at].slice_.end for at in chosen]
        table = pa.table({"slice": pa.array(chosen, pa.int32()), "promise": pa.array(promises, pa.int64())})
        file = target / f"{number:05d}.parquet"
        pq.write_table(table, file)
        place(file, number)
    return target
