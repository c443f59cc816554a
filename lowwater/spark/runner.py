"""The runner on Spark: each level of an interval is a streaming query whose tasks evaluate; all else is plain tasks."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import time
from contextlib import suppress
from copy import copy
from pathlib import Path
from threading import Lock
from traceback import format_exception
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect import functions

from lowwater import errors, limits
from lowwater.cluster import TaskRun
from lowwater.high.query_runs import HighLevel
from lowwater.high.runner import TELL, Runner, Running, Tasks, pause
from lowwater.spark.levels import AT_WORK, RESULT, Folder, LevelSource, source_of
from lowwater.spark.session import Sessions, build_session
from lowwater.spark.tasks import SparkTasks, cloned, tell, translate
from lowwater.storage import paths

PATIENCE = 300.0
"""Seconds in which a stream is begun again and again, as long as it is slow to begin."""
_SLOW = "Timed out while waiting for the Python worker to connect back"
"""What Spark says of a stream whose Python process has not begun within ten seconds, on a busy machine."""
_BEGINNING = Lock()
"""The Python processes of streams begin one after the other: each loads for a second, and of many at once none would be
there within its ten seconds."""
_NOT_BEGUN = "Initializing"
"""How Spark's word on a query begins as long as its Python process does not answer."""


class OnSpark(Runner):
    """Does the work of a command on Spark: all that touches packets or rows is in its tasks, whatever its size. Of
    `memory`, 0 for the usual one, each task has as many bytes."""

    name = "spark"
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

    def follow(self, running: Running) -> Any:
        """See `Runner`: Spark's pages call the streaming query by the name of the level."""
        about = self._about(running.level.what)
        result, runs = streamed(running, about, self._sessions.spark)
        for run in runs:
            tell(self._sessions.say, run, about)
        running.runs = runs if self.far else []
        if isinstance(result, errors.LowwaterError):
            raise result
        return result

    def _about(self, what: str) -> str:
        return f"{what} of {self.interval}" if self.interval else what


def streamed(running: Running, about: str, session: SparkSession) -> tuple[Any, list[TaskRun]]:
    """Runs a level as a streaming query; returns its result, or its error, and the runs of its tasks.
    Raises LowwaterError if Spark fails, or it was ended."""
    level, failed = running.level, None
    known = level.tasks if isinstance(level, Tasks) else ()
    folder = Folder(level.folder / "stream", secrets.token_bytes())
    source = source_of(level, folder)
    paths.write(folder.path / AT_WORK, b"")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with cloned(session) as spark:
                spark.dataSource.register(source)
                _followed(spark, running, folder, about)
            break
        except PySparkException as error:
            if _SLOW not in str(error) or time.monotonic() > until:
                failed = translate(level.what, error, session)
                # Not the error itself: it holds its request, for which a client would wait at the end of its process.
                failed.add_note("".join(format_exception(error)))
                break
    if failed is not None:
        raise failed
    names = [*map(str, range(len(known)))] or [RESULT]
    if running.ended.is_set() or not paths.has_file(folder.path / names[-1]):
        raise running.interrupted()
    found = [*folder.read(names)]
    if not known:
        result, runs = found[0]
        return result, runs
    failures = [made.outcome for made in found if isinstance(made.outcome, Exception)]
    return failures[0] if failures else [made.outcome for made in found], [made.run for made in found]


def _followed(spark: SparkSession, running: Running, folder: Folder, about: str) -> None:
    """Begins a streaming query, and waits until it has ended: only then may its session have another of its name."""
    with _BEGINNING:
        if running.ended.is_set():
            return
        read = spark.readStream.format(LevelSource.name()).load()
        observed = read.observe("read", functions.count("*").alias("tasks"), functions.sum("size").alias("rows"))
        stream = observed.writeStream.format("noop").queryName(f"lowwater {about}").trigger(availableNow=True)
        query, begun = stream.start(), time.monotonic()
        while query.status["message"].startswith(_NOT_BEGUN):
            time.sleep(pause(time.monotonic() - begun))
    while not query.awaitTermination(int(TELL)):
        if running.ended.is_set():
            with suppress(OSError):  # without it, a task at work is not told
                paths.remove(folder.path / AT_WORK)
            query.stop()
            continue
        with suppress(OSError):
            progress, ended = query.lastProgress, [int(name) for name in paths.names_in(folder.path) if name.isdigit()]
            if isinstance(running.level, Tasks):
                running.done = running.level.done(running.level.tasks[number] for number in ended)
            else:
                offset = json.loads((progress and progress.sources[0].endOffset) or "{}")
                running.done = {name: value for name, value in offset.items() if name != "tasks"} | {
                    "parts": len(ended)
                }


def warm(address: str) -> None:
    """Has a server start its Python workers, and load what it needs for tasks and streams, ahead of the first command.
    Raises LowwaterError."""
    session = build_session(master=address)
    SparkTasks(lambda: session, "warm-up")(len, [""])
    with tempfile.TemporaryDirectory() as folder:
        streamed(Running(HighLevel({}, {}, 0, 0, Path(folder))), "warm-up", session)
    session.stop()


if __name__ == "__main__":
    warm(os.environ["LOWWATER_SPARK_MASTER"])
