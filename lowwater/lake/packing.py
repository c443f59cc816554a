"""Chunks of a capture into parquet files of `packets/`: the task of a worker.

Called by ingest through its runner, on a thread or in a Spark worker. It commits nothing and opens no Delta table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from lowwater.capture.batches import Memory
from lowwater.capture.facts import CaptureSummary, Interface
from lowwater.capture.index import Chunk, read_chunk
from lowwater.capture.keeping import Keeping
from lowwater.capture.reader import BATCH, read
from lowwater.config import HOUR
from lowwater.errors import CaptureError, LakeError, LowwaterError
from lowwater.lake.interfaces import MOST_INTERFACES, merged
from lowwater.lake.parquet.writer import Scratch, Writer
from lowwater.lake.survey import DAMAGE, Failed, damage_table
from lowwater.lake.tables import DataFile, safe_name

FILE_ROWS = 1 << 19
"""Rows from which a file is written, as one group of rows: its pages wait in memory until then."""

PAGE_ROWS = 1 << 15
"""Rows from which a page of every column is made; fewer are copied first, since their memory is used again."""

FILE_BYTES = 128 << 20
"""Bytes of frames and texts from which a file is written before it has as many rows."""

MOST_WAITING, MOST_BYTES = 1 << 19, 256 << 20
"""Rows, and bytes of frames and texts, of all interfaces together that wait for their files to fill."""

BOUNDED = ("position", "arrival", "timestamp")
"""The columns with statistics."""

COUNTERS = ("position", "arrival", "timestamp", "id", "sequence_number", "ack_number")
"""Columns whose differences are small, or that have too many values for a dictionary."""

_CAPTURE = pa.field("capture", pa.dictionary(pa.int8(), pa.string()), nullable=False)


class _OfThread(threading.local):
    """Memory that the tasks of a thread use one after another."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.scratch = Scratch()


_of_thread = _OfThread()


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
        # Interfaces that become one are held until they are merged.
        memory = None if task.one else _of_thread.memory
        for chunk in task.chunks:
            writer.write(read_chunk(chunk, task.keeping, memory), max(chunk.clocks, default=-1))
    writer.finish()
    files, undecoded = tuple(writer.files), writer.undecoded
    if task.chunks is not None:
        return Packed(task.file, files, undecoded)
    if reader.summary is None or reader.summary.bytes != task.bytes:
        raise CaptureError(f"{task.path}: changed while it was read", "ingest it again")
    return Packed(task.file, files, undecoded, reader.summary, damage_table(reader.malformed))


class _HourFile:
    """The rows of one interface and hour that wait to become a file.

    Args:
        hour: of their arrival.
        capture: sha256 of their file.
        schema: of the rows.

    Attributes:
        rows: so far.
        size: bytes of their frames and texts.
    """

    def __init__(self, hour: int, capture: str, schema: pa.Schema) -> None:
        self.hour = hour
        self.rows = 0
        self.size = 0
        self._capture = pa.array([capture])
        self._schema = pa.schema([_CAPTURE, *schema])
        self._writer = Writer(self._schema, COUNTERS, BOUNDED)
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows, and keeps none of their memory."""
        self.rows += batch.num_rows
        self.size += sum(column.nbytes for column in batch.columns[len(BATCH) :])
        self._batches.append(batch)
        if self.rows - self._writer.rows >= PAGE_ROWS:
            self._page()
        else:
            self._batches[-1] = pa.concat_batches([batch, batch.slice(0, 0)])

    def write(self, packets: Path, path: str) -> DataFile:
        """Writes the rows; a column that has no value in them is not in the file, which readers take for NULL."""
        if self._batches:
            self._page()
        target = packets / path
        target.parent.mkdir(parents=True, exist_ok=True)
        size = self._writer.write(target)
        smallest, largest = ({name: self._writer.bounds(name)[side] for name in BOUNDED} for side in (0, 1))
        return DataFile(path, size, self.rows, {"hour": str(self.hour)}, smallest, largest)

    def _page(self) -> None:
        batch = self._batches[0] if len(self._batches) == 1 else pa.concat_batches(self._batches)
        self._batches = []
        zeros = pa.array(np.zeros(batch.num_rows, np.int8))
        constant = pa.DictionaryArray.from_arrays(zeros, self._capture)
        whole = pa.RecordBatch.from_arrays([constant, *batch.columns], schema=self._schema)
        self._writer.add(whole, _of_thread.scratch)


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
                self._close(max(self._waiting, key=lambda at: (self._waiting[at].size, self._waiting[at].rows)))

    def finish(self) -> None:
        """Writes what waits."""
        for number in list(self._waiting):
            self._close(number)

    def _add(self, number: int, hour: int, batch: pa.RecordBatch) -> None:
        file = self._waiting.get(number)
        if file is not None and (file.hour != hour or file.rows >= FILE_ROWS or file.size >= FILE_BYTES):
            self._close(number)
        if number not in self._waiting:
            self._waiting[number] = _HourFile(hour, self._task.sha256, self._task.keeping.schema)
        self._waiting[number].add(batch)

    def _close(self, number: int) -> None:
        task, file = self._task, self._waiting.pop(number)
        name = file_name(task.sha256, task.number, len(self.files), task.attempt)
        path = f"link={safe_name(task.link)}/hour={file.hour}/{name}"
        self.files.append((number, file.write(task.packets, path)))

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
