"""Runs plain functions as Spark tasks, so that ingest, the low stage and slices use a cluster.

The functions write their files themselves with Arrow; only small results come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
        tasks = spark.sparkContext.parallelize(chosen, len(chosen))
        outcomes = tasks.map(lambda argument: _guarded(function, argument)).collect()
        for outcome in outcomes:
            if isinstance(outcome, LowwaterError):
                raise outcome
        return outcomes

    return run


def _guarded(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except LowwaterError as error:
        return error
