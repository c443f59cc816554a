"""Runs plain functions as tasks of Spark; an exception of Spark becomes one clear error."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from lowwater.cluster import TaskRun
from lowwater.errors import AwayError, LowwaterError

# Translates the exception of a Spark query into one clear error, and notes sessions whose server is gone.

AGAIN = "start it again, then run the command again: what is published stays, and all else is made anew"
"""What to do where a server is gone."""
_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_NOISE = re.compile(r"^\s*(at |\.\.\. \d+ more|=== Streaming|Traceback|File \")")
_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): ?(.*)$")
_DETAILS = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
"""The cause in what a client says of a failed request."""
_FORGOTTEN = re.compile(r"\[(INVALID_HANDLE|NO_ACTIVE_SESSION|RESPONSE_ALREADY_RECEIVED|SESSION_NOT_SAME)")
"""What a server says of sessions of the one before it, and a client of one that it has given up."""
_places: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_lost: WeakSet[SparkSession] = WeakSet()


def name(session: SparkSession, place: str) -> None:
    """Says how errors call the Spark of a session, such as `the Spark at sc://host:15002`."""
    _places[session] = place


def lost(session: SparkSession) -> bool:
    """Whether the server of a session has gone: another session may find it started again."""
    return session in _lost


def translate(what: str, error: PySparkException, session: SparkSession) -> LowwaterError:
    """Builds the error for a failed Spark query.

    Args:
        what: what the query did, as a stage or the high level of some queries.
        error: exception of Spark; its text contains the texts of its causes.
        session: its session.
    """
    place = _places.get(session, "Spark")
    if _gone(error):
        _lost.add(session)
        return AwayError(f"{what}: {place} has ended, or was started again", AGAIN)
    return LowwaterError(f"{what}: {place} failed: {cause_of(str(error))}", "with --debug the whole trace is shown")


def _gone(error: PySparkException) -> bool:
    status = getattr(error, "getGrpcStatusCode", lambda: None)()  # of the client's own exceptions
    return getattr(status, "name", "") == "UNAVAILABLE" or _FORGOTTEN.search(str(error)) is not None


def cause_of(text: str) -> str:
    """Returns the innermost cause in a text, otherwise Spark's message about the query, on one line."""
    if details := _DETAILS.search(text):
        return details[1][:500]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    causes = [match.group(1) for match in map(_CAUSE.match, lines) if match and match.group(1)]
    # Spark prints the plan after its message; the plan is no cause.
    spark_messages = _FAILED.findall(text)
    return (causes or spark_messages or lines or ["no message"])[-1][:500]


# Runs plain functions as tasks of Spark, so that everything that touches packets or rows is in Spark's workers. The
# functions write their files themselves with Arrow; only small results come back.

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
            runs[at] = TaskRun(getattr(chosen[at], "label", ""), getattr(chosen[at], "weight", 0), *spot)
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
