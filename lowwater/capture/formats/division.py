"""Division of a capture into chunks that can be decoded in any order and in any process.

One pass over the file, without decoding, finds everything that depends on earlier bytes: the sane timestamps, the
clocks and the digest. The decoding of a chunk then depends on its own bytes alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.retention import NOTHING, ContentBuilder, ContentOptions
from lowwater.capture.formats import classic
from lowwater.capture.formats.classic import Scanner
from lowwater.capture.formats.pcapng import PcapngScanner, give_times
from lowwater.capture.headers.batches import Memory
from lowwater.capture.reader import CaptureReader
from lowwater.capture.records.facts import CaptureSummary, Interface
from lowwater.capture.records.malformed import MalformedRows
from lowwater.capture.records.stream import RecordSpan, decode_span, split_by_interface
from lowwater.errors import CaptureError
from lowwater.limits import BATCH_ROWS, CAPTURE_CHUNK_BYTES, CHUNK_INTERFACES
from lowwater.storage.failures import hint_of

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Largest sane timestamp of each interface at a place of a file, ns; -1 for none.

    Attributes:
        before: those at an earlier place, which several chunks share.
        since: those of the interfaces with records since then.
    """

    before: tuple[int, ...]
    since: Mapping[int, int]

    def __getitem__(self, number: int) -> int:
        return self.since.get(number, self.before[number] if number < len(self.before) else -1)


@dataclass(frozen=True, slots=True)
class CaptureChunk:
    """A part of a capture file without damage; picklable.

    Attributes:
        path: the file.
        begin: offset of its first record in the file.
        end: offset behind its last record.
        position: number of its first record in the capture.
        records: number of records.
        clocks: clocks of the interfaces before the chunk.
        insane: positions of its malformed records, ascending.
        scanner: the scanner at its first record.
        held: file that has the bytes of the chunk; None for the capture itself.
        base: offset in the capture of the first byte of `held`.
    """

    path: Path
    begin: int
    end: int
    position: int
    records: int
    clocks: Clocks
    insane: NDArray[np.int64]
    scanner: Scanner
    held: Path | None = None
    base: int = 0


@dataclass(frozen=True)
class CaptureIndex:
    """Result of one pass over a capture without decoding.

    Attributes:
        chunks: the chunks in file order, with all sane records; empty for a compressed file.
        malformed: as `CaptureReader.malformed`.
        summary: as `CaptureReader.summary`, with `undecoded` 0.
    """

    chunks: tuple[CaptureChunk, ...]
    malformed: MalformedRows
    summary: CaptureSummary


def index(
    path: Path,
    max_jump: int,
    chunk_bytes: int = CAPTURE_CHUNK_BYTES,
    sha256: str | None = None,
    content: ContentOptions = NOTHING,
) -> CaptureIndex:
    """Indexes a capture file, in one call. Arguments as of `indexing`."""
    steps = indexing(path, max_jump, chunk_bytes, sha256, content)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            capture_index: CaptureIndex = end.value
            return capture_index


def indexing(
    path: Path,
    max_jump: int,
    chunk_bytes: int = CAPTURE_CHUNK_BYTES,
    sha256: str | None = None,
    content: ContentOptions = NOTHING,
) -> Generator[CaptureChunk, None, CaptureIndex]:
    """Indexes a capture file, and yields each chunk as soon as it is complete. Returns the whole index.

    Args:
        path: a capture file. A compressed one has no chunks: decode it with `read`.
        max_jump: as for `read`.
        chunk_bytes: approximate size of a chunk, bytes; a chunk ends between two records.
        sha256: as for `read`.
        content: as for `read`; of it, only the times matter here.

    Raises:
        CaptureError: as `read`.
    """
    times = ContentOptions(untimed=content.untimed, resolution=content.resolution)
    reader = CaptureReader(path, max_jump, min(chunk_bytes, CAPTURE_CHUNK_BYTES), sha256, times, identified=True)
    builder, yielded = _ChunkBuilder(path, reader, chunk_bytes), 0
    for span in reader.spans():
        if not reader.header.compression:
            builder.add(span)
        reader.count(span)
        yield from builder.chunks[yielded:]
        yielded = len(builder.chunks)
    builder.cut()
    yield from builder.chunks[yielded:]
    assert reader.summary is not None
    return CaptureIndex(tuple(builder.chunks), reader.malformed, reader.summary)


class _ChunkBuilder:
    """Builds the chunks of a capture from its spans.

    Args:
        size: approximate size of a chunk, bytes.
    """

    def __init__(self, path: Path, reader: CaptureReader, size: int) -> None:
        self.chunks: list[CaptureChunk] = []
        self._path = path
        self._reader = reader
        self._size = size
        self._next: CaptureChunk | None = None
        self._untimed = reader.untimed
        self._clocks: tuple[int, ...] = ()
        self._changed: set[int] = set()

    def add(self, span: RecordSpan) -> None:
        """Adds a span to the chunk, or begins a new chunk: once it is large, and after damage."""
        if self._next and (span.after_damage or span.begin - self._next.begin >= self._size):
            self.cut()
        insane, count = _NONE, span.records.shape[1]
        if len(span.sane) < count:
            insane = np.setdiff1d(np.arange(count), span.sane, assume_unique=True) + span.position
        if self._next is None:
            clocks, scanner = self._now(), self._reader.scanner.at(span.begin)
            if isinstance(scanner, PcapngScanner):
                scanner.untimed = self._untimed
            self._next = CaptureChunk(self._path, span.begin, span.end, span.position, count, clocks, insane, scanner)
        else:
            insane = np.concatenate([self._next.insane, insane]) if len(insane) else self._next.insane
            records = self._next.records + count
            self._next = replace(self._next, end=span.end, records=records, insane=insane)
        self._changed.update(np.unique(span.records[classic.INTERFACE][span.sane]).tolist())
        if self._untimed is not None:
            self._untimed = give_times(span.records, self._untimed)

    def _now(self) -> Clocks:
        """Returns the clocks before the next span."""
        if len(self._changed) > CHUNK_INTERFACES:
            self._clocks, self._changed = self._reader.clocks(), set()
        return Clocks(self._clocks, {number: self._reader.clock(number) for number in self._changed})

    def cut(self) -> None:
        """Ends the chunk, if there is one."""
        if self._next:
            self.chunks.append(self._next)
        self._next = None


def read_chunk(
    chunk: CaptureChunk, content: ContentOptions = NOTHING, memory: Memory | None = None
) -> Iterator[tuple[Interface, pa.RecordBatch]]:
    """Decodes the sane records of a chunk.

    Args:
        content: content to store beside the headers.
        memory: buffers to decode into, for one reader at a time; the next batch then overwrites the last one.

    Yields:
        An interface and a batch of it: the rows of `CaptureReader.by_interface`, in batches of other sizes.

    Raises:
        CaptureError: if the file cannot be read, or has changed since it was indexed.
    """
    memory, builder = memory or Memory(again=False), ContentBuilder(content)
    buffer, scanner = _load(chunk, memory), chunk.scanner.at(chunk.begin)
    # Batches of equal size: whoever makes pages of a small batch has to copy it.
    records = memory.records(-(-chunk.records // -(-chunk.records // BATCH_ROWS)))
    clocks: dict[int, int] = {}
    position, at, stopped = chunk.position, 0, classic.FULL
    while stopped == classic.FULL:
        count, at, stopped = scanner.scan(buffer, at, len(buffer), records, 0)
        numbers = np.arange(position, position + count)
        sane = np.flatnonzero(~np.isin(numbers, chunk.insane)) if len(chunk.insane) else np.arange(count)
        span = RecordSpan(buffer, records[:, :count], sane, position, chunk.begin, chunk.begin + at, False)
        for number, chosen in split_by_interface(span, len(scanner.interfaces)):
            interface = scanner.interfaces[number]
            # Batches of interfaces with one name stay until they are merged.
            own = Memory(again=False) if interface.shared else memory
            clock = clocks.get(number, chunk.clocks[number])
            batch = decode_span(span, chosen, clock, interface, builder, own)
            clocks[number] = batch.column("arrival")[-1].as_py()
            yield interface, batch
        position += count
    if at != len(buffer):
        raise _changed(chunk)


def _load(chunk: CaptureChunk, memory: Memory) -> NDArray[np.uint8]:
    buffer = memory.bytes("chunk", chunk.end - chunk.begin)
    filled = 0
    try:
        with (chunk.held or chunk.path).open("rb", buffering=0) as file:
            file.seek(chunk.begin - chunk.base)
            while filled < len(buffer) and (count := file.readinto(buffer[filled:].data)):
                filled += count
    except OSError as error:
        raise CaptureError(
            f"{chunk.path}: cannot be read: {error.strerror}", hint_of(error, "check the path and the disk")
        ) from error
    if filled < len(buffer):
        raise _changed(chunk)
    return buffer


def _changed(chunk: CaptureChunk) -> CaptureError:
    return CaptureError(f"{chunk.path}: changed while it was read", "ingest it again")
