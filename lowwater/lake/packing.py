"""One capture into parquet files of `packets/`: the task of a worker.

Called by ingest through its runner, in-process or in a Spark worker. It commits nothing and opens no Delta table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.capture.reader import CaptureSummary, Malformed, read
from lowwater.catalog.packets import COLUMNS, RECORD
from lowwater.config import HOUR
from lowwater.errors import LakeError, LowwaterError
from lowwater.lake.tables import DataFile, safe_name

ROW_GROUP = 1 << 18
COUNTERS = ("position", "arrival", "timestamp")
"""Columns that grow: delta-encoded, and the ones with statistics."""

SCATTERED = (
    "id",
    "sequence_number",
    "ack_number",
    "srcIP_lo",
    "srcIP_hi",
    "destIP_lo",
    "destIP_hi",
    "srcPort",
    "destPort",
)
DICTIONARIES = [name for name in ("capture", *COLUMNS.names) if name not in (*COUNTERS, *SCATTERED)]


@dataclass(frozen=True)
class PackTask:
    """What a worker is told.

    Attributes:
        packets: directory of the table `packets/`.
        link: name of the link.
        path: the capture file.
        sha256: of the file.
        max_jump: of the link, ns.
        attempt: names the files written, so that a killed attempt is told from a live one.
    """

    packets: Path
    link: str
    path: Path
    sha256: str
    max_jump: int
    attempt: str


@dataclass(frozen=True)
class Packed:
    """What a worker found and wrote.

    Attributes:
        files: one an hour of arrival, in order of position.
        malformed: rows of the ledger `malformed`.
        summary: of the capture.
        smallest: least sane timestamp, ns; None where there is none.
    """

    files: tuple[DataFile, ...]
    malformed: tuple[Malformed, ...]
    summary: CaptureSummary
    smallest: int | None


@dataclass
class _HourFile:
    """The file of one hour, open for writing."""

    table: Path
    link: str
    hour: int
    name: str
    rows: int = 0
    pending: list[pa.RecordBatch] = field(default_factory=list)
    waiting: int = 0
    smallest: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path = f"link={safe_name(self.link)}/hour={self.hour}/{self.name}"
        target = self.table / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(
            target,
            RECORD,
            compression="lz4",
            use_dictionary=DICTIONARIES,
            column_encoding=dict.fromkeys(COUNTERS, "DELTA_BINARY_PACKED"),
            write_statistics=[*COUNTERS],
        )

    def add(self, batch: pa.RecordBatch) -> None:
        for name in COUNTERS:
            bounds = pc.min_max(batch.column(name))
            low, high = bounds["min"].as_py(), bounds["max"].as_py()
            self.smallest[name] = min(low, self.smallest.get(name, low))
            self.largest[name] = max(high, self.largest.get(name, high))
        self.pending.append(batch)
        self.rows += batch.num_rows
        self.waiting += batch.num_rows
        if self.waiting >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self.pending:
            self._writer.write_table(pa.Table.from_batches(self.pending), row_group_size=2 * ROW_GROUP)
            self.pending, self.waiting = [], 0

    def close(self) -> DataFile:
        self._flush()
        self.abandon()
        size = (self.table / self.path).stat().st_size
        partition = {"link": self.link, "hour": str(self.hour)}
        return DataFile(self.path, size, self.rows, partition, self.smallest, self.largest)

    def abandon(self) -> None:
        self._writer.close()


def file_name(sha256: str, attempt: str) -> str:
    """Name of a capture's files: what they hold, then the attempt that the ledger names."""
    return f"{sha256[:24]}-{attempt}.parquet"


def pack(task: PackTask) -> Packed | LowwaterError:
    """Decodes a capture and writes its packets.

    Returns:
        The facts, or the error that concerns this capture: it must not undo the work on others.
    """
    try:
        return _pack(task)
    except LowwaterError as error:
        return error
    except OSError as error:
        reason = error.strerror or str(error)
        return LakeError(
            f"{task.packets}: packets of {task.path} cannot be written: {reason}", "check rights and room on its disk"
        )


def _pack(task: PackTask) -> Packed:
    reader = read(task.path, task.max_jump, sha256=task.sha256)
    files: list[DataFile] = []
    current: _HourFile | None = None
    try:
        for batch in reader:
            for hour, part in _by_hour(_with_capture(batch, task.sha256)):
                if current is None or current.hour != hour:
                    if current is not None:
                        files.append(current.close())
                    current = _HourFile(task.packets, task.link, hour, file_name(task.sha256, task.attempt))
                current.add(part)
        if current is not None:
            files.append(current.close())
            current = None
    finally:
        if current is not None:
            current.abandon()
    if reader.summary is None:
        raise LakeError(f"{task.path}: the capture was not read to its end")
    smallest = min((file.smallest["timestamp"] for file in files), default=None)
    return Packed(tuple(files), tuple(reader.malformed), reader.summary, smallest)


def _with_capture(batch: pa.RecordBatch, sha256: str) -> pa.RecordBatch:
    constant = pa.repeat(pa.scalar(sha256), batch.num_rows)
    columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), "capture": constant}
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORD.names], schema=RECORD)


def _by_hour(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Parts of one hour of arrival each: arrivals never fall, so they are slices."""
    arrivals = batch.column("arrival").to_numpy()
    start = 0
    while start < len(arrivals):
        hour = int(arrivals[start]) // HOUR
        stop = int(arrivals.searchsorted((hour + 1) * HOUR))
        yield hour, batch.slice(start, stop - start)
        start = stop
