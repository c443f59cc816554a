"""Runs plain functions as Spark tasks, so that ingest, the low stage and slices use a cluster.

The functions write their files themselves with Arrow; only small results come back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from lowwater.cluster import LostExecutor, TaskRun, place
from lowwater.errors import LowwaterError
from lowwater.spark.executors import Executors, own_executor, placed_items


class SparkTasks:
    """A `map` that runs one Spark task for each argument, and says afterwards where they ran.

    Args:
        spark: the session.
        far: whether its executors may be on other machines.

    Attributes:
        far: as given.
        runs: where tasks ran on a cluster, in the order of the calls and their arguments.
    """

    def __init__(self, spark: SparkSession, far: bool = False) -> None:
        self.far = far
        self._spark = spark
        self._executors = Executors(spark) if far else None
        self.runs: list[TaskRun] = []

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        """Runs the tasks, the heaviest first.

        The first LowwaterError of a task, in order of the arguments, is raised unchanged: Spark would turn it into the
        text of a Java exception.
        """
        chosen = list(arguments)
        if not chosen:
            return []
        order = heaviest_first(chosen)
        ordered = [chosen[at] for at in order]
        hosts = self._planned(ordered)
        context = self._spark.sparkContext
        tasks = placed_items(context, ordered, hosts) if any(hosts) else context.parallelize(ordered, len(ordered))
        by_weight = tasks.map(lambda argument: _guarded(function, argument)).collect()
        if self._executors is not None:
            self._note(ordered, hosts, [spot for _, *spot in by_weight], order)
        outcomes = [row[0] for _, row in sorted(zip(order, by_weight, strict=True), key=lambda pair: pair[0])]
        for outcome in outcomes:
            if isinstance(outcome, LowwaterError):
                raise outcome
        return outcomes

    def lost(self) -> list[LostExecutor]:
        """Returns the executors that Spark gave up since the runner was made; none outside of a cluster."""
        return self._executors.lost() if self._executors is not None else []

    def _planned(self, tasks: Sequence[Any]) -> list[str]:
        """Returns the machine chosen for each task; empty texts outside of a cluster, and for tasks without files."""
        if self._executors is None or not all(getattr(task, "home", "") for task in tasks):
            return [""] * len(tasks)
        return place([(task.home, task.weight) for task in tasks], self._executors.cores())

    def _note(self, tasks: Sequence[Any], planned: Sequence[str], spots: Sequence[Any], order: Sequence[int]) -> None:
        assert self._executors is not None
        hosts = self._executors.hosts()
        runs = []
        for task, wanted, (executor, tries, seconds) in zip(tasks, planned, spots, strict=True):
            label, size = getattr(task, "label", ""), getattr(task, "weight", 0)
            runs.append(TaskRun(label, size, wanted, hosts.get(executor, ""), tries, round(seconds, 3)))
        self.runs += [run for _, run in sorted(zip(order, runs, strict=True), key=lambda pair: pair[0])]


def heaviest_first(arguments: Sequence[Any]) -> list[int]:
    """Returns the places of arguments in the order in which they start: a large chunk of a link does not begin last.

    An executor takes the next task when it has a free core. So the last executor ends at most one third later than
    with the best placement (longest processing time first).

    Args:
        arguments: tasks; those with an attribute `weight` are ordered by it, the others keep their places at the end.

    Example:
        >>> from types import SimpleNamespace as Task
        >>> heaviest_first([Task(weight=2), Task(weight=9), Task(weight=2)])
        [1, 0, 2]
    """
    return sorted(range(len(arguments)), key=lambda at: -getattr(arguments[at], "weight", 0))


def _guarded(function: Callable[[Any], Any], argument: Any) -> tuple[Any, str, int, float]:
    """Returns the outcome of a task or its error, its executor, the number of the try from 1, and its seconds."""
    begin = time.monotonic()
    try:
        outcome = function(argument)
    except LowwaterError as error:
        outcome = error
    context = TaskContext.get()
    tries = context.attemptNumber() + 1 if context is not None else 1
    return outcome, own_executor(), tries, time.monotonic() - begin
