"""Runs plain functions as tasks of Spark; an exception of Spark becomes one clear error."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.shell.progress import ProgressHandler

from lowwater.cluster import TaskRun
from lowwater.errors import AwayError, LowwaterError
from lowwater.spark.levels import SERIALIZER, guarded

IDLE = 600.0
"""Seconds after which a clone that nobody uses is not used again: a server forgets sessions after an hour."""
_CLONING = Lock()

AGAIN = "start it again, then run the command again: what is published stays, and all else is made anew"
"""What to do where a server is gone."""
_FAILED = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_NOISE = re.compile(
    r"^\s*(at |\.\.\. \d+ more|=== Streaming|Traceback|File \"|JVM stacktrace:$|[\w.$]+(?:Exception|Error)$)"
)
_CAUSE = re.compile(r"^(?:Caused by: )?(?:[\w.$]+(?:Exception|Error)): ?(.*)$")
_DETAILS = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)
"""The cause in what a client says of a failed request."""
_LOST_TASK = re.compile(
    r"^Job aborted due to stage failure: .*?: Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): (?:[\w.$]+: )?"
)
"""What comes before the cause where a task failed too often; its numbers are others at each try."""
_FORGOTTEN = re.compile(
    r"\[(INVALID_HANDLE|NO_ACTIVE_SESSION|RESPONSE_ALREADY_RECEIVED|SESSION_NOT_SAME)"
    r"|stopped SparkContext|SparkContext was shut down"
)
"""What a server says of sessions of the one before it and while it ends, and a client of one that it has given up."""
_UNPREPARED = re.compile(r"^No module named|PYTHON_VERSION_MISMATCH")
"""What Spark says of Python workers that lack a package, or are of another Python than the client."""
WORKERS = "its Python workers need the client's minor version of Python, with lowwater[spark] of the client's version"
_CRASHED = "Python worker exited unexpectedly"
MEMORY = (
    "it often had too little memory: each task takes some 512 MiB, or what [replay] memory says, beside the heap of "
    "its executor, and there are as many at once as cores; with --debug the whole trace is shown"
)
_places: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
_lost: WeakSet[SparkSession] = WeakSet()
_handlers: WeakKeyDictionary[SparkSession, ProgressHandler] = WeakKeyDictionary()
_free: WeakKeyDictionary[SparkSession, list[tuple[SparkSession, float]]] = WeakKeyDictionary()
"""Session -> its clones that nobody uses, and since when."""


def name(session: SparkSession, place: str) -> None:
    """Says how errors call the Spark of a session, such as `the Spark at sc://host:15002`."""
    _places[session] = place


def lost(session: SparkSession) -> bool:
    """Whether the server of a session has gone: another session may find it started again."""
    return session in _lost


def asked_in_vain(session: SparkSession) -> bool:
    """Whether the server of a session has gone, or has forgotten it, as servers do after an hour without a request."""
    if not lost(session):
        try:
            session.conf.get("spark.sql.session.timeZone")
        except PySparkException as error:
            translate("", error, session)
    return lost(session)


def watch(session: SparkSession, handler: ProgressHandler) -> None:
    """Lets a handler see the progress of what runs in a session, and in its clones."""
    _handlers[session] = handler
    session.registerProgressHandler(handler)


def clones(session: SparkSession) -> list[SparkSession]:
    """Returns the clones of a session that nobody uses."""
    return [clone for clone, _ in _free.get(session, ())]


@contextmanager
def cloned(session: SparkSession) -> Iterator[SparkSession]:
    """Yields a clone of a session that no other thread uses meanwhile: what is set of a session, such as what its jobs
    are called, is of all threads that use it."""
    clone = None
    with _CLONING:
        free = _free.setdefault(session, [])
        while free and clone is None:
            clone, since = free.pop()
            if time.monotonic() - since > IDLE:
                clone.client.close()
                clone = None
    if clone is None:
        made: Any = session  # of Spark Connect, whose interface PySpark's types do not have
        clone = made.cloneSession()
        clone.release_session_on_close = True  # PySpark forgets it, and then no clone can be stopped
        clone.client.set_retry_policies(session.client.get_retry_policies())
        if session in _handlers:
            clone.registerProgressHandler(_handlers[session])
    try:
        yield clone
    finally:
        free.append((clone, time.monotonic()))


def translate(what: str, error: PySparkException, session: SparkSession) -> LowwaterError:
    """Builds the error for a failed Spark query; notes the session if its server is gone."""
    place = _places.get(session, "Spark")
    if _gone(error):
        _lost.add(session)
        return AwayError(f"{what}: {place} has ended, or was started again", AGAIN)
    cause = cause_of(str(error))
    hint = MEMORY if cause.startswith(_CRASHED) else "with --debug the whole trace is shown"
    hint = WORKERS if _UNPREPARED.search(cause) else hint
    return LowwaterError(f"{what}: {place} failed: {cause}", hint)


def _gone(error: PySparkException) -> bool:
    status = getattr(error, "getGrpcStatusCode", lambda: None)()  # of the client's own exceptions
    # A server that ends in order cancels what its clients wait for.
    return getattr(status, "name", "") in ("UNAVAILABLE", "CANCELLED") or _FORGOTTEN.search(str(error)) is not None


def cause_of(text: str) -> str:
    """Returns the innermost cause in the text of an exception, otherwise its message, on one line."""
    if details := _DETAILS.search(text):
        return _LOST_TASK.sub("", details[1])[:500]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    causes = [match.group(1) for match in map(_CAUSE.match, lines) if match and match.group(1)]
    # Spark prints the plan after its message; the plan is no cause.
    found = (causes or _FAILED.findall(text) or lines or [" ".join(text.split())])[-1]
    return _LOST_TASK.sub("", found)[:500] or "no message"


_RESULT = "task bigint, outcome binary"
_DESCRIPTION = "spark.job.description"


class SparkTasks:
    """A `map` that runs one Spark task for each argument: functions write their files, and small results come back.

    Args:
        session: asked for once there are tasks.
        what: what the tasks do, as errors say it.
        far: whether workers may be on other machines.
        say: told of each task that was tried again.
        about: what they do and what for, as Spark's pages show it; empty for `what`.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        what: str = "tasks",
        far: bool = False,
        say: Callable[[str], None] = lambda _: None,
        about: str = "",
    ) -> None:
        self.far = far
        self._session, self._what, self._say, self._about = session, what, say, about or what
        self._running: dict[str, SparkSession] = {}
        self._given_up = False

    def give_up(self) -> None:
        """Ends the tasks that other threads wait for, and lets them begin no others: they raise an error."""
        self._given_up = True
        for tag, spark in list(self._running.items()):
            with suppress(PySparkException):  # it may be gone
                spark.interruptTag(tag)

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        """Runs the tasks.

        Raises:
            LowwaterError: the first of a task, in order of the arguments, or Spark fails.
        """
        chosen = list(arguments)
        outcomes = self._run(function, chosen) if chosen else []
        for outcome in outcomes:
            if isinstance(outcome, LowwaterError):
                raise outcome
        return outcomes

    def _run(self, function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        """Returns the outcome of each argument, or its error."""
        # The heaviest first: so the last executor ends at most one third later than with the best placement.
        order = sorted(range(len(arguments)), key=lambda at: -getattr(arguments[at], "weight", 0))

        def evaluated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in (order[place] for place in batch.column(0).to_pylist()):
                    made = SERIALIZER.dumps(guarded(partial(function, arguments[number])))
                    yield pa.record_batch([pa.array([number]), pa.array([made], pa.binary())], ["task", "outcome"])

        tag, session, count = uuid4().hex, self._session(), len(order)
        if self._given_up:
            raise LowwaterError(f"{self._what}: was interrupted", "run the command again")
        outcomes: dict[int, Any] = {}
        try:
            with cloned(session) as spark, self._tagged(spark, tag):
                spark.conf.set(_DESCRIPTION, f"lowwater {self._about}: {count} task{'s' if count > 1 else ''}")
                # In order, as they end: who waits is told of a task that was tried again.
                for row in spark.range(0, count, 1, count).mapInArrow(evaluated, _RESULT).toLocalIterator():
                    outcomes[row.task], run = SERIALIZER.loads(row.outcome)
                    tell(self._say, run, self._about)
        except PySparkException as error:
            raise translate(self._what, error, session) from error
        return [outcomes[number] for number in range(count)]

    @contextmanager
    def _tagged(self, spark: SparkSession, tag: str) -> Iterator[None]:
        """Runs something of a session under a tag, by which it is ended where this thread leaves."""
        spark.addTag(tag)
        self._running[tag] = spark
        try:
            yield
        except PySparkException:
            raise
        except BaseException:  # a server goes on with the tasks of a client that has left
            with suppress(PySparkException):  # it may be gone
                spark.interruptTag(tag)
            raise
        finally:
            del self._running[tag]
            spark.removeTag(tag)


def tell(say: Callable[[str], None], run: TaskRun, about: str) -> None:
    """Says of a task that was tried again where it ended; `about` as of `SparkTasks`."""
    if run.tries > 1:
        named = f"task {run.task} of {about}" if run.task else f"a task of {about}"
        say(f"Spark: {named} was tried again: its try {run.tries} ended on {run.host} after {run.seconds:.1f} s")
