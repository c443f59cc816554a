"""The stream of punctuation: a Structured Streaming query over the files of `lfta/` that reads what they promise.

The files are read by the same functions as everywhere, as a streaming source in Python. So Spark needs no package and
no keys for an object store, and a file is there when it has its name: it is never read half.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lowwater.spark.failures import translate
from lowwater.storage import paths

COLUMNS = pa.schema([("source", pa.int32()), ("promise", pa.int64())])
LOOK = 5
"""Seconds between two looks at what the stream has read."""


FEW = 16
"""Files that a task reads."""

Files = Sequence[tuple[int, str]]
"""(Number of its source, file as the lake names it) in order."""


class Several(InputPartition):
    """Files that one task reads.

    Args:
        files: the files.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(len(files))
        self.files = files


class Punctuation(DataSource):
    """The streaming source `lowwater-punctuation`; its option `files` has [number of the source, file] in order."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "lowwater-punctuation"

    def schema(self) -> str:
        """The columns of a promise, ns."""
        return "source int, promise bigint"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader of the files."""
        return _Reader(json.loads(self.options["files"]))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that are there, in order; the offset is their number."""

    def __init__(self, files: Files) -> None:
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
        return [Several(self._files[at : min(at + FEW, last)]) for at in range(start["files"], last, FEW)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Workers have loaded it; the processes in which Spark only asks for offsets start without it in half the time.
        from lowwater.high.streams import StoredStream

        assert isinstance(partition, Several)
        rows = [
            (source, max(promise.latest for promise in promises))
            for source, file in partition.files
            if (promises := StoredStream.scan([file]).promises)
        ]
        sources, promised = zip(*rows, strict=True) if rows else ((), ())
        columns = [pa.array(sources, pa.int32()), pa.array(promised, pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


def promises(session: SparkSession, what: str, files: Files) -> Iterator[list[tuple[int, int]]]:
    """Yields (number of the source, promise in ns) as the stream reads them.

    Args:
        session: the session.
        what: what the promises are for, as Spark shows it.
        files: the files.

    Raises:
        LowwaterError: if the stream fails.
    """
    table = f"punctuation_{uuid4().hex}"
    query, seen, ended = None, 0, False
    try:
        session.dataSource.register(Punctuation)
        source = session.readStream.format(Punctuation.name()).option("files", json.dumps(list(files)))
        query = source.load().writeStream.format("memory").queryName(table).trigger(availableNow=True).start()
        while not ended:
            ended = bool(query.awaitTermination(LOOK))
            rows = session.table(table).toArrow().to_pylist()
            yield [(row["source"], row["promise"]) for row in rows[seen:]]
            seen = len(rows)
        session.catalog.dropTempView(table)
    except PySparkException as error:
        raise translate(what, error, session) from error
    finally:
        if query is not None and not ended:
            with suppress(PySparkException):  # its server may be gone
                query.stop()
