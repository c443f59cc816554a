"""Writes the records of a file that is no capture as parquet files of `records/<link>/`, a file for each hour.

Called by `packing`, in a thread or a Spark worker. It commits nothing and opens no Delta table.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.capture.records.facts import CaptureSummary
from lowwater.capture.tables.reader import RecordReader, TableOptions
from lowwater.lake.ingestion.hours import by_hour
from lowwater.lake.tables import DataFile
from lowwater.storage import paths

FILE_ROWS = 1 << 19
"""Rows after which another file begins."""

GROUP_ROWS = 1 << 17
"""Rows of a row group: they wait in memory until it is written."""

GROUP_BYTES = 128 << 20
"""Bytes of records after which a row group is written, whatever its rows."""

BOUNDED = ("position", "arrival", "timestamp")
"""Columns with statistics."""


@dataclass(frozen=True)
class RecordFile:
    """A written file, before its commit.

    Attributes:
        path: path relative to the table.
        hour: hour of the arrival of its records.
        rows: number of records.
        size: size in bytes.
        smallest: smallest value of the columns BOUNDED.
        largest: largest value of the columns BOUNDED.
    """

    path: str
    hour: int
    rows: int
    size: int
    smallest: dict[str, int]
    largest: dict[str, int]

    def whole(self, sha256: str, table: PurePath) -> RecordFile:
        """Returns the file itself: it has its place already."""
        return self

    def of(self, sha256: str, table: PurePath) -> DataFile:
        """Returns the file for its commit; it has its digest and its place already."""
        return DataFile(self.path, self.size, self.rows, {"hour": str(self.hour)}, self.smallest, self.largest)


class WrittenRecords(NamedTuple):
    """The records of a file: written files in order, malformed records (`capture.tables.reader.DAMAGE`), summary."""

    files: list[RecordFile]
    damage: pa.Table
    summary: CaptureSummary


POOL = "jemalloc"
"""Memory pool of Arrow; its default one gives pages back to the kernel and takes them again for each block (ADR 99)."""


@cache
def use_pool() -> None:
    """Makes POOL the pool of this process, once, unless the environment names another or Arrow was built without it."""
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ and POOL in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def write_records(
    path: Path, options: TableOptions, max_jump: int, sha256: str, table: PurePath, name: str, growing: bool = False
) -> WrittenRecords:
    """Reads a file and writes its records.

    Args:
        path: the file.
        options: how its records are read.
        max_jump: how far ahead of its neighbours a timestamp may be, ns.
        sha256: digest of the file.
        table: directory of the table.
        name: name of the files relative to the table, with `{hour}` and `{number}`.
        growing: whether the file is still being written.

    Raises:
        CaptureError: the file cannot be read.
        OSError: a file cannot be written.
    """
    use_pool()
    reader = RecordReader(path, options, max_jump, sha256, growing)
    files: list[RecordFile] = []
    with ThreadPoolExecutor(1) as pool:
        writer: _Writer | None = None
        try:
            for batch in reader:
                for hour, part in by_hour(batch):
                    if writer is not None and (writer.hour != hour or writer.rows >= FILE_ROWS):
                        files.append(writer.close())
                        writer = None
                    if writer is None:
                        file = name.format(hour=hour, number=len(files))
                        writer = _Writer(pool, table, file, hour, sha256, reader.schema)
                    writer.add(part)
            if writer is not None:
                files.append(writer.close())
                writer = None
        finally:
            if writer is not None:
                writer.close()
    assert reader.summary is not None
    return WrittenRecords(files, reader.malformed, reader.summary)


class _Writer:
    """A file that is being written, by another thread: one row group while the next one is read.

    Args:
        pool: the thread.
        table: directory of the table.
        path: path of the file relative to the table.
        hour: hour of the arrival of its records.
        sha256: digest of their capture.
        columns: schema of the records.
    """

    def __init__(
        self, pool: ThreadPoolExecutor, table: PurePath, path: str, hour: int, sha256: str, columns: pa.Schema
    ) -> None:
        self.hour = hour
        self.rows = 0
        self._pool, self._path, self._target = pool, path, table / path
        self._file = paths.draft(self._target)
        self._smallest: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._written: Future[None] | None = None
        self._capture = pa.array([sha256])
        capture = pa.field("capture", pa.dictionary(pa.int32(), pa.string()), nullable=False)
        self._schema = pa.schema([capture, *columns])
        # Differences of numbers are written three times as fast as dictionaries of them, in less than half of the room.
        integers = [field.name for field in columns if pa.types.is_integer(field.type)]
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="lz4",
            write_statistics=list(BOUNDED),
            use_dictionary=["capture", *(field.name for field in columns if pa.types.is_string(field.type))],
            column_encoding=dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
            store_schema=False,  # readers see texts, not the dictionary of them
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds records of the hour."""
        self.rows += batch.num_rows
        self._waiting.append(batch)
        for name in BOUNDED:
            bounds = pc.min_max(batch.column(name))
            least, most = bounds["min"].as_py(), bounds["max"].as_py()
            self._smallest[name] = min(least, self._smallest.get(name, least))
            self._largest[name] = max(most, self._largest.get(name, most))
        size = sum(waiting.nbytes for waiting in self._waiting)
        if sum(waiting.num_rows for waiting in self._waiting) >= GROUP_ROWS or size > GROUP_BYTES:
            self._flush()

    def close(self) -> RecordFile:
        """Finishes the file."""
        self._flush()
        self._settle()
        self._writer.close()
        size = self._file.stat().st_size
        paths.place(self._target)
        return RecordFile(self._path, self.hour, self.rows, size, self._smallest, self._largest)

    def _flush(self) -> None:
        self._settle()
        if self._waiting:
            self._written = self._pool.submit(self._write, self._waiting)
        self._waiting = []

    def _settle(self) -> None:
        """Waits for the row group that is being written."""
        written, self._written = self._written, None
        if written is not None:
            written.result()

    def _write(self, batches: list[pa.RecordBatch]) -> None:
        rows = pa.Table.from_batches(batches)
        zeros = pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)
        capture = pa.DictionaryArray.from_arrays(zeros, self._capture)
        rows = rows.add_column(0, self._schema.field(0), capture)
        self._writer.write_table(rows, row_group_size=GROUP_ROWS)
