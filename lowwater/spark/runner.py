"""The runner on Spark: parts are its tasks, and a stream over the files of lfta/ reads the punctuation."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lowwater import errors, limits
from lowwater.high import runner, streams
from lowwater.spark.punctuation import Punctuation
from lowwater.spark.session import Sessions, build_session
from lowwater.spark.tasks import SparkTasks, lost, translate

LOOK = 5
"""Seconds between two looks at what the stream has read."""


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
        about = f"{what} of {self.interval}" if self.interval else what
        return SparkTasks(lambda: self._sessions.spark, what, self.far, self._sessions.say, about)

    def promises(self, feeds: Mapping[runner.Source, streams.StoredStream]) -> Generator[runner.Promises]:
        """Yields what a stream over the files reads."""
        sources = list(feeds)
        files = [(number, file) for number, source in enumerate(sources) for file in feeds[source].files]
        if not files:
            return
        for rows in _punctuation(self._sessions.spark, files):
            yield [(sources[source], promise) for source, promise in rows]


def warm(address: str) -> None:
    """Has a server start its Python workers, and load what it needs for tasks and streams, ahead of the first command.
    Raises LowwaterError."""
    session = build_session(master=address)
    SparkTasks(lambda: session, "warm-up")(len, [""])
    for _ in _punctuation(session, []):
        pass
    session.stop()


def _punctuation(session: SparkSession, files: Sequence[tuple[int, str]]) -> Iterator[list[tuple[int, int]]]:
    """Yields what a stream over files of numbered sources reads: number of the source and promise, ns."""
    query, seen, ended, table = None, 0, False, f"punctuation_{uuid4().hex}"
    try:
        session.dataSource.register(Punctuation)
        stream = session.readStream.format(Punctuation.name()).option("files", json.dumps(files)).load()
        query = stream.writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
        while not ended:
            ended = bool(query.awaitTermination(LOOK))
            rows = session.table(table).toArrow().to_pylist()
            yield [(row["source"], row["promise"]) for row in rows[seen:]]
            seen = len(rows)
    except PySparkException as error:
        raise translate("punctuation", error, session) from error
    finally:
        with suppress(PySparkException):
            if query is not None and not lost(session):
                query.stop()
                session.catalog.dropTempView(table)


if __name__ == "__main__":
    warm(os.environ["LOWWATER_SPARK_MASTER"])
