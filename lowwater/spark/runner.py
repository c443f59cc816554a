"""The runner on Spark: each level of an interval is a streaming query whose tasks evaluate; all else is plain tasks."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path, PurePath
from threading import Lock
from traceback import format_exception
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lowwater import errors, limits
from lowwater.high.levels import TELL, Level, Running, Start, Steps
from lowwater.spark.levels import AT_WORK, RESULT, Folder, LevelSource
from lowwater.spark.session import Sessions, build_session
from lowwater.spark.tasks import SparkTasks, cloned, tell, translate
from lowwater.storage import paths

TRIES = 3
_SLOW = "Timed out while waiting for the Python worker to connect back"
"""What Spark says of a stream whose Python process has not begun within ten seconds, on a busy machine."""
_BEGINNING = Lock()
"""Streams begin one after the other: several at once are slow to."""


class OnSpark:
    """Does the work of a command on Spark: all that touches packets or rows is in its tasks, whatever its size. Of
    `memory`, 0 for the usual one, each task has as many bytes."""

    name = "spark"
    again = True
    interval = ""

    def __init__(self, sessions: Sessions, memory: int = 0) -> None:
        self._sessions = sessions
        self.most = limits.rows_within(memory)
        self.far = not sessions.master.startswith("local")

    def begin(self) -> None:
        self._sessions.begin()

    def broken(self, error: errors.LowwaterError) -> bool:
        return self._sessions.broken(error)

    def about(self, interval: str) -> OnSpark:
        one = copy(self)
        one.interval = interval
        return one

    def tasks(self, what: str) -> SparkTasks:
        """Returns what runs tasks in workers; Spark's pages show what they are."""
        return SparkTasks(lambda: self._sessions.spark, what, self.far, self._sessions.say, self._about(what))

    @contextmanager
    def levels(self) -> Iterator[Start]:
        """Yields what begins levels, each as a streaming query by which Spark's pages call it."""
        begun: list[_Query] = []
        with ThreadPoolExecutor(thread_name_prefix="lowwater-level") as each:

            def start(level: Level) -> Running:
                running = Running()
                query = _Query(level, self._about(level.what), self._sessions.spark, running)
                begun.append(query)
                running.future = each.submit(self._result, query)
                return running

            try:
                yield start
            finally:
                for query in begun:
                    query.end()

    def _result(self, query: _Query) -> Any:
        result, runs = query.ended()
        for run in runs:
            tell(self._sessions.say, run, query.about)
        query.running.runs = runs if self.far else []
        if isinstance(result, errors.LowwaterError):
            raise result
        return result

    def _about(self, what: str) -> str:
        return f"{what} of {self.interval}" if self.interval else what


class _Query:
    """The streaming query of a level."""

    def __init__(self, level: Level, about: str, session: SparkSession, running: Running) -> None:
        self.about, self.running = about, running
        self._level, self._session, self._over = level, session, False
        self._folder = Folder(level.folder / "stream", secrets.token_bytes())
        paths.write(self._folder.path / AT_WORK, b"")

    def ended(self) -> tuple[Any, Any]:
        """Waits until it has ended; returns the result of the level, and the runs of its tasks."""
        failed = None
        try:
            with cloned(self._session) as spark:
                for number in range(TRIES):
                    try:
                        self._follow(spark)
                        break
                    except PySparkException as error:
                        if _SLOW not in str(error) or number + 1 == TRIES:
                            raise
        except PySparkException as error:
            failed = translate(self._level.what, error, self._session)
            # Not the error itself: it holds its request, for which a client would wait at the end of its process.
            failed.add_note("".join(format_exception(error)))
        if failed is not None:
            raise failed
        if self._over or not paths.has_file(self._folder.path / RESULT):
            raise errors.LowwaterError(f"{self._level.what}: was interrupted", "run the command again")
        ((result, runs),) = self._folder.read([RESULT])
        return result, runs

    def _follow(self, spark: SparkSession) -> None:
        """Begins it, and waits until it has ended: only then may its session have another query of its name."""
        with _BEGINNING:
            if self._over:
                return
            spark.dataSource.register(LevelSource.of(self._level, self._folder))
            stream = spark.readStream.format(LevelSource.name()).load().writeStream
            query = stream.format("noop").queryName(f"lowwater {self.about}").trigger(availableNow=True).start()
        while not query.awaitTermination(int(TELL)):
            if self._over:
                query.stop()
            elif (progress := query.lastProgress) is not None:
                offset: dict[str, Any] = json.loads(progress.sources[0].endOffset)
                self.running.done = {name: value for name, value in offset.items() if name != "tasks"}

    def end(self) -> None:
        """Ends it, if it has not ended, within seconds."""
        if not self.running.future.done():
            self._over = True
            with suppress(OSError):  # without it the query waits until this process stops it
                paths.remove(self._folder.path / AT_WORK)


@dataclass(frozen=True)
class _Nothing:
    """A level without tasks."""

    folder: PurePath
    what: str = "warm-up"

    def steps(self) -> Steps:
        yield from ()


def warm(address: str) -> None:
    """Has a server start its Python workers, and load what it needs for tasks and streams, ahead of the first command.
    Raises LowwaterError."""
    session = build_session(master=address)
    SparkTasks(lambda: session, "warm-up")(len, [""])
    with tempfile.TemporaryDirectory() as folder:
        _Query(_Nothing(Path(folder)), "warm-up", session, Running()).ended()
    session.stop()


if __name__ == "__main__":
    warm(os.environ["LOWWATER_SPARK_MASTER"])
