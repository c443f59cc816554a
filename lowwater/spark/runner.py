"""The runner on Spark: parts are its tasks, and a stream over the files of lfta/ reads the punctuation."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lowwater.columns.values import rows_within
from lowwater.errors import LowwaterError
from lowwater.high.runner import Promises, Source
from lowwater.high.streams import StoredStream
from lowwater.spark.session import Sessions
from lowwater.spark.tasks import SparkTasks, lost, translate
from lowwater.storage import paths

# The stream of punctuation is a Structured Streaming query over the files of `lfta/`. The functions that read them
# everywhere do, as a streaming source in Python. So Spark needs no package and no keys for an object store, and a file
# is there when it has its name: it is never read half.

LOOK = 5
"""Seconds between two looks at what the stream has read."""
FEW = 16
"""Files that a task reads."""


class Punctuation(DataSource):
    """The streaming source `lowwater-punctuation`; its option `files` has [number of the source, file as the lake names
    it] in order."""

    @classmethod
    def name(cls) -> str:
        return "lowwater-punctuation"

    def schema(self) -> str:
        """The columns of a promise, ns."""
        return "source int, promise bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of the files."""
        return _Reader(json.loads(self.options["files"]))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that are there, in order; the offset is their number."""

    def __init__(self, files: Sequence[tuple[int, str]]) -> None:
        self._files = files
        self._until: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"files": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._there(0)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"files": self._there(start["files"]) if self._until is None else self._until}

    def _there(self, begin: int) -> int:
        at = begin
        while at < len(self._files) and paths.has_file(paths.lake_path(self._files[at][1])):
            at += 1
        return at

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        last = end["files"]
        return [InputPartition(self._files[at : min(at + FEW, last)]) for at in range(start["files"], last, FEW)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Workers have loaded it; the processes in which Spark only asks for offsets start without it in half the time.
        from lowwater.high.streams import StoredStream

        scanned = [(source, StoredStream.scan([file])) for source, file in partition.value]
        rows = [(source, stream.promise) for source, stream in scanned if stream.promises]
        sources, promised = zip(*rows, strict=True) if rows else ((), ())
        yield pa.record_batch([pa.array(sources, pa.int32()), pa.array(promised, pa.int64())], ["source", "promise"])


class OnSpark:
    """Does the work of a command on Spark: all that touches packets or rows is in its tasks, whatever its size. Of
    `memory`, 0 for the usual one, each task has as many bytes."""

    name = "spark"
    again = True

    def __init__(self, sessions: Sessions, memory: int = 0) -> None:
        self._sessions = sessions
        self.most = rows_within(memory)
        self.far = not sessions.master.startswith("local")

    def begin(self) -> None:
        self._sessions.begin()

    def broken(self, error: LowwaterError) -> bool:
        return self._sessions.broken(error)

    def tasks(self, what: str) -> SparkTasks:
        """Returns what runs tasks in workers; Spark's pages show what they are."""
        return SparkTasks(lambda: self._sessions.spark, what, self.far)

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields what a stream over the files reads."""
        sources = list(feeds)
        files = [(number, file) for number, source in enumerate(sources) for file in feeds[source].files]
        if not files:
            return
        session, table = self._sessions.spark, f"punctuation_{uuid4().hex}"
        query, seen, ended = None, 0, False
        try:
            session.dataSource.register(Punctuation)
            stream = session.readStream.format(Punctuation.name()).option("files", json.dumps(files)).load()
            query = stream.writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
            while not ended:
                ended = bool(query.awaitTermination(LOOK))
                rows = session.table(table).toArrow().to_pylist()
                yield [(sources[row["source"]], row["promise"]) for row in rows[seen:]]
                seen = len(rows)
        except PySparkException as error:
            raise translate("punctuation", error, session) from error
        finally:
            with suppress(PySparkException):
                if query is not None and not lost(session):
                    query.stop()
                    session.catalog.dropTempView(table)
