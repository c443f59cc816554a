"""Evaluates the slices of queries on one stream of punctuation: a micro-batch brings the promises that close some
slices.

`high.query_runs` calls it. The rows of the LFTAs stay in their files. A promise names the slice that it closes, and the
task of the slice reads the rows it needs. Tasks run on threads of the driver while rows are few, otherwise on Spark's
executors. Slices of a plan whose state outlives a slice run in order on one thread of the driver.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lowwater.cluster import on_cluster, spreads
from lowwater.errors import LowwaterError, error_of_query
from lowwater.high.results import HighResult, HighSettings, OperatorCounts
from lowwater.high.slices.task import ChainState, SliceOutcome, SliceTask, run_chain, run_slice
from lowwater.high.source.player import count_up, place, play
from lowwater.high.spark_tasks import spark_runner

SPREAD_ROWS = 16_000_000
"""From this number of rows on, executors on one machine are faster than threads; starting Python there takes
seconds."""
CLUSTER_ROWS = 1_000_000
"""The same limit for a cluster."""
CLUSTER_COLD = 8_000_000
"""The same limit for executors that have just started: their Python processes load for seconds."""
COUNTED = ["timestamp", "value"]
"""Columns of a stream that counts up."""
PYTHON_ROW_COST = 16
"""Weight of a row that an aggregate in Python reads: threads take turns at it."""


@dataclass(frozen=True)
class SlicedPlan:
    """A plan divided into slices.

    Attributes:
        tasks: one task for each slice, in order.
        rows: approximate number of rows that the tasks read.
        python: whether an aggregate in Python reads the rows.
    """

    tasks: Sequence[SliceTask]
    rows: int
    python: bool


@dataclass
class SliceBatches:
    """The function that Spark calls for each micro-batch: evaluates the slices that the punctuation closes.

    Attributes:
        tasks: (query, task) of all slices of all queries.
        groups: numbers of the slices that each micro-batch closes.
        spread: whether the tasks run on Spark's executors.
        outcomes: query -> outcomes of its slices so far, in order.
        failures: query -> its first error; the slices after it are not evaluated.
        chains: query -> the state that goes from slice to slice.
        error: an error that is of no query.
    """

    tasks: Sequence[tuple[str, SliceTask]]
    groups: Sequence[Sequence[int]]
    spread: bool
    outcomes: dict[str, list[SliceOutcome]] = field(default_factory=dict)
    failures: dict[str, LowwaterError] = field(default_factory=dict)
    chains: dict[str, ChainState] = field(default_factory=dict)
    error: LowwaterError | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Evaluates the slices of a micro-batch."""
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
            for outcome in outcomes:
                if outcome.error is not None:
                    self.failures.setdefault(query, outcome.error)

    def _run(self, session: SparkSession, closed: Sequence[tuple[str, SliceTask]]) -> dict[str, list[SliceOutcome]]:
        """The outcomes of each query; slices of a plan with a state are evaluated here, one after another."""
        apart = [(query, task) for query, task in closed if task.carry is None]
        chained: dict[str, list[SliceTask]] = {}
        for query, task in closed:
            if task.carry is not None:
                chained.setdefault(query, []).append(task)
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="lowwater-slice") as pool:
            going = {query: pool.submit(self._chain, query, tasks) for query, tasks in chained.items()}
            run = spark_runner(session) if self.spread else pool.map
            outcomes: dict[str, list[SliceOutcome]] = {}
            for (query, _), outcome in zip(apart, run(run_slice, [task for _, task in apart]), strict=True):
                outcomes.setdefault(query, []).append(outcome)
            return outcomes | {query: future.result() for query, future in going.items()}

    def _chain(self, query: str, tasks: Sequence[SliceTask]) -> list[SliceOutcome]:
        try:
            if query not in self.chains:
                self.chains[query] = ChainState(tasks[0])
        except Exception as error:  # noqa: BLE001 - whatever a query does is its own failure
            return [SliceOutcome(error=error_of_query(query, error))]
        return run_chain(tasks, self.chains[query])


def run_slices(
    plans: Mapping[str, SlicedPlan], session: SparkSession, folder: Path, settings: HighSettings
) -> dict[str, list[SliceOutcome] | LowwaterError]:
    """Evaluates all slices of some queries on one stream of punctuation.

    Args:
        plans: query -> its plan in slices.
        session: Spark session that streams the punctuation.
        folder: folder for the punctuation and the checkpoint.
        settings: settings of the run.

    Returns:
        The outcomes of each query in order, or its error.

    Raises:
        LowwaterError: if Spark fails.
    """
    rows = sum(plan.rows * (PYTHON_ROW_COST if plan.python else 1) for plan in plans.values())
    shares = [(query, task, plan.rows / len(plan.tasks)) for query, plan in plans.items() for task in plan.tasks]
    shares.sort(key=lambda share: share[1].slice_.end)
    tasks = [(query, task) for query, task, _ in shares]
    groups = _groups([share for *_, share in shares], settings.most_rows)
    batches = SliceBatches(tasks, groups, _spread(rows, settings.warm))
    queries, checkpoint = ", ".join(plans), folder / "checkpoint"
    try:
        if on_cluster():
            # Executors on other machines cannot read files of this one: micro-batches are numbers of groups.
            count_up(queries, folder.name, session, len(groups), batches, checkpoint)
        else:
            stream = _punctuation([task for _, task in tasks], groups, folder)
            rows_of = session.readStream.schema("slice int, promise bigint").option("maxFilesPerTrigger", 1)
            play(queries, folder.name, rows_of.parquet(str(stream)), batches, checkpoint)
    except LowwaterError as error:
        raise batches.error or error from error
    return {query: batches.failures.get(query) or batches.outcomes[query] for query in plans}


def _spread(rows: int, warm: bool) -> bool:
    """Whether executors read so many rows.

    Args:
        rows: rows of all slices, those of an aggregate in Python by their weight.
        warm: see `HighSettings`.
    """
    return spreads(rows, CLUSTER_ROWS if warm else CLUSTER_COLD) if on_cluster() else rows >= SPREAD_ROWS


def _groups(rows: Sequence[float], most: int) -> list[list[int]]:
    """Groups slices that together read at most so many rows, or a single slice."""
    batches: list[list[int]] = []
    batch_rows = 0.0
    for at, count in enumerate(rows):
        if not batches or batch_rows + count > most:
            batches.append([])
            batch_rows = 0.0
        batches[-1].append(at)
        batch_rows += count
    return batches


def _punctuation(tasks: Sequence[SliceTask], groups: Sequence[Sequence[int]], folder: Path) -> Path:
    """Writes a file for each micro-batch: the promises of the slices of a group."""
    target = folder / "punctuation"
    target.mkdir(parents=True)
    for number, chosen in enumerate(groups):
        promises = [tasks[at].slice_.end for at in chosen]
        table = pa.table({"slice": pa.array(chosen, pa.int32()), "promise": pa.array(promises, pa.int64())})
        file = target / f"{number:05d}.parquet"
        pq.write_table(table, file)
        place(file, number)
    return target


def add_slice_counts(outcomes: Sequence[SliceOutcome], result: HighResult) -> None:
    """Adds the counts of slices to the result of their query."""
    result.batches += len(outcomes)
    result.state_rows = max(result.state_rows, *(outcome.read + outcome.held for outcome in outcomes))
    for points in zip(*(outcome.points for outcome in outcomes), strict=True):
        total: Counter[str] = Counter()
        for _, _, counts in points:
            total.update(counts)
        kind, query, _ = points[0]
        result.operators.append(OperatorCounts(query, kind, dict(total)))
