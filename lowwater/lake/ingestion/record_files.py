"""Writes the records of a file that is no capture as parquet files of `records/<link>/`, a file for each hour.

Called by `packing`, in a thread or a Spark worker. It commits nothing and opens no Delta table.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    def of(self, sha256: str, table: PurePath) -> DataFile:
        """Returns the file for its commit; it has its digest and its place already."""
        return DataFile(self.path, self.size, self.rows, {"hour": str(self.hour)}, self.smallest, self.largest)


class WrittenRecords(NamedTuple):
    """The records of a file: written files in order, malformed records (`capture.tables.reader.DAMAGE`), summary."""

    files: list[RecordFile]
    damage: pa.Table
    summary: CaptureSummary


def write_records(
    path: Path, options: TableOptions, max_jump: int, sha256: str, table: PurePath, name: str
) -> WrittenRecords:
    """Reads a file and writes its records.

    Args:
        path: the file.
        options: how its records are read.
        max_jump: how far ahead of its neighbours a timestamp may be, ns.
        sha256: digest of the file.
        table: directory of the table.
        name: name of the files relative to the table, with `{hour}` and `{number}`.

    Raises:
        CaptureError: the file cannot be read.
        OSError: a file cannot be written.
    """
    reader = RecordReader(path, options, max_jump, sha256)
    schema = pa.schema([pa.field("capture", pa.string(), nullable=False), *reader.schema])
    files: list[RecordFile] = []
    writer: _Writer | None = None
    try:
        for batch in reader:
            for hour, part in by_hour(batch):
                if writer is not None and (writer.hour != hour or writer.rows >= FILE_ROWS):
                    files.append(writer.close())
                    writer = None
                writer = writer or _Writer(table, name.format(hour=hour, number=len(files)), hour, schema)
                writer.add(part.add_column(0, schema.field(0), pa.repeat(pa.scalar(sha256), part.num_rows)))
        if writer is not None:
            files.append(writer.close())
            writer = None
    finally:
        if writer is not None:
            writer.close()
    assert reader.summary is not None
    return WrittenRecords(files, reader.malformed, reader.summary)


class _Writer:
    """A file that is being written."""

    def __init__(self, table: PurePath, path: str, hour: int, schema: pa.Schema) -> None:
        self.hour = hour
        self.rows = 0
        self._path, self._target = path, table / path
        self._file = paths.draft(self._target)
        self._smallest: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._writer = pq.ParquetWriter(self._file, schema, compression="lz4", write_statistics=list(BOUNDED))

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._waiting.append(batch)
        for name in BOUNDED:
            bounds = pc.min_max(batch.column(name))
            least, most = bounds["min"].as_py(), bounds["max"].as_py()
            self._smallest[name] = min(least, self._smallest.get(name, least))
            self._largest[name] = max(most, self._largest.get(name, most))
        if sum(waiting.num_rows for waiting in self._waiting) >= GROUP_ROWS:
            self._flush()

    def close(self) -> RecordFile:
        self._flush()
        self._writer.close()
        size = self._file.stat().st_size
        paths.place(self._target)
        return RecordFile(self._path, self.hour, self.rows, size, self._smallest, self._largest)

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=GROUP_ROWS)
        self._waiting = []
