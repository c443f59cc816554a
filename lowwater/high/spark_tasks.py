"""Runs plain functions as Spark tasks, so that ingest, the low stage and slices use a cluster.

The functions write their files themselves with Arrow; only small results come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from lowwater.errors import LowwaterError

Runner = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]
Session = SparkSession
"""The type of a session, for modules that must not import pyspark."""


def spark_runner(spark: SparkSession) -> Runner:
    """Returns a `map` that runs one Spark task for each argument.

    The first LowwaterError of a task, in order of the arguments, is raised unchanged: Spark would turn it into the
    text of a Java exception.
    """

    def run(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        chosen = list(arguments)
        if not chosen:
            return []
        order = heaviest_first(chosen)
        tasks = spark.sparkContext.parallelize([chosen[at] for at in order], len(chosen))
        by_weight = tasks.map(lambda argument: _guarded(function, argument)).collect()
        outcomes = [outcome for _, outcome in sorted(zip(order, by_weight, strict=True), key=lambda pair: pair[0])]
        for outcome in outcomes:
            if isinstance(outcome, LowwaterError):
                raise outcome
        return outcomes

    return run


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


def _guarded(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except LowwaterError as error:
        return error
