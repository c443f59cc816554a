"""Dividing a capture into chunks that decode by themselves, in any order and in any process.

Beside the reader: one pass over the file that decodes nothing finds everything that depends on what came before (which
timestamps are sane, the clocks, the digest), so that the decoding of a chunk depends on its bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture import scan as scanning
from lowwater.capture.classic import Scanner
from lowwater.capture.facts import CaptureSummary, Interface, Malformed
from lowwater.capture.reader import CHUNK_BYTES, CaptureReader, Round, decode_round, shares
from lowwater.errors import CaptureError

_ROWS = 1 << 16


@dataclass(frozen=True)
class Chunk:
    """A part of a capture file; picklable.

    Attributes:
        path: the file.
        begin: offset of its first record; `end` behind its last one.
        position: number of its first record in the capture.
        clocks: largest sane timestamp of each interface before it, ns, -1 for none; those missing begin in it.
        insane: positions of its records that are malformed, ascending.
        scanner: finds its records.
    """

    path: Path
    begin: int
    end: int
    position: int
    clocks: tuple[int, ...]
    insane: NDArray[np.int64]
    scanner: Scanner


@dataclass(frozen=True)
class Index:
    """What one pass over a capture finds without decoding it.

    Attributes:
        chunks: its parts in file order; together they hold every sane record.
        malformed: as `CaptureReader.malformed`.
        summary: as `CaptureReader.summary`, with nothing counted as undecoded.
    """

    chunks: tuple[Chunk, ...]
    malformed: tuple[Malformed, ...]
    summary: CaptureSummary


def index(path: Path, max_jump: int, chunk_bytes: int = CHUNK_BYTES, sha256: str | None = None) -> Index:
    """Indexes a plain capture file.

    Args:
        path: a plain capture file; a compressed one cannot be divided, and is one chunk less: none.
        max_jump: as for `read`.
        chunk_bytes: bytes of a chunk, about: it ends where a record does.
        sha256: as for `read`.

    Raises:
        CaptureError: as `read`.
    """
    reader = CaptureReader(path, max_jump, chunk_bytes, sha256)
    marks = _Marks(path, reader)
    for each in reader.rounds():
        marks.meet(each)
        reader.count(each)
        if each.end - marks.begin >= chunk_bytes:
            marks.cut(each)
    marks.finish()
    assert reader.summary is not None
    return Index(tuple(marks.chunks), tuple(reader.malformed), reader.summary)


class _Marks:
    """The chunks found so far, and the beginning of the next one."""

    def __init__(self, path: Path, reader: CaptureReader) -> None:
        self.chunks: list[Chunk] = []
        self.begin = reader.scanner.start
        self._path = path
        self._reader = reader
        self._position = 0
        self._clocks: tuple[int, ...] = ()
        self._refused = 0
        self._last: Round | None = None

    def meet(self, each: Round) -> None:
        self._last = each

    def cut(self, each: Round) -> None:
        """Ends the chunk behind a round."""
        after = each.position + each.records.shape[1]
        refused = self._reader.malformed[self._refused :]
        insane = [bad.position for bad in refused if bad.position is not None and bad.position < after]
        chunk = Chunk(
            path=self._path,
            begin=self.begin,
            end=each.end,
            position=self._position,
            clocks=self._clocks,
            insane=np.array(insane, np.int64),
            scanner=self._reader.scanner.at(self.begin),
        )
        self.chunks.append(chunk)
        self.begin, self._position, self._clocks = each.end, after, self._reader.clocks()
        self._refused += len(refused)

    def finish(self) -> None:
        """Ends the last chunk."""
        if self._last is not None and self._last.end > self.begin:
            self.cut(self._last)


def read_chunk(chunk: Chunk) -> Iterator[tuple[Interface, pa.RecordBatch]]:
    """Decodes the sane records of a chunk.

    Yields:
        Batches of `BATCH`, each of one interface, with that interface: what `CaptureReader.by_interface` gives for
        these records, in other batches.

    Raises:
        CaptureError: if the file cannot be read, or has changed since it was indexed.
    """
    buffer = _load(chunk)
    records = np.zeros((scanning.ROWS, _ROWS), np.int64)
    clocks = dict(enumerate(chunk.clocks))
    position, at, stopped = chunk.position, 0, scanning.FULL
    while stopped == scanning.FULL:
        count, at, stopped = chunk.scanner.scan(buffer, at, len(buffer), records, 0)
        numbers = np.arange(position, position + count)
        kept = np.flatnonzero(~np.isin(numbers, chunk.insane)) if len(chunk.insane) else np.arange(count)
        each = Round(buffer, records[:, :count], kept, position, chunk.begin + at)
        for number, chosen in shares(each, len(chunk.scanner.interfaces)):
            interface = chunk.scanner.interfaces[number]
            batch = decode_round(each, chosen, clocks.get(number, -1), interface)
            clocks[number] = batch.column("arrival")[-1].as_py()
            yield interface, batch
        position += count
    if at != len(buffer):
        raise _changed(chunk)


def _load(chunk: Chunk) -> NDArray[np.uint8]:
    buffer = np.empty(chunk.end - chunk.begin, np.uint8)
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
