"""Tasks of ingest, on threads or on workers: the survey of a capture, and the packing of its chunks as parquet files.

A survey finds digest, chunks, malformed rows and the links of interfaces before packets are decoded. Packing writes
chunks of a capture, or a file of records. Tasks of other machines get their bytes through the lake.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater import errors, instants, limits
from lowwater.capture.content.retention import NOTHING, ContentOptions
from lowwater.capture.formats import capture_file, sources
from lowwater.capture.headers.packet import Memory
from lowwater.capture.headers.undecoded import Undecoded, largest, together
from lowwater.capture.inspect import digests_of_records
from lowwater.capture.reader import BATCH, CaptureChunk, CaptureIndex, can_reorder, digest, indexing, read, read_chunk
from lowwater.capture.records import sanity, stream
from lowwater.capture.records.drops import joined
from lowwater.capture.records.facts import CaptureSummary, Interface, InterfaceSummary
from lowwater.capture.records.holes import merged_holes
from lowwater.capture.records.parts import IN_FILE, ReadingOrder
from lowwater.capture.tables.options import TableOptions
from lowwater.capture.tables.reader import DAMAGE as RECORD_DAMAGE, RecordReader
from lowwater.catalog.time import arrival_times
from lowwater.config import section_of
from lowwater.lake.parquet import FileWriter, PageBuffers, UnfinishedFile
from lowwater.lake.tables import DataFile, safe_name
from lowwater.link_names import below, family_of
from lowwater.storage import paths
from lowwater.storage.failures import hint_of, lake_error, passing
from lowwater.storage.object_paths import ObjectPath

# A plain file is hashed and divided in one pass. A compressed file is only hashed: it is decoded while it is
# decompressed.

DAMAGE = RECORD_DAMAGE.remove(RECORD_DAMAGE.get_field_index("line"))
"""Schema of the malformed rows of a capture, as of records without a `line`; `interface` is the interface number."""


@dataclass(frozen=True)
class FailedTask:
    """Error of a task about a file or the disk, returned so that the work on other files goes on."""

    error: errors.LowwaterError
    file: int = -1  # number of the file in this ingest; -1 if the task has none
    attempt: str = ""  # that of its task


@dataclass(frozen=True)
class SurveyTask:
    """Task of a worker."""

    path: Path
    max_jump: int  # max_jump of its link, ns
    chunk_bytes: int  # approximate size of a chunk, bytes
    whole: bool = False  # whether the file is one chunk, since its records are no packets
    content: ContentOptions = NOTHING


@dataclass(frozen=True)
class Survey:
    """Result of a survey."""

    path: Path
    sha256: str  # digest of the bytes that were read
    identity: str  # identity of the capture (T5); empty for a compressed capture, which is not decoded here
    bytes: int
    grew: bool  # whether the file became longer meanwhile
    # its chunks and its summary, without malformed rows; None for a compressed file, and one without packets
    index: CaptureIndex | None
    damage: pa.Table  # the malformed rows, schema `DAMAGE`


def survey(task: SurveyTask) -> Survey | FailedTask:
    """Surveys a file."""
    surveying = SurveyRun(task)
    for _ in surveying:
        pass
    return surveying.result


class SurveyRun:
    """A survey, step by step: iterate it once; it yields the chunks of a plain file as soon as they are complete. None
    says that those before it are void: the captures in the file are joined in another order than that of their times.
    """

    result: Survey | FailedTask

    def __init__(self, task: SurveyTask) -> None:
        self._task = task

    def __iter__(self) -> Iterator[CaptureChunk | None]:
        try:
            self.result = yield from _survey(self._task)
        except OSError as error:
            text = f"{self._task.path}: cannot be read: {error.strerror}"
            self.result = FailedTask(passing(errors.CaptureError(text, hint_of(error, "check the path")), error))
        except errors.LowwaterError as error:
            self.result = FailedTask(passing(error))


def _survey(task: SurveyTask) -> Generator[CaptureChunk | None, None, Survey]:
    before = _size(task.path)
    with task.path.open("rb") as file:
        compressed = sources.compression_of(file.read(capture_file.FILE_HEADER))
    if compressed or task.whole:
        sha256, identity = digests_of_records(task.path) if task.whole else (digest(task.path), "")
        grew = task.path.stat().st_size > before
        return Survey(task.path, sha256, identity, before, grew, None, DAMAGE.empty_table())
    capture_index = yield from indexing(task.path, task.max_jump, task.chunk_bytes, content=task.content)
    if can_reorder(capture_index.summary):
        yield None
        order, sha256 = capture_index.summary.by_time, capture_index.summary.sha256
        capture_index = yield from indexing(
            task.path, task.max_jump, task.chunk_bytes, sha256, content=task.content, order=order
        )
    facts, damage = capture_index.summary, damage_table(capture_index.malformed)
    grew = max(task.path.stat().st_size, facts.bytes) > before
    bare = replace(capture_index, malformed=stream.MalformedRows(task.path))
    return Survey(task.path, facts.sha256, facts.identity, facts.bytes, grew, bare, damage)


def _size(path: Path) -> int:
    """Returns the size of a file; raises an error if it cannot be ingested."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise errors.CaptureError(
            f"{str(path)!a}: the file name is not UTF-8 text, which the ledger requires", "rename it"
        ) from None
    if "\n" in str(path):  # other characters that a terminal obeys are shown as escapes
        raise errors.CaptureError(
            f"{str(path)!a}: the file name has a line break, which would tear each line that names it", "rename it"
        )
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise errors.CaptureError(
            f"{path}: is not a regular file, and ingest reads a capture more than once", "write it to a file first"
        )
    return status.st_size


def damage_table(rows: stream.MalformedRows) -> pa.Table:
    """Converts malformed rows to a table, schema `DAMAGE`."""
    columns = {name: np.ascontiguousarray(rows.columns[name]) for name in DAMAGE.names}
    absent = {name: columns[name] < 0 for name in ("position", "arrival")}
    arrays = {name: pa.array(values, mask=absent.get(name)) for name, values in columns.items()}
    arrays["reason"] = pa.DictionaryArray.from_arrays(arrays["reason"], pa.array(stream.REASONS))
    return pa.table(arrays).cast(DAMAGE)


# An interface with a name is the link `link/name`, also if it is the only one of its file; the link has the others.
# Interfaces of one name are one link, as all are with `interfaces = "one"`.

MOST_INTERFACES = limits.MEDIAN_INTERFACES
"""Most interfaces of a capture that become links: each has a partition of its own in every table."""


def link_names(link: str, names: Sequence[str], path: Path, one: bool) -> list[str]:
    """Names the link of every interface of a capture, by their names.
    Raises CaptureError if there are too many interfaces, or the link is itself the link of an interface.

    Example:
        >>> link_names("main", ["eth0", "", "eth0"], Path("a.pcapng"), False)
        ['main/eth0', 'main', 'main/eth0']
    """
    if one:
        return [link] * len(names)
    several = len(set(names))
    if several > 1 and (len(names) > MOST_INTERFACES or "/" in link):
        family = family_of(link)
        why, remedy = f"and {link!r} is the link of one", f"ingest it for link {family!r}"
        if len(names) > MOST_INTERFACES:
            why = f"more than the {MOST_INTERFACES} that may be links"
            remedy = (
                f'set interfaces = "one" in {section_of(family)} of lowwater.toml, and ingest it for link {family!r}'
            )
        raise errors.CaptureError(f"{path}: has {several} interfaces, {why}", remedy)
    return [below(link, name) for name in names]


def parted(
    batches: Iterable[tuple[Interface, pa.RecordBatch]], clocks: Mapping[str, int], one: bool
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Merges batches of interfaces that are one link, in file order. Yields the name of the interface with each batch;
    it is empty if all are `one` link.

    Args:
        batches: by record span, and in a span by interface.
        clocks: name -> largest sane timestamp before them over all interfaces of this name, ns.
    """
    now, waiting, last = dict(clocks), dict[str, list[pa.RecordBatch]](), -1
    for interface, batch in batches:
        if interface.index <= last:
            yield from _settled(waiting, now)
        last = interface.index
        if one or interface.shared:
            waiting.setdefault("" if one else interface.name, []).append(batch)
        else:
            yield interface.name, batch
            now[interface.name] = batch.column("arrival")[-1].as_py()
    yield from _settled(waiting, now)


def _settled(waiting: dict[str, list[pa.RecordBatch]], clocks: dict[str, int]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name, batches in waiting.items():
        joined = _in_order(batches, clocks.get(name, -1))
        clocks[name] = joined.column("arrival")[-1].as_py()
        yield name, joined
    waiting.clear()


def _in_order(batches: list[pa.RecordBatch], clock: int) -> pa.RecordBatch:
    if len(batches) == 1 and batches[0].column("arrival")[0].as_py() >= clock:
        return batches[0]
    table = pa.Table.from_batches(batches)
    table = table.take(pc.sort_indices(table, [("position", "ascending")]))
    arrived = pa.array(arrival_times(table.column("timestamp").to_numpy(), clock))
    at = table.schema.get_field_index("arrival")
    return table.set_column(at, table.schema.field(at), arrived).combine_chunks().to_batches()[0]


def merge_summaries(
    parts: Sequence[InterfaceSummary], files: Sequence[Path], damage: pa.Table
) -> tuple[InterfaceSummary, pa.Table]:
    """Merges several interfaces into one, by a pass over the files with all of their packets, in order of position.
    Returns a summary under the first interface, whose link type is `mixed` if they differ, and its name empty; and
    their malformed rows (schema `DAMAGE`) with the clock of all interfaces."""
    rows = _Rows(damage)
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["position", "arrival", "timestamp"], use_threads=False):
                rows.add(*(column.to_numpy() for column in batch.columns))
    types = {part.interface.link_type for part in parts}
    names = {part.interface.name for part in parts}
    name = names.pop() if len(names) == 1 else ""
    head = replace(parts[0].interface, link_type=types.pop() if len(types) == 1 else "mixed", name=name)
    summary = InterfaceSummary(
        interface=head,
        packets=sum(part.packets for part in parts),
        undecoded=sum(part.undecoded for part in parts),
        wire=sum(part.wire for part in parts),
        types=largest(together(part.types for part in parts)),
        malformed=sum(part.malformed for part in parts),
        first=rows.first,
        last=rows.last,
        smallest=min((part.smallest for part in parts if part.smallest is not None), default=None),
        largest=max((part.largest for part in parts if part.largest is not None), default=None),
        median=rows.median.value(),
        lull=rows.lull if rows.first is not None else None,
        drops=joined([part.drops for part in parts]),
        holes=merged_holes([part.holes for part in parts]),
        lag=rows.lag if rows.first is not None else None,
    )
    rows.median.close()
    return summary, rows.damage()


class _Rows:
    """Facts from a pass over the packets of a capture: first and last timestamp, median, clocks of malformed rows."""

    def __init__(self, damage: pa.Table) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.lull = self.lag = 0
        self._clock = -1
        self.median = sanity.Median()
        self._damage = damage
        # A row without a position lies behind all packets.
        places = pc.fill_null(damage.column("position"), np.iinfo(np.int64).max)
        self._places: NDArray[np.int64] = places.to_numpy()
        self._clocks = np.full(len(self._places), -1, np.int64)

    def add(self, positions: NDArray[np.int64], arrivals: NDArray[np.int64], stamps: NDArray[np.int64]) -> None:
        self.first = int(stamps[0]) if self.first is None else self.first
        self.last = int(stamps[-1])
        self.lull, self._clock = sanity.longest_lull(arrivals, self._clock, self.lull), int(arrivals[-1])
        self.lag = max(self.lag, int((arrivals - stamps).max()))
        self.median.add(stamps)
        before = np.searchsorted(positions, self._places)
        self._clocks = np.where(before > 0, arrivals[before - 1], self._clocks)

    def damage(self) -> pa.Table:
        arrivals = pa.array(self._clocks, pa.int64(), mask=self._clocks < 0)
        at = DAMAGE.get_field_index("arrival")
        return self._damage.set_column(at, DAMAGE.field(at), arrivals)


def by_hour(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields slices of a batch by hour of arrival; arrivals never decrease."""
    arrivals = batch.column("arrival").to_numpy()
    start = 0
    while start < len(arrivals):
        hour = int(arrivals[start]) // instants.HOUR
        stop = int(arrivals.searchsorted((hour + 1) * instants.HOUR))
        yield hour, batch.slice(start, stop - start)
        start = stop


# Files of records that are no packets: a file for each hour.


BOUNDED = ("position", "arrival", "timestamp")
"""Columns with statistics."""


@dataclass(frozen=True)
class PackedFile:
    """A file of a capture in the folder of its table that lacks the identity of the capture."""

    path: str  # path relative to the table
    hour: int
    file: UnfinishedFile
    bounds: Mapping[str, tuple[int, int]]  # smallest and largest value of the columns BOUNDED

    def finish(self, identity: str, table: PurePath) -> DataFile:
        """Adds the identity of the capture, and puts the file into the table.
        Raises OSError if it cannot be written."""
        size = self.file.finish({"capture": identity})
        path = paths.seal(table / self.path).relative_to(table).as_posix()
        smallest, largest = ({name: ends[side] for name, ends in self.bounds.items()} for side in (0, 1))
        return DataFile(path, size, self.file.rows, {"hour": str(self.hour)}, smallest, largest)


def packed_file(writer: FileWriter, table: PurePath, path: str, hour: int) -> PackedFile:
    """Writes what a writer holds of an hour into a file in the folder of a table."""
    bounds = {name: writer.bounds(name) for name in BOUNDED}
    return PackedFile(path, hour, writer.write(paths.draft(table / path)), bounds)


class WrittenRecords(NamedTuple):
    """The records of a file: written files in order, malformed records (`capture.tables.reader.DAMAGE`), summary."""

    files: list[DataFile]
    damage: pa.Table
    summary: CaptureSummary


POOL = "jemalloc"
"""Memory pool of Arrow; its default one gives pages back to the kernel and takes them again for each block (ADR 15)."""


@cache
def _use_pool() -> None:
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
    """Reads a file, whose sha256 and identity are known, and writes its records into files that are called `name`, with
    its `{hour}` and `{number}`, relative to the table.
    Raises CaptureError if the file cannot be read, and OSError if a file cannot be written."""
    _use_pool()
    sha256, identity = digests
    reader = RecordReader(path, options, max_jump, sha256, growing, dictionaries=True)
    files: list[Future[DataFile]] = []
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
    """A file that is being written by another thread, while the next records are read."""

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
        self._pool, self._scratch, self._table, self._path = pool, scratch, table, path
        self._identity = identity
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._pages: deque[Future[None]] = deque()
        self._writer = FileWriter(columns, (*BOUNDED, clock), BOUNDED)

    @property
    def full(self) -> bool:
        """Whether the next records go into another file."""
        return self.rows >= limits.FILE_ROWS or self.size >= limits.FILE_BYTES

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.size += batch.nbytes
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= limits.RECORD_PAGE_ROWS or self._waiting_bytes >= limits.RECORD_PAGE_BYTES:
            self._flush()

    def close(self) -> Future[DataFile]:
        self._flush()
        return self._pool.submit(self._finish)

    def _flush(self) -> None:
        # Few pages wait for the thread, so that memory is bounded, and the thread has work while a file is finished.
        while len(self._pages) > limits.RECORD_WAITING_PAGES:
            self._pages.popleft().result()
        if self._waiting:
            self._pages.append(self._pool.submit(self._writer.add, self._waiting, self._scratch))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _finish(self) -> DataFile:
        for page in self._pages:
            page.result()  # raises its error
        return packed_file(self._writer, self._table, self._path, self.hour).finish(self._identity, self._table)


# The bytes of a capture, for tasks on other machines.


@dataclass(frozen=True)
class SentPart:
    """Bytes of a capture in the lake."""

    # file of the lake with them, of which a task removes its copy; None where the capture is in a store
    place: PurePath | None
    begin: int  # offset of the first of them in the capture


def send(task: PackTask, folder: PurePath, sha256: str) -> PackTask:
    """Puts the bytes that a task reads into the lake; returns the task that reads them there.
    Raises OSError if the capture cannot be read, or the lake cannot be written."""
    if isinstance(task.path, ObjectPath):  # tasks on other machines read it in ranges, as this one does
        return replace(task, sha256=sha256, sent=SentPart(None, 0))
    place = folder / f"{task.attempt}-{task.number:06}.part"
    begin, end = 0, None
    if task.chunks:
        begin = min(chunk.begin - chunk.base for chunk in task.chunks)
        end = max(chunk.end - chunk.base for chunk in task.chunks)
    paths.send(task.path, begin, end, place)
    return replace(task, sha256=sha256, sent=SentPart(place, begin))


def received(task: PackTask) -> tuple[PackTask, Path | None]:
    """Brings the bytes of a task to this machine; returns the task that reads them, and the file with them, if any."""
    if task.sent is None or task.sent.place is None:
        return task, None
    file = paths.local(task.sent.place)
    if task.chunks is None:
        return replace(task, path=file), file
    chunks = tuple(replace(chunk, held=file, base=chunk.base + task.sent.begin) for chunk in task.chunks)
    return replace(task, chunks=chunks), file


def renamed(error: errors.LowwaterError, file: Path, capture: Path) -> errors.LowwaterError:
    """Lets an error name the capture as its user knows it."""
    error.message = error.message.replace(str(file), str(capture))
    error.args = tuple(text.replace(str(file), str(capture)) if isinstance(text, str) else text for text in error.args)
    return error


# The task. It commits nothing and opens no Delta table, so it may run in a thread or in a Spark worker, and again.


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
    """A task of a worker; picklable."""

    packets: PurePath  # directory of the table `packets/`, or of the link's table of other records
    link: str  # link that the file is ingested for; names the folder
    file: int  # number of the file in this ingest
    path: Path
    attempt: str
    max_jump: int  # max_jump of the link, ns
    one: bool  # whether all interfaces are one link
    # content that is stored beside the headers; for other records how they are read
    content: ContentOptions | TableOptions
    # successive chunks of a plain file; None for the whole of a compressed file
    chunks: tuple[CaptureChunk, ...] | None
    number: int = 0
    sha256: str = ""  # digest of a compressed file, and of every file that tasks on other machines read
    identity: str = ""  # identity of the capture where it is known before, with `sha256`
    bytes: int = 0
    # whether the file is still being written; of other records, the last line is then left out if it has no end, since
    # it may go on
    growing: bool = False
    sent: SentPart | None = None  # the bytes to read, for a task on another machine; None for the file itself

    @property
    def weight(self) -> int:
        """Bytes to read; the heaviest tasks start first."""
        return self.bytes if self.chunks is None else self.chunks[-1].end - self.chunks[0].begin


@dataclass(frozen=True)
class PackResult:
    """Result of a pack task."""

    file: int  # number of the file in this ingest
    # name of the interface (empty if all are one) and file; a file for every hour of arrival, in order. One of packets
    # that this machine wrote is finished once the identity of the capture is known
    files: tuple[tuple[str, PackedFile | DataFile], ...]

    def finished(self, identity: str, table: PurePath) -> list[tuple[str, DataFile]]:
        """Returns the files with their identity, in the table. Raises OSError if one cannot be written."""
        return [
            (name, file.finish(identity, table) if isinstance(file, PackedFile) else file) for name, file in self.files
        ]

    undecoded: dict[int, Undecoded]  # interface number -> packets without an IP header
    summary: CaptureSummary | None = None  # summary of a compressed capture; None for chunks
    # malformed rows of a compressed capture, schema `DAMAGE`
    damage: pa.Table = field(default_factory=DAMAGE.empty_table)
    attempt: str = ""  # that of its task


def pack(task: PackTask) -> PackResult | FailedTask:
    """Decodes chunks, or a compressed capture, and writes their packets."""
    try:
        return _pack(task) if task.sent is None else _pack_sent(task)
    except errors.LowwaterError as error:
        return FailedTask(passing(error), task.file, task.attempt)
    except OSError as error:
        return FailedTask(not_written(task.packets, task.path, error), task.file, task.attempt)


def _pack_sent(task: PackTask) -> PackResult:
    """Packs what another machine sent; the files are whole, since that machine cannot finish them."""
    near, file = received(task)
    try:
        result = _pack(near)
    except errors.LowwaterError as error:
        raise error if file is None else renamed(error, file, task.path) from None
    finally:
        if file is not None:
            file.unlink(missing_ok=True)
    identity = task.identity or (result.summary.identity if result.summary else "")
    return replace(result, files=tuple(result.finished(identity, task.packets)))


def not_written(packets: PurePath, capture: Path, error: OSError) -> errors.LakeError:
    """Makes the error for packets of a capture that cannot be written."""
    text = f"{packets}: packets of {capture} cannot be written: {error.strerror or error}"
    return lake_error(error, text, "check rights and room on its disk")


def _pack(task: PackTask) -> PackResult:
    if isinstance(task.content, TableOptions):
        return _pack_records(task, task.content)
    if task.chunks is None:
        return _pack_compressed(task, task.content)
    writer = _TaskWriter(task, task.content)
    undecoded: dict[int, Undecoded] = {}
    # Batches of interfaces that become one must stay until they are merged.
    memory = None if task.one else _thread_memory.memory
    for chunk in task.chunks:
        writer.write(read_chunk(chunk, task.content, memory, undecoded), _clocks(chunk, task.one))
    writer.finish()
    return PackResult(task.file, tuple(writer.files), undecoded, attempt=task.attempt)


def _pack_compressed(task: PackTask, content: ContentOptions, order: ReadingOrder = IN_FILE) -> PackResult:
    writer = _TaskWriter(task, content)
    reader = read(task.path, task.max_jump, sha256=task.sha256, content=content, identified=True, order=order)
    writer.write(reader.by_interface(), {})
    writer.finish()
    if reader.summary is None or reader.summary.bytes != task.bytes:
        raise errors.CaptureError(f"{task.path}: changed while it was read", "ingest it again")
    if can_reorder(reader.summary):
        for _, packed in writer.files:
            packed.file.path.unlink()
        return _pack_compressed(task, content, reader.summary.by_time)
    damage = damage_table(reader.malformed)
    return PackResult(task.file, tuple(writer.files), reader.undecoded(), reader.summary, damage, task.attempt)


def _pack_records(task: PackTask, options: TableOptions) -> PackResult:
    name = f"link={safe_name(task.link)}/hour={{hour}}/000000-{{number:06}}-{task.attempt}.parquet"
    digests = task.sha256, task.identity
    written = write_records(task.path, options, task.max_jump, digests, task.packets, name, task.growing)
    if written.summary.bytes != task.bytes:
        raise errors.CaptureError(f"{task.path}: changed while it was read", "ingest it again")
    files = tuple(("", file) for file in written.files)
    return PackResult(task.file, files, {}, written.summary, written.damage, task.attempt)


def _clocks(chunk: CaptureChunk, one: bool) -> dict[str, int]:
    """Name of an interface (empty if all are one) -> largest sane timestamp of such interfaces before a chunk, ns."""
    clocks: dict[str, int] = {}
    for interface in chunk.scanner.interfaces:
        name = "" if one else interface.name
        clocks[name] = max(clocks.get(name, -1), chunk.clocks[interface.index])
    return clocks


class _HourFile:
    """The rows of an interface and hour that wait to be written.

    Attributes:
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
        if self.rows - self._writer.rows >= limits.PACKET_PAGE_ROWS:
            self._page()
        else:
            self._batches[-1] = pa.concat_batches([batch, batch.slice(0, 0)])

    def write(self, packets: PurePath, path: str) -> PackedFile:
        """Writes the rows and the columns that have a value; readers take missing columns for NULL."""
        if self._batches:
            self._page()
        return packed_file(self._writer, packets, path, self.hour)

    def _page(self) -> None:
        self._writer.add(self._batches, _thread_memory.scratch)
        self._batches = []


class _TaskWriter:
    """The files of a task: for every interface, the file of its current hour waits for more rows."""

    def __init__(self, task: PackTask, content: ContentOptions) -> None:
        self.files: list[tuple[str, PackedFile]] = []
        self._task = task
        self._schema = content.schema
        self._waiting: dict[str, _HourFile] = {}

    def write(self, batches: Iterator[tuple[Interface, pa.RecordBatch]], clocks: Mapping[str, int]) -> None:
        """Writes batches; `clocks` has the clock of the interfaces of each name before them, ns."""
        for name, batch in parted(self._counted(batches), clocks, self._task.one):
            for hour, part in by_hour(batch):
                self._add(name, hour, part)
            waiting = self._waiting.values()
            if (
                sum(file.rows for file in waiting) > limits.TASK_WAITING_ROWS
                or sum(file.size for file in waiting) > limits.TASK_WAITING_BYTES
            ):
                self._close(max(self._waiting, key=lambda at: (self._waiting[at].size, self._waiting[at].rows)))

    def finish(self) -> None:
        for name in list(self._waiting):
            self._close(name)

    def _add(self, name: str, hour: int, batch: pa.RecordBatch) -> None:
        file = self._waiting.get(name)
        if file is not None and (file.hour != hour or file.rows >= limits.FILE_ROWS or file.size >= limits.FILE_BYTES):
            self._close(name)
        if name not in self._waiting:
            self._waiting[name] = _HourFile(hour, self._schema)
        self._waiting[name].add(batch)

    def _close(self, interface: str) -> None:
        task, file = self._task, self._waiting.pop(interface)
        name = f"{task.number:06}-{len(self.files):06}-{task.attempt}.parquet"  # its place in the capture, the attempt
        path = f"link={safe_name(task.link)}/hour={file.hour}/{name}"
        self.files.append((interface, file.write(task.packets, path)))

    def _counted(
        self, batches: Iterator[tuple[Interface, pa.RecordBatch]]
    ) -> Iterator[tuple[Interface, pa.RecordBatch]]:
        for interface, batch in batches:
            if interface.index >= MOST_INTERFACES and not self._task.one:
                raise errors.CaptureError(
                    f"{self._task.path}: has more than {MOST_INTERFACES} interfaces",
                    f'set interfaces = "one" in {section_of(self._task.link)}',
                )
            yield interface, batch
