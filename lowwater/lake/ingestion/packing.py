"""Packing: the task of a worker that writes chunks of a capture as parquet files of `packets/`.

Called by ingest through its runner, in a thread or a Spark worker. It commits nothing and opens no Delta table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

import pyarrow as pa

from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.formats.division import CaptureChunk, read_chunk
from lowwater.capture.headers.batches import Memory
from lowwater.capture.reader import BATCH, read
from lowwater.capture.records.facts import CaptureSummary, Interface
from lowwater.capture.tables.reader import TableOptions
from lowwater.config import section_of
from lowwater.errors import CaptureError, LakeError, LowwaterError
from lowwater.lake.ingestion.handover import SentPart, received, renamed
from lowwater.lake.ingestion.hours import by_hour
from lowwater.lake.ingestion.interfaces import MOST_INTERFACES, parted
from lowwater.lake.ingestion.record_files import RecordFile, write_records
from lowwater.lake.ingestion.survey import DAMAGE, FailedTask, damage_table
from lowwater.lake.parquet.writer import FileWriter, PageBuffers, UnfinishedFile
from lowwater.lake.tables import DataFile, safe_name
from lowwater.storage import paths
from lowwater.storage.failures import lake_error, passing

FILE_ROWS = 1 << 19
"""Rows after which a file is written, as one row group: its pages wait in memory until then."""

PAGE_ROWS = 1 << 15
"""Rows after which pages are made; fewer rows are copied, since the memory of their batch is used again."""

FILE_BYTES = 128 << 20
"""Bytes of frames and texts after which a file is written, whatever its rows."""

MOST_WAITING, MOST_BYTES = 1 << 19, 256 << 20
"""Most rows, and most bytes of frames and texts, that wait in all files of a task together."""

BOUNDED = ("position", "arrival", "timestamp")
"""Columns with statistics."""

COUNTERS = ("position", "arrival", "timestamp", "id", "sequence_number", "ack_number")
"""Columns with small differences, or with too many values for a dictionary."""


class _ThreadMemory(threading.local):
    """Memory of a thread that its tasks use one after another."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.scratch = PageBuffers()


_thread_memory = _ThreadMemory()


@dataclass(frozen=True)
class PackTask:
    """A task of a worker; picklable.

    Attributes:
        packets: directory of the table `packets/`, or of the link's table of other records.
        link: link that the file is ingested for; names the folder.
        file: number of the file in this ingest.
        path: the capture file.
        attempt: name of the attempt, part of the names of the written files.
        max_jump: max_jump of the link, ns.
        one: whether all interfaces are one link.
        content: content that is stored beside the headers; for other records how they are read.
        chunks: successive chunks of a plain file; None for the whole of a compressed file.
        number: number of the first chunk.
        sha256: digest of a compressed file, and of every file that tasks on other machines read.
        identity: identity of the capture where it is known before, with `sha256`.
        bytes: size of a compressed file.
        growing: whether the file is still being written; of other records, the last line is then left out if it has no
            end, since it may go on.
        sent: the bytes to read, for a task on another machine; None for the file itself.
    """

    packets: PurePath
    link: str
    file: int
    path: Path
    attempt: str
    max_jump: int
    one: bool
    content: ContentOptions | TableOptions
    chunks: tuple[CaptureChunk, ...] | None
    number: int = 0
    sha256: str = ""
    identity: str = ""
    bytes: int = 0
    growing: bool = False
    sent: SentPart | None = None

    @property
    def weight(self) -> int:
        """Bytes to read; the heaviest tasks start first."""
        return self.bytes if self.chunks is None else self.chunks[-1].end - self.chunks[0].begin

    @property
    def home(self) -> str:
        """The file and chunk that it reads, by which a machine of a cluster is chosen."""
        return f"{self.path} {self.number}"


@dataclass(frozen=True)
class PackedFile:
    """A file of packets that lacks the identity of its capture.

    Attributes:
        path: path relative to `packets/`.
        hour: hour of the arrival of its packets.
        file: the written file without footer.
        bounds: smallest and largest value of the columns BOUNDED.
    """

    path: str
    hour: int
    file: UnfinishedFile
    bounds: Mapping[str, tuple[int, int]]

    def whole(self, identity: str, packets: PurePath) -> RecordFile:
        """Does `of`, and returns what its commit needs."""
        file = self.of(identity, packets)
        bounds = dict(file.smallest), dict(file.largest)
        return RecordFile(self.path, self.hour, file.rows, file.size, *bounds)

    def of(self, identity: str, packets: PurePath) -> DataFile:
        """Adds the identity of the capture, finishes the file and puts it into the table.

        Raises:
            OSError: if it cannot be written.
        """
        size = self.file.finish({"capture": identity})
        paths.place(packets / self.path)
        smallest, largest = ({name: ends[side] for name, ends in self.bounds.items()} for side in (0, 1))
        return DataFile(self.path, size, self.file.rows, {"hour": str(self.hour)}, smallest, largest)


@dataclass(frozen=True)
class PackResult:
    """Result of a pack task.

    Attributes:
        file: number of the file in this ingest.
        files: name of the interface (empty if all are one) and file; a file for every hour of arrival, in order.
        undecoded: interface number -> packets without an IP header.
        summary: summary of a compressed capture; None for chunks.
        damage: malformed rows of a compressed capture, schema `DAMAGE`.
    """

    file: int
    files: tuple[tuple[str, PackedFile | RecordFile], ...]
    undecoded: dict[int, int]
    summary: CaptureSummary | None = None
    damage: pa.Table = field(default_factory=DAMAGE.empty_table)


def pack(task: PackTask) -> PackResult | FailedTask:
    """Decodes chunks, or a compressed capture, and writes their packets."""
    try:
        return _pack(task) if task.sent is None else _pack_sent(task)
    except LowwaterError as error:
        return FailedTask(passing(error), task.file)
    except OSError as error:
        return FailedTask(not_written(task.packets, task.path, error), task.file)


def _pack_sent(task: PackTask) -> PackResult:
    """Packs what another machine sent; the files are whole, since that machine cannot finish them."""
    near, file = received(task)
    try:
        result = _pack(near)
    except LowwaterError as error:
        raise error if file is None else renamed(error, file, task.path) from None
    finally:
        if file is not None:
            file.unlink(missing_ok=True)
    identity = task.identity or (result.summary.identity if result.summary else "")
    whole = tuple((name, packed.whole(identity, task.packets)) for name, packed in result.files)
    return replace(result, files=whole)


def not_written(packets: PurePath, capture: Path, error: OSError) -> LakeError:
    """Makes the error for packets of a capture that cannot be written."""
    text = f"{packets}: packets of {capture} cannot be written: {error.strerror or error}"
    return lake_error(error, text, "check rights and room on its disk")


def _pack(task: PackTask) -> PackResult:
    if isinstance(task.content, TableOptions):
        return _pack_records(task, task.content)
    writer = _TaskWriter(task, task.content)
    if task.chunks is None:
        reader = read(task.path, task.max_jump, sha256=task.sha256, content=task.content, identified=True)
        writer.write(reader.by_interface(), {})
    else:
        # Batches of interfaces that become one must stay until they are merged.
        memory = None if task.one else _thread_memory.memory
        for chunk in task.chunks:
            writer.write(read_chunk(chunk, task.content, memory), _clocks(chunk, task.one))
    writer.finish()
    files, undecoded = tuple(writer.files), writer.undecoded
    if task.chunks is not None:
        return PackResult(task.file, files, undecoded)
    if reader.summary is None or reader.summary.bytes != task.bytes:
        raise CaptureError(f"{task.path}: changed while it was read", "ingest it again")
    return PackResult(task.file, files, undecoded, reader.summary, damage_table(reader.malformed))


def _pack_records(task: PackTask, options: TableOptions) -> PackResult:
    name = f"link={safe_name(task.link)}/hour={{hour}}/000000-{{number:06}}-{task.attempt}.parquet"
    digests = task.sha256, task.identity
    written = write_records(task.path, options, task.max_jump, digests, task.packets, name, task.growing)
    if written.summary.bytes != task.bytes:
        raise CaptureError(f"{task.path}: changed while it was read", "ingest it again")
    return PackResult(task.file, tuple(("", file) for file in written.files), {}, written.summary, written.damage)


def _clocks(chunk: CaptureChunk, one: bool) -> dict[str, int]:
    """Name of an interface (empty if all are one) -> largest sane timestamp of such interfaces before a chunk, ns."""
    clocks: dict[str, int] = {}
    for interface in chunk.scanner.interfaces:
        name = "" if one else interface.name
        clocks[name] = max(clocks.get(name, -1), chunk.clocks[interface.index])
    return clocks


class _HourFile:
    """The rows of an interface and hour that wait to be written.

    Args:
        hour: hour of their arrival.
        schema: schema of the rows.

    Attributes:
        rows: number of rows so far.
        size: bytes of their frames and texts.
    """

    def __init__(self, hour: int, schema: pa.Schema) -> None:
        self.hour = hour
        self.rows = 0
        self.size = 0
        self._writer = FileWriter(schema, COUNTERS, BOUNDED)
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows, and copies what it does not encode at once."""
        self.rows += batch.num_rows
        self.size += sum(column.nbytes for column in batch.columns[len(BATCH) :])
        self._batches.append(batch)
        if self.rows - self._writer.rows >= PAGE_ROWS:
            self._page()
        else:
            self._batches[-1] = pa.concat_batches([batch, batch.slice(0, 0)])

    def write(self, packets: PurePath, path: str) -> PackedFile:
        """Writes the rows and the columns that have a value; readers take missing columns for NULL."""
        if self._batches:
            self._page()
        file = self._writer.write(paths.draft(packets / path))
        return PackedFile(path, self.hour, file, {n: self._writer.bounds(n) for n in BOUNDED})

    def _page(self) -> None:
        self._writer.add(self._batches, _thread_memory.scratch)
        self._batches = []


class _TaskWriter:
    """The files of a task: for every interface, the file of its current hour waits for more rows."""

    def __init__(self, task: PackTask, content: ContentOptions) -> None:
        self.files: list[tuple[str, PackedFile]] = []
        self.undecoded: dict[int, int] = {}
        self._task = task
        self._schema = content.schema
        self._waiting: dict[str, _HourFile] = {}

    def write(self, batches: Iterator[tuple[Interface, pa.RecordBatch]], clocks: Mapping[str, int]) -> None:
        """Writes batches; `clocks` has the clock of the interfaces of each name before them, ns."""
        for name, batch in parted(self._counted(batches), clocks, self._task.one):
            for hour, part in by_hour(batch):
                self._add(name, hour, part)
            waiting = self._waiting.values()
            if sum(file.rows for file in waiting) > MOST_WAITING or sum(file.size for file in waiting) > MOST_BYTES:
                self._close(max(self._waiting, key=lambda at: (self._waiting[at].size, self._waiting[at].rows)))

    def finish(self) -> None:
        """Writes the waiting files."""
        for name in list(self._waiting):
            self._close(name)

    def _add(self, name: str, hour: int, batch: pa.RecordBatch) -> None:
        file = self._waiting.get(name)
        if file is not None and (file.hour != hour or file.rows >= FILE_ROWS or file.size >= FILE_BYTES):
            self._close(name)
        if name not in self._waiting:
            self._waiting[name] = _HourFile(hour, self._schema)
        self._waiting[name].add(batch)

    def _close(self, interface: str) -> None:
        task, file = self._task, self._waiting.pop(interface)
        name = file_name(task.number, len(self.files), task.attempt)
        path = f"link={safe_name(task.link)}/hour={file.hour}/{name}"
        self.files.append((interface, file.write(task.packets, path)))

    def _counted(
        self, batches: Iterator[tuple[Interface, pa.RecordBatch]]
    ) -> Iterator[tuple[Interface, pa.RecordBatch]]:
        for interface, batch in batches:
            if interface.index >= MOST_INTERFACES and not self._task.one:
                raise CaptureError(
                    f"{self._task.path}: has more than {MOST_INTERFACES} interfaces",
                    f'set interfaces = "one" in {section_of(self._task.link)}',
                )
            missing = batch.column("ipversion").null_count
            self.undecoded[interface.index] = self.undecoded.get(interface.index, 0) + missing
            yield interface, batch


def file_name(chunk: int, number: int, attempt: str) -> str:
    """Names a packet file: its place among the files of its capture, then the attempt.

    Example:
        >>> file_name(7, 0, "0123")
        '000007-000000-0123.parquet'
    """
    return f"{chunk:06}-{number:06}-{attempt}.parquet"
