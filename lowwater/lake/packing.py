"""Chunks of a capture into parquet files of `packets/`: the task of a worker.

Called by ingest through its runner, on a thread or in a Spark worker. It commits nothing and opens no Delta table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.capture.facts import CaptureSummary, Interface
from lowwater.capture.index import Chunk, read_chunk
from lowwater.capture.reader import read
from lowwater.catalog.packets import RECORD
from lowwater.config import HOUR
from lowwater.errors import CaptureError, LakeError, LowwaterError
from lowwater.lake.interfaces import MOST_INTERFACES, merged
from lowwater.lake.survey import DAMAGE, Failed, damage_table
from lowwater.lake.tables import DataFile, safe_name

ROW_GROUP = 1 << 18
"""Rows of a group: the last one of a file has half as many at least, where the file has."""

MOST_WAITING = 1 << 20
"""Rows of all interfaces together that wait for their groups to fill."""

COUNTERS = ("position", "arrival", "timestamp")
"""Columns that grow, and the ones with statistics."""

DELTAS = (*COUNTERS, "len", "total_length", "srcPort", "destPort", "id", "sequence_number", "ack_number")
"""Columns that are smaller, and sooner written, as differences than by a dictionary; nothing is left to compress."""

DICTIONARIES = [
    *("capture", "srcMAC", "destMAC", "ether_type", "ipversion", "protocol"),
    *("srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo"),
]
"""Columns of few values that come in no runs; the others are written as they are, for lz4."""

_FILE_SCHEMA = RECORD.set(0, pa.field("capture", pa.dictionary(pa.int8(), pa.string()), nullable=False))


@dataclass(frozen=True)
class PackTask:
    """What a worker is told.

    Attributes:
        packets: directory of the table `packets/`.
        link: that the file was ingested for: names the folder.
        file: number of the file in this ingest.
        path: the capture file.
        sha256: of the file; `bytes` its size.
        attempt: names the files written, so that a killed attempt is told from a live one.
        max_jump: of the link, ns.
        one: whether several interfaces are one.
        chunks: successive ones of a plain file; None for the whole of a compressed one.
        number: of the first chunk.
    """

    packets: Path
    link: str
    file: int
    path: Path
    sha256: str
    bytes: int
    attempt: str
    max_jump: int
    one: bool
    chunks: tuple[Chunk, ...] | None
    number: int = 0


@dataclass(frozen=True)
class Packed:
    """What a worker wrote.

    Attributes:
        file: as in the task.
        files: number of the interface (0 where several are one) and its file, one an hour of arrival, in order.
        undecoded: packets without an IP header, by interface.
        summary: of a compressed capture; None for chunks.
        damage: malformed rows of a compressed capture, schema `DAMAGE`.
    """

    file: int
    files: tuple[tuple[int, DataFile], ...]
    undecoded: dict[int, int]
    summary: CaptureSummary | None = None
    damage: pa.Table = field(default_factory=DAMAGE.empty_table)


def pack(task: PackTask) -> Packed | Failed:
    """Decodes chunks, or a compressed capture, and writes their packets."""
    try:
        return _pack(task)
    except LowwaterError as error:
        return Failed(error, task.file)
    except OSError as error:
        text = f"{task.packets}: packets of {task.path} cannot be written: {error.strerror or error}"
        return Failed(LakeError(text, "check rights and room on its disk"), task.file)


def _pack(task: PackTask) -> Packed:
    writer = _Writer(task)
    try:
        if task.chunks is None:
            reader = read(task.path, task.max_jump, sha256=task.sha256)
            writer.write(reader.by_interface(), -1)
        else:
            for chunk in task.chunks:
                writer.write(read_chunk(chunk), max(chunk.clocks, default=-1))
        writer.finish()
    finally:
        writer.abandon()
    files, undecoded = tuple(writer.files), writer.undecoded
    if task.chunks is not None:
        return Packed(task.file, files, undecoded)
    if reader.summary is None or reader.summary.bytes != task.bytes:
        raise CaptureError(f"{task.path}: changed while it was read", "ingest it again")
    return Packed(task.file, files, undecoded, reader.summary, damage_table(reader.malformed))


@dataclass
class _HourFile:
    """A file of one interface and hour: rows that wait for their group to fill, and what is written."""

    interface: int
    hour: int
    path: str
    target: Path
    capture: str
    rows: int = 0
    waiting: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    smallest: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        for name in COUNTERS:
            bounds = pc.min_max(batch.column(name))
            low, high = bounds["min"].as_py(), bounds["max"].as_py()
            self.smallest[name] = min(low, self.smallest.get(name, low))
            self.largest[name] = max(high, self.largest.get(name, high))
        self.pending.append(batch)
        self.rows += batch.num_rows
        self.waiting += batch.num_rows
        while self.waiting >= ROW_GROUP + ROW_GROUP // 2:
            self.flush(ROW_GROUP)

    def flush(self, rows: int) -> None:
        """Writes a group of the first rows that wait."""
        table = pa.Table.from_batches(self.pending)
        rest = table.slice(rows)
        self.pending, self.waiting = rest.to_batches(), rest.num_rows
        if self.writer is None:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self.writer = _open(self.target)
        group = table.slice(0, rows)
        zeros = pa.array(np.zeros(group.num_rows, np.int8))
        constant = pa.DictionaryArray.from_arrays(zeros, pa.array([self.capture]))
        columns = [constant if name == "capture" else group.column(name) for name in RECORD.names]
        self.writer.write_table(pa.Table.from_arrays(columns, schema=_FILE_SCHEMA), row_group_size=rows)

    def close(self) -> DataFile:
        if self.waiting:
            self.flush(self.waiting)
        self.abandon()
        size = self.target.stat().st_size
        return DataFile(self.path, size, self.rows, {"hour": str(self.hour)}, self.smallest, self.largest)

    def abandon(self) -> None:
        if self.writer is not None:
            self.writer.close()


def _open(target: Path) -> pq.ParquetWriter:
    # The schema of Arrow beside Parquet's own would say that `capture` is to be read as a dictionary.
    return pq.ParquetWriter(
        target,
        _FILE_SCHEMA,
        compression={name: "none" if name in DELTAS else "lz4" for name in RECORD.names},
        use_dictionary=DICTIONARIES,
        column_encoding=dict.fromkeys(DELTAS, "DELTA_BINARY_PACKED"),
        write_statistics=[*COUNTERS],
        store_schema=False,
    )


class _Writer:
    """The files of a task: one open for each interface, that of the hour that its clock has reached."""

    def __init__(self, task: PackTask) -> None:
        self.files: list[tuple[int, DataFile]] = []
        self.undecoded: dict[int, int] = {}
        self._task = task
        self._open: dict[int, _HourFile] = {}

    def write(self, batches: Iterator[tuple[Interface, pa.RecordBatch]], clock: int) -> None:
        """Writes batches; `clock` is that of all interfaces before them, ns."""
        counted = self._counted(batches)
        parts = ((0, batch) for batch in merged(counted, clock)) if self._task.one else _numbered(counted)
        for number, batch in parts:
            for hour, part in _by_hour(batch):
                self._file(number, hour).add(part)
            if sum(file.waiting for file in self._open.values()) > MOST_WAITING:
                largest = max(self._open.values(), key=lambda file: file.waiting)
                largest.flush(largest.waiting)

    def finish(self) -> None:
        """Closes the files."""
        for number in list(self._open):
            self._close(number)

    def abandon(self) -> None:
        """Gives up those that are open still."""
        for file in self._open.values():
            file.abandon()

    def _counted(
        self, batches: Iterator[tuple[Interface, pa.RecordBatch]]
    ) -> Iterator[tuple[Interface, pa.RecordBatch]]:
        for interface, batch in batches:
            if interface.index >= MOST_INTERFACES and not self._task.one:
                raise CaptureError(
                    f"{self._task.path}: has more than {MOST_INTERFACES} interfaces",
                    f'set interfaces = "one" in [links.{self._task.link}]',
                )
            missing = batch.column("ipversion").null_count
            self.undecoded[interface.index] = self.undecoded.get(interface.index, 0) + missing
            yield interface, batch

    def _file(self, number: int, hour: int) -> _HourFile:
        task = self._task
        if number in self._open and self._open[number].hour != hour:
            self._close(number)
        if number not in self._open:
            name = file_name(task.sha256, task.number, number, task.attempt)
            path = f"link={safe_name(task.link)}/hour={hour}/{name}"
            self._open[number] = _HourFile(number, hour, path, task.packets / path, task.sha256)
        return self._open[number]

    def _close(self, number: int) -> None:
        self.files.append((number, self._open[number].close()))
        del self._open[number]


def file_name(sha256: str, chunk: int, interface: int, attempt: str) -> str:
    """Name of a file: what it holds, in the order of a capture's files, then the attempt that the ledger names.

    Example:
        >>> file_name("ab" * 32, 7, 0, "0123")
        'abababababababababababab-000007-000-0123.parquet'
    """
    return f"{sha256[:24]}-{chunk:06}-{interface:03}-{attempt}.parquet"


def _numbered(batches: Iterator[tuple[Interface, pa.RecordBatch]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    return ((interface.index, batch) for interface, batch in batches)


def _by_hour(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Parts of one hour of arrival each: arrivals never fall, so they are slices."""
    arrivals = batch.column("arrival").to_numpy()
    start = 0
    while start < len(arrivals):
        hour = int(arrivals[start]) // HOUR
        stop = int(arrivals.searchsorted((hour + 1) * HOUR))
        yield hour, batch.slice(start, stop - start)
        start = stop
