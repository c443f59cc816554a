"""The stream of punctuation: a source of Structured Streaming that reads the promises in files of `lfta/`.

The functions that read these files everywhere do, so Spark needs no package and no keys for an object store, and a file
is there when it has its name. Spark starts two processes for each stream that only load this module: it imports little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lowwater.storage import paths

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
