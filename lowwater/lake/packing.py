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
from lowwater.capture.keeping import Keeping
from lowwater.capture.reader import read
from lowwater.catalog.packets import KEPT, READABLE
from lowwater.config import HOUR
from lowwater.errors import CaptureError, LakeError, LowwaterError
from lowwater.lake.interfaces import MOST_INTERFACES, merged
from lowwater.lake.survey import DAMAGE, Failed, damage_table
from lowwater.lake.tables import DataFile, safe_name

ROW_GROUP = 1 << 18
"""Rows of a group, about: two thirds to one and a half times as many where a file has them."""

FILE_ROWS = 2 * ROW_GROUP
"""Rows from which a file is written: it waits in memory until then."""

FILE_BYTES = 128 << 20
"""Bytes in memory from which a file is written before it has as many rows: frames may be kept."""

MOST_WAITING, MOST_BYTES = 1 << 20, 256 << 20
"""Rows, and bytes, of all interfaces together that wait for their files to fill."""

GROUP_BYTES = 64 << 20
"""Bytes in memory of a group, at most about."""

COUNTERS = ("position", "arrival", "timestamp")
"""The columns with statistics."""

DELTAS = ("position", "len", "total_length", "payload_length")
"""Columns that are smaller, and sooner written, as differences than otherwise; nothing is left to compress."""

STREAMS = (
    *("arrival", "timestamp", "ipversion", "protocol", "srcPort", "destPort"),
    *("id", "sequence_number", "ack_number", "payload_offset"),
)
"""Columns that lz4 packs once the first bytes of all values stand together, then the second ones."""

DICTIONARIES = (
    *("capture", "srcMAC", "destMAC", "ether_type", "srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo"),
    *(field.name for field in KEPT if field.type == pa.string()),
)
"""Columns of few values that come in no runs; the others are written as they are, for lz4."""

_CAPTURE = pa.field("capture", pa.dictionary(pa.int8(), pa.string()), nullable=False)


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
        keeping: what is kept beside the headers.
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
    keeping: Keeping
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
    if task.chunks is None:
        reader = read(task.path, task.max_jump, sha256=task.sha256, keeping=task.keeping)
        writer.write(reader.by_interface(), -1)
    else:
        for chunk in task.chunks:
            writer.write(read_chunk(chunk, task.keeping), max(chunk.clocks, default=-1))
    writer.finish()
    files, undecoded = tuple(writer.files), writer.undecoded
    if task.chunks is not None:
        return Packed(task.file, files, undecoded)
    if reader.summary is None or reader.summary.bytes != task.bytes:
        raise CaptureError(f"{task.path}: changed while it was read", "ingest it again")
    return Packed(task.file, files, undecoded, reader.summary, damage_table(reader.malformed))


@dataclass
class _HourFile:
    """The rows of one interface and hour that wait to become a file."""

    hour: int
    rows: int = 0
    size: int = 0
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def write(self, packets: Path, path: str, capture: str) -> DataFile:
        """Writes the rows; a column that has no value in them is not in the file, which readers take for NULL."""
        table = pa.Table.from_batches(self.batches)
        given = [name for name in table.schema.names if table.column(name).null_count < self.rows]
        bounds = {name: pc.min_max(table.column(name)) for name in COUNTERS}
        names = ["capture", *given]
        zeros = pa.array(np.zeros(self.rows, np.int8))
        constant = pa.DictionaryArray.from_arrays(zeros, pa.array([capture]))
        schema = pa.schema([_CAPTURE, *(READABLE.field(name) for name in given)])
        target = packets / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # The schema of Arrow beside Parquet's own would say that `capture` is to be read as a dictionary.
        with pq.ParquetWriter(
            target,
            schema,
            compression={name: "none" if name in DELTAS else "lz4" for name in names},
            use_dictionary=[name for name in DICTIONARIES if name in names],
            column_encoding={
                **{name: "DELTA_BINARY_PACKED" for name in DELTAS if name in names},
                **{name: "BYTE_STREAM_SPLIT" for name in STREAMS if name in names},
            },
            write_statistics=[*COUNTERS],
            store_schema=False,
        ) as writer:
            whole = pa.Table.from_arrays([constant, *table.select(given).columns], schema=schema)
            groups = max(1, round(self.rows / ROW_GROUP), self.size // GROUP_BYTES)
            writer.write_table(whole, row_group_size=-(-self.rows // groups))
        smallest, largest = ({name: each[side].as_py() for name, each in bounds.items()} for side in ("min", "max"))
        return DataFile(path, target.stat().st_size, self.rows, {"hour": str(self.hour)}, smallest, largest)


class _Writer:
    """The files of a task: one waits for each interface, that of the hour that its clock has reached."""

    def __init__(self, task: PackTask) -> None:
        self.files: list[tuple[int, DataFile]] = []
        self.undecoded: dict[int, int] = {}
        self._task = task
        self._waiting: dict[int, _HourFile] = {}

    def write(self, batches: Iterator[tuple[Interface, pa.RecordBatch]], clock: int) -> None:
        """Writes batches; `clock` is that of all interfaces before them, ns."""
        counted = self._counted(batches)
        parts = ((0, batch) for batch in merged(counted, clock)) if self._task.one else _numbered(counted)
        for number, batch in parts:
            for hour, part in _by_hour(batch):
                self._add(number, hour, part)
            waiting = self._waiting.values()
            if sum(each.rows for each in waiting) > MOST_WAITING or sum(each.size for each in waiting) > MOST_BYTES:
                self._close(max(self._waiting, key=lambda number: self._waiting[number].size))

    def finish(self) -> None:
        """Writes what waits."""
        for number in list(self._waiting):
            self._close(number)

    def _add(self, number: int, hour: int, batch: pa.RecordBatch) -> None:
        file = self._waiting.get(number)
        if file is not None and (file.hour != hour or file.rows >= FILE_ROWS or file.size >= FILE_BYTES):
            self._close(number)
        self._waiting.setdefault(number, _HourFile(hour)).add(batch)

    def _close(self, number: int) -> None:
        task, file = self._task, self._waiting.pop(number)
        name = file_name(task.sha256, task.number, len(self.files), task.attempt)
        path = f"link={safe_name(task.link)}/hour={file.hour}/{name}"
        self.files.append((number, file.write(task.packets, path, task.sha256)))

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


def file_name(sha256: str, chunk: int, number: int, attempt: str) -> str:
    """Name of a file: its capture, its place among the files of it, then the attempt that the ledger names.

    Example:
        >>> file_name("ab" * 32, 7, 0, "0123")
        'abababababababababababab-000007-000000-0123.parquet'
    """
    return f"{sha256[:24]}-{chunk:06}-{number:06}-{attempt}.parquet"


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
