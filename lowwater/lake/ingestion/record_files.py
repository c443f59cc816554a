"""Writes the records of a file that is no capture as parquet files of `records/<link>/`, a file for each hour.

Called by `packing`, in a thread or a Spark worker. It commits nothing and opens no Delta table.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

import pyarrow as pa

from lowwater.capture.records.facts import CaptureSummary
from lowwater.capture.tables.reader import RecordReader, TableOptions
from lowwater.lake.ingestion.hours import by_hour
from lowwater.lake.parquet.writer import FileWriter, PageBuffers
from lowwater.lake.tables import DataFile
from lowwater.storage import paths

FILE_ROWS = 1 << 19
"""Rows after which another file begins. A file is one row group: its pages wait in memory until then."""

PAGE_ROWS, PAGE_BYTES = 1 << 16, 16 << 20
"""Rows, or bytes of them, of which a page is made: they wait in memory until then."""

MOST_PAGES = 2
"""Pages of a file that wait for the thread that makes them, beside the one that it makes."""

FILE_BYTES = 128 << 20
"""Bytes of records after which another file begins, whatever its rows: their pages and texts wait in memory until it
is written."""

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

    def whole(self, identity: str, table: PurePath) -> RecordFile:
        """Returns the file itself: it has its place already."""
        return self

    def of(self, identity: str, table: PurePath) -> DataFile:
        """Returns the file for its commit; it has its identity and its place already."""
        return DataFile(self.path, self.size, self.rows, {"hour": str(self.hour)}, self.smallest, self.largest)


class WrittenRecords(NamedTuple):
    """The records of a file: written files in order, malformed records (`capture.tables.reader.DAMAGE`), summary."""

    files: list[RecordFile]
    damage: pa.Table
    summary: CaptureSummary


POOL = "jemalloc"
"""Memory pool of Arrow; its default one gives pages back to the kernel and takes them again for each block (ADR 15)."""


@cache
def use_pool() -> None:
    """Makes POOL the pool of this process, once, unless the environment names another or Arrow was built without it."""
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ and POOL in pa.supported_memory_backends():
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def write_records(
    path: Path,
    options: TableOptions,
    max_jump: int,
    digests: tuple[str, str],
    table: PurePath,
    name: str,
    growing: bool = False,
) -> WrittenRecords:
    """Reads a file and writes its records.

    Args:
        path: the file.
        options: how its records are read.
        max_jump: how far ahead of its neighbours a timestamp may be, ns.
        digests: sha256 of the file, and identity of the capture.
        table: directory of the table.
        name: name of the files relative to the table, with `{hour}` and `{number}`.
        growing: whether the file is still being written.

    Raises:
        CaptureError: the file cannot be read.
        OSError: a file cannot be written.
    """
    use_pool()
    sha256, identity = digests
    reader = RecordReader(path, options, max_jump, sha256, growing, dictionaries=True)
    files: list[Future[RecordFile]] = []
    with ThreadPoolExecutor(1) as pool:
        writer: _Writer | None = None
        scratch = PageBuffers()
        for batch in reader:
            for hour, part in by_hour(batch):
                if writer is not None and (writer.hour != hour or writer.full):
                    files.append(writer.close())
                    writer = None
                    if len(files) > 1:  # one file is finished while the next one is read, so that memory is bounded
                        files[-2].result()
                if writer is None:
                    file = name.format(hour=hour, number=len(files))
                    writer = _Writer(pool, scratch, table, file, hour, identity, reader.schema, options.layout.clock)
                writer.add(part)
        if writer is not None:
            files.append(writer.close())
        written = [file.result() for file in files]
    assert reader.summary is not None
    return WrittenRecords(written, reader.malformed, reader.summary)


class _Writer:
    """A file that is being written by another thread, while the next records are read.

    Args:
        pool: the thread.
        scratch: its work memory.
        table: directory of the table.
        path: path of the file relative to the table.
        hour: hour of the arrival of its records.
        identity: identity of their capture.
        columns: schema of the records.
        clock: column of their clock.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        scratch: PageBuffers,
        table: PurePath,
        path: str,
        hour: int,
        identity: str,
        columns: pa.Schema,
        clock: str,
    ) -> None:
        self.hour = hour
        self.rows = 0
        self.size = 0
        self._pool, self._scratch, self._path, self._target = pool, scratch, path, table / path
        self._identity = identity
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._pages: deque[Future[None]] = deque()
        self._writer = FileWriter(columns, (*BOUNDED, clock), BOUNDED)

    @property
    def full(self) -> bool:
        """Whether the next records go into another file."""
        return self.rows >= FILE_ROWS or self.size >= FILE_BYTES

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds records of the hour."""
        self.rows += batch.num_rows
        self.size += batch.nbytes
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= PAGE_ROWS or self._waiting_bytes >= PAGE_BYTES:
            self._flush()

    def close(self) -> Future[RecordFile]:
        """Lets the thread finish the file."""
        self._flush()
        return self._pool.submit(self._finish)

    def _flush(self) -> None:
        # Few pages wait for the thread, so that memory is bounded, and the thread has work while a file is finished.
        while len(self._pages) > MOST_PAGES:
            self._pages.popleft().result()
        if self._waiting:
            self._pages.append(self._pool.submit(self._write, self._waiting))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _write(self, batches: list[pa.RecordBatch]) -> None:
        self._writer.add(batches, self._scratch)

    def _finish(self) -> RecordFile:
        for page in self._pages:
            page.result()  # raises its error
        size = self._writer.write(paths.draft(self._target)).finish({"capture": self._identity})
        paths.place(self._target)
        bounds = {name: self._writer.bounds(name) for name in BOUNDED}
        smallest, largest = ({name: ends[side] for name, ends in bounds.items()} for side in (0, 1))
        return RecordFile(self._path, self.hour, self.rows, size, smallest, largest)
