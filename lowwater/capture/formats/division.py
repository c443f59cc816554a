"""Dividing a capture into chunks that decode by themselves, in any order and in any process.

Beside the reader: one pass over the file that decodes nothing finds everything that depends on what came before (which
timestamps are sane, the clocks, the digest), so that the decoding of a chunk depends on its bytes alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.content.retention import NOTHING, Keeper, Keeping
from lowwater.capture.formats import scan as scanning
from lowwater.capture.formats.classic import Scanner
from lowwater.capture.headers.batches import Memory
from lowwater.capture.reader import CHUNK_BYTES, CaptureReader
from lowwater.capture.records.batches import Round, decode_round, shares
from lowwater.capture.records.facts import CaptureSummary, Interface
from lowwater.capture.records.malformed import MalformedRows
from lowwater.errors import CaptureError

_ROWS = 1 << 16
"""Most records of a batch."""
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a capture file; picklable.

    Attributes:
        path: the file.
        begin: offset of its first record; `end` behind its last one. There is no damage between them.
        position: number of its first record in the capture.
        records: how many it has.
        clocks: largest sane timestamp of each interface before it, ns, -1 for none; those missing begin in it.
        insane: positions of its records that are malformed, ascending.
        scanner: finds its records.
    """

    path: Path
    begin: int
    end: int
    position: int
    records: int
    clocks: tuple[int, ...]
    insane: NDArray[np.int64]
    scanner: Scanner


@dataclass(frozen=True)
class Index:
    """What one pass over a capture finds without decoding it.

    Attributes:
        chunks: its parts in file order; together they hold every sane record. None of a compressed file.
        malformed: as `CaptureReader.malformed`.
        summary: as `CaptureReader.summary`, with nothing counted as undecoded.
    """

    chunks: tuple[Chunk, ...]
    malformed: MalformedRows
    summary: CaptureSummary


def index(path: Path, max_jump: int, chunk_bytes: int = CHUNK_BYTES, sha256: str | None = None) -> Index:
    """Indexes a capture file: `indexing` to its end.

    Arguments as of `indexing`.
    """
    steps = indexing(path, max_jump, chunk_bytes, sha256)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Index = end.value
            return found


def indexing(
    path: Path, max_jump: int, chunk_bytes: int = CHUNK_BYTES, sha256: str | None = None
) -> Generator[Chunk, None, Index]:
    """Indexes a capture file, and gives each chunk as soon as it is known; at the end the whole index.

    Args:
        path: a capture file; a compressed one cannot be divided: it has no chunks, and `read` decodes it.
        max_jump: as for `read`.
        chunk_bytes: bytes of a chunk, about: it ends where a record does.
        sha256: as for `read`.

    Raises:
        CaptureError: as `read`.
    """
    reader = CaptureReader(path, max_jump, min(chunk_bytes, CHUNK_BYTES), sha256)
    marks, told = _Marks(path, reader, chunk_bytes), 0
    for each in reader.rounds():
        if not reader.header.compression:
            marks.meet(each)
        reader.count(each)
        yield from marks.chunks[told:]
        told = len(marks.chunks)
    marks.cut()
    yield from marks.chunks[told:]
    assert reader.summary is not None
    return Index(tuple(marks.chunks), reader.malformed, reader.summary)


class _Marks:
    """The chunks found so far, and what the next one will be.

    Args:
        path: the file.
        reader: of it.
        size: bytes of a chunk, about.
    """

    def __init__(self, path: Path, reader: CaptureReader, size: int) -> None:
        self.chunks: list[Chunk] = []
        self._path = path
        self._reader = reader
        self._size = size
        self._next: Chunk | None = None

    def meet(self, each: Round) -> None:
        """Adds a round to the chunk, or begins another with it: behind damage, too."""
        if self._next and (each.parted or each.begin - self._next.begin >= self._size):
            self.cut()
        insane, count = _NONE, each.records.shape[1]
        if len(each.kept) < count:
            insane = np.setdiff1d(np.arange(count), each.kept, assume_unique=True) + each.position
        if self._next is None:
            clocks, scanner = self._reader.clocks(), self._reader.scanner.at(each.begin)
            self._next = Chunk(self._path, each.begin, each.end, each.position, count, clocks, insane, scanner)
        else:
            insane = np.concatenate([self._next.insane, insane]) if len(insane) else self._next.insane
            records = self._next.records + count
            self._next = replace(self._next, end=each.end, records=records, insane=insane)

    def cut(self) -> None:
        """Ends the chunk, if one was begun."""
        if self._next:
            self.chunks.append(self._next)
        self._next = None


def read_chunk(
    chunk: Chunk, keeping: Keeping = NOTHING, memory: Memory | None = None
) -> Iterator[tuple[Interface, pa.RecordBatch]]:
    """Decodes the sane records of a chunk.

    Args:
        chunk: the chunk of a file.
        keeping: what to keep beside the headers.
        memory: to decode in, of one reading at a time. A batch is then overwritten by the next one.

    Yields:
        Batches, each of one interface, with that interface: what `CaptureReader.by_interface` gives for these records,
        in other batches.

    Raises:
        CaptureError: if the file cannot be read, or has changed since it was indexed.
    """
    memory, keeper = memory or Memory(again=False), Keeper(keeping)
    buffer, scanner = _load(chunk, memory), chunk.scanner.at(chunk.begin)
    # Batches of one size, since a small one has to be copied by whoever makes pages of them.
    records = memory.records(-(-chunk.records // -(-chunk.records // _ROWS)))
    clocks = dict(enumerate(chunk.clocks))
    position, at, stopped = chunk.position, 0, scanning.FULL
    while stopped == scanning.FULL:
        count, at, stopped = scanner.scan(buffer, at, len(buffer), records, 0)
        numbers = np.arange(position, position + count)
        kept = np.flatnonzero(~np.isin(numbers, chunk.insane)) if len(chunk.insane) else np.arange(count)
        each = Round(buffer, records[:, :count], kept, position, chunk.begin, chunk.begin + at, False)
        for number, chosen in shares(each, len(scanner.interfaces)):
            interface = scanner.interfaces[number]
            batch = decode_round(each, chosen, clocks.get(number, -1), interface, keeper, memory)
            clocks[number] = batch.column("arrival")[-1].as_py()
            yield interface, batch
        position += count
    if at != len(buffer):
        raise _changed(chunk)


def _load(chunk: Chunk, memory: Memory) -> NDArray[np.uint8]:
    buffer = memory.bytes("chunk", chunk.end - chunk.begin)
    filled = 0
    try:
        with chunk.path.open("rb", buffering=0) as file:
            file.seek(chunk.begin)
            while filled < len(buffer) and (count := file.readinto(buffer[filled:].data)):
                filled += count
    except OSError as error:
        raise CaptureError(f"{chunk.path}: cannot be read: {error.strerror}", "check the path and the disk") from error
    if filled < len(buffer):
        raise _changed(chunk)
    return buffer


def _changed(chunk: Chunk) -> CaptureError:
    return CaptureError(f"{chunk.path}: changed while it was read", "ingest it again")
