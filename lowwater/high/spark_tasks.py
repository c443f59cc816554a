"""Runs plain functions as Spark tasks: how ingest and the low level spread over a cluster.

Below ingest, the low level and slices. Functions write their files themselves (Arrow); only small results come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import SparkSession

from lowwater.errors import LowwaterError

Runner = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]
Session = SparkSession
"""The session's type, for modules that only pass one on and must not import pyspark."""


def spark_runner(spark: SparkSession) -> Runner:
    """A `map` that runs one Spark task per argument.

    The first LowwaterError of a task, in order of the arguments, is raised as itself: Spark would hand it on as the
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
