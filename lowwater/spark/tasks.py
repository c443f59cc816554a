"""Runs plain functions as tasks of Spark, so that everything that touches packets or rows is in Spark's workers.

The functions write their files themselves with Arrow; only small results come back.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from lowwater.cluster import TaskRun
from lowwater.errors import LowwaterError
from lowwater.spark.failures import translate

_SERIALIZER: Any = CPickleSerializer()
"""Of Spark, as it brings functions and arguments to its workers."""
_RESULT = "task bigint, outcome binary"
_DESCRIPTION = "spark.job.description"


class SparkTasks:
    """A `map` that runs one Spark task for each argument, and says afterwards where they ran.

    Args:
        session: returns the session; asked for once there are tasks.
        what: what the tasks do, as Spark's pages show it.
        far: whether workers may be on other machines.

    Attributes:
        far: as given.
        runs: where tasks ran on a cluster, in the order of the calls and their arguments.
    """

    def __init__(self, session: Callable[[], SparkSession], what: str = "tasks", far: bool = False) -> None:
        self.far = far
        self._session, self._what = session, what
        self.runs: list[TaskRun] = []

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        """Runs the tasks, the heaviest first.

        The first LowwaterError of a task, in order of the arguments, is raised unchanged: Spark would turn it into the
        text of a Java exception.

        Raises:
            LowwaterError: of a task, or Spark fails.
        """
        chosen = list(arguments)
        if not chosen:
            return []
        order = heaviest_first(chosen)
        found = self._run(function, [chosen[at] for at in order])
        outcomes, runs = [None] * len(chosen), {}
        for place, (outcome, *spot) in found.items():
            at = order[place]
            outcomes[at] = outcome
            runs[at] = TaskRun(getattr(chosen[at], "label", ""), getattr(chosen[at], "weight", 0), "", *spot)
        if self.far:
            self.runs += [runs[at] for at in range(len(chosen))]
        for outcome in outcomes:
            if isinstance(outcome, LowwaterError):
                raise outcome
        return outcomes

    def _run(self, function: Callable[[Any], Any], ordered: Sequence[Any]) -> dict[int, Any]:
        """Returns place -> what `_guarded` made of the argument there."""

        def evaluated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for place in batch.column(0).to_pylist():
                    made = _SERIALIZER.dumps(_guarded(function, ordered[place]))
                    yield pa.record_batch([pa.array([place]), pa.array([made], pa.binary())], ["task", "outcome"])

        tag, spark, count = uuid4().hex, self._session(), len(ordered)
        spark.addTag(tag)
        try:
            spark.conf.set(_DESCRIPTION, f"lowwater {self._what}: {count} task{'s' if count > 1 else ''}")
            rows = spark.range(0, count, 1, count).mapInArrow(evaluated, _RESULT).toArrow()
        except PySparkException as error:
            raise translate(self._what, error, spark) from error
        except BaseException:  # a server goes on with the tasks of a client that has left
            with suppress(PySparkException):  # it may be gone
                spark.interruptTag(tag)
            raise
        finally:
            spark.removeTag(tag)
        return {
            place: _SERIALIZER.loads(made)
            for place, made in zip(rows["task"].to_pylist(), rows["outcome"].to_pylist(), strict=True)
        }


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
    """Returns the outcome of a task or its error, its machine, the number of the try from 1, and its seconds."""
    begin = time.monotonic()
    try:
        outcome = function(argument)
    except LowwaterError as error:
        outcome = error
    context = TaskContext.get()
    tries = context.attemptNumber() + 1 if context is not None else 1
    return outcome, socket.gethostname(), tries, round(time.monotonic() - begin, 3)
