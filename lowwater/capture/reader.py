"""Reading a classic pcap capture as Arrow batches of sane records, with a row for everything else.

The top of the reader: moves a window over the file, finds records (`scan`), judges their timestamps (`sanity`),
decodes their headers (`batches`); ingest writes the batches to `packets/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture import scan as scanning
from lowwater.capture.batches import decode_batch
from lowwater.capture.chunks import Window, digest
from lowwater.capture.compression import Unpacked, compression_of
from lowwater.capture.decode import BATCH
from lowwater.capture.header import FILE_HEADER, RECORD_HEADER, CaptureFile, open_capture, parse_header
from lowwater.capture.median import Median
from lowwater.capture.sanity import Judge, in_range
from lowwater.errors import CaptureError

__all__ = [
    "BATCH",
    "DECODER_VERSION",
    "CaptureFile",
    "CaptureReader",
    "CaptureSummary",
    "Malformed",
    "digest",
    "open_capture",
    "read",
]

DECODER_VERSION: int = 2
"""Raised whenever the same file would give other rows (SEMANTICS T7)."""

CHUNK_BYTES = 64 << 20
_COMPRESSED_CHUNK = 16 << 20
_ROWS = 1 << 16
_LARGEST_WIRE = (1 << 31) - 1


@dataclass(frozen=True)
class Malformed:
    """Bytes of a capture that are not a whole sane record.

    Attributes:
        position: number of the record in the capture, counted from 0 over all records; None where it is not known.
        offset: where the bytes begin in the file; in what it holds, where it is compressed.
        length: how many they are, record header included.
        reason: `time-range`, `time-jump` (SEMANTICS T3); `wire-length`: its length on the wire is 2^31 or more;
            `cut`: the file ends inside the record; `length`: its captured length is beyond `CaptureFile.limit`, so
            that nothing says where the next record begins: the rest of the file is this one row; `compression`: the
            file cannot be decompressed to its end. Its length is that of the record that this cuts (0 between records
            and after a row `length`; there `position` is None) plus `CaptureSummary.skipped`.
        arrival: largest sane timestamp of the capture before it, ns; None if there is none.
    """

    position: int | None
    offset: int
    length: int
    reason: str
    arrival: int | None


@dataclass(frozen=True)
class CaptureSummary:
    """What a capture turned out to hold, known once it is read.

    Attributes:
        sha256: of the file as it is stored, hex.
        bytes: its size, as it is stored.
        format: `pcap`.
        link_type: name of the link type.
        packets: number of sane records.
        undecoded: those of them without an IPv4 or IPv6 header.
        malformed: number of malformed rows.
        first: timestamp of the first sane record, ns; None if there is none, as the next three.
        last: that of the last one.
        largest: the largest one.
        median: the lower median.
        ended_cleanly: whether the file ends where a record ends, all of it decompressed.
        largest_ahead: how far ahead of its median the farthest sane record is (SEMANTICS T3), ns, at least 0.
        smallest_jump: how far ahead of its median the nearest time-jump is, ns; None if there is none. Any `max_jump`
            in [largest_ahead, smallest_jump) gives the same rows.
        compression: `gzip`, `zstd`, `xz` or `lz4`; empty for a plain file.
        unpacked: bytes that were decompressed; `bytes` for a plain file. File header, records and malformed rows have
            `unpacked + skipped` bytes together.
        skipped: bytes of the file, as it is stored, that were not decompressed: from where its damage begins.
        damage: why decompression stopped there, empty where it did not.
    """

    sha256: str
    bytes: int
    format: str
    link_type: str
    packets: int
    undecoded: int
    malformed: int
    first: int | None
    last: int | None
    largest: int | None
    median: int | None
    ended_cleanly: bool
    largest_ahead: int
    smallest_jump: int | None
    compression: str
    unpacked: int
    skipped: int
    damage: str


class CaptureReader:
    """One pass over a capture: iterate it once for its batches; see `read`.

    Attributes:
        header: facts of the file header.
        malformed: the malformed rows met so far, in file order.
        summary: set when the iteration has ended.
    """

    def __init__(self, path: Path, max_jump: int, chunk_bytes: int, sha256: str | None) -> None:
        self._unpacked: Unpacked | None = None
        self._window = self._open_window(path, max(chunk_bytes, FILE_HEADER), sha256 is None)
        self.header: CaptureFile
        self.malformed: list[Malformed] = []
        self.summary: CaptureSummary | None = None
        self._sha256 = sha256
        self._judge = Judge(max_jump)
        self._median = Median()
        self._records = np.empty((4, _ROWS), np.int64)
        self._position = 0
        self._packets = 0
        self._undecoded = 0
        self._clock = -1
        self._first: int | None = None
        self._last: int | None = None
        try:
            self._open(path)
        except BaseException:
            self._window.close()
            raise

    def _open_window(self, path: Path, size: int, hashed: bool) -> Window:
        try:
            with path.open("rb") as head:
                self._compression = compression_of(head.read(FILE_HEADER))
            file = path.open("rb", buffering=0)
        except OSError as error:
            raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the path") from error
        if not self._compression:
            return Window(file, size, hashed)
        self._unpacked = Unpacked(file, hashed)
        return Window(self._unpacked, min(size, _COMPRESSED_CHUNK), False)

    def _open(self, path: Path) -> None:
        try:
            self._window.fill()
            size = path.stat().st_size
        except OSError as error:
            raise CaptureError(f"{path}: cannot be read: {error.strerror}", "check the disk") from error
        head = self._window.buffer[: min(self._window.end, FILE_HEADER)].tobytes()
        damage = self._unpacked.damage if self._unpacked else ""
        self.header = parse_header(path, head, size, self._compression, damage)
        self._window.advance(FILE_HEADER)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except OSError as error:
            raise CaptureError(f"{self.header.path}: cannot be read: {error.strerror}", "check the disk") from error
        finally:
            self._window.close()
            self._median.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        window, header = self._window, self.header
        big, scale = header.byte_order == "big", 1000 if header.resolution == "us" else 1
        final = False
        while not final:
            count, after, stopped = scanning.scan(
                window.buffer, window.begin, window.end, big, scale, header.limit, self._records
            )
            final = stopped == scanning.LENGTH or (stopped == scanning.MORE and window.at_end)
            records = self._records[:, :count]
            settled, kept = self._sift(records, after, final)
            if len(kept):
                yield self._batch(records, kept)
            self._position += settled
            window.advance(after if settled == count else int(records[scanning.OFFSET, settled]))
            if not final and stopped == scanning.MORE:
                window.fill()
            elif not settled and not final:
                # The scan was full of records out of range: more of them must be seen at once.
                self._records = np.empty((4, 2 * self._records.shape[1]), np.int64)
        self._finish(stopped == scanning.LENGTH)

    def _sift(self, records: NDArray[np.int64], after: int, final: bool) -> tuple[int, NDArray[np.int64]]:
        """Judges records: how many are settled, and which of these are sane; the others become malformed rows."""
        stamps = records[scanning.STAMP]
        short = records[scanning.WIRE] <= _LARGEST_WIRE
        usable = in_range(stamps) & short
        whole = bool(usable.all())
        candidates = np.arange(len(stamps)) if whole else np.flatnonzero(usable)
        jumps = self._judge.settle(stamps[candidates], final)
        settled = len(stamps) if len(jumps) == len(candidates) else int(candidates[len(jumps)])
        kept = candidates[: len(jumps)]
        if whole and not jumps.any():
            return settled, kept
        kept = kept[~jumps]
        insane = np.setdiff1d(np.arange(settled), kept, assume_unique=True)
        clocks = np.maximum.accumulate(np.concatenate([[self._clock], stamps[kept]]))
        for index, before in zip(insane.tolist(), np.searchsorted(kept, insane).tolist(), strict=True):
            reason = "time-jump" if usable[index] else "wire-length" if not short[index] else "time-range"
            length = RECORD_HEADER + int(records[scanning.CAPTURED, index])
            offset = self._window.offset + int(records[scanning.OFFSET, index]) - self._window.begin
            self._reject(self._position + index, offset, length, reason, int(clocks[before]))
        return settled, kept

    def _reject(self, position: int | None, offset: int, length: int, reason: str, clock: int) -> None:
        self.malformed.append(Malformed(position, offset, length, reason, clock if clock >= 0 else None))

    def _batch(self, records: NDArray[np.int64], kept: NDArray[np.int64]) -> pa.RecordBatch:
        sane = records[:, : len(kept)] if kept[-1] == len(kept) - 1 else records[:, kept]
        stamps = sane[scanning.STAMP]
        batch, self._clock = decode_batch(
            self._window.buffer, sane, kept + self._position, self._clock, self.header.link_number
        )
        self._median.add(stamps)
        self._first = int(stamps[0]) if self._first is None else self._first
        self._last = int(stamps[-1])
        self._packets += len(kept)
        self._undecoded += batch.column("ipversion").null_count
        return batch

    def _finish(self, absurd: bool) -> None:
        """Accounts for what follows the last whole record, and sums up."""
        window, packed = self._window, self._unpacked
        rest = window.offset
        cut = window.begin < window.end
        window.drain()
        skipped, damage = (packed.skipped, packed.damage) if packed else (0, "")
        if absurd or (cut and not damage):
            reason = "length" if absurd else "cut"
            self._reject(self._position, rest, window.offset - rest, reason, self._clock)
        if damage:
            position, begin = (None, window.offset) if absurd else (self._position, rest)
            self._reject(position, begin, window.offset - begin + skipped, "compression", self._clock)
        self.summary = CaptureSummary(
            sha256=self._sha256 or (packed or window).sha256(),
            bytes=packed.stored if packed else window.offset,
            format=self.header.format,
            link_type=self.header.link_type,
            packets=self._packets,
            undecoded=self._undecoded,
            malformed=len(self.malformed),
            first=self._first,
            last=self._last,
            largest=self._clock if self._packets else None,
            median=self._median.value(),
            ended_cleanly=not (absurd or cut or damage),
            largest_ahead=self._judge.largest_ahead,
            smallest_jump=self._judge.smallest_jump,
            compression=self._compression,
            unpacked=window.offset,
            skipped=skipped,
            damage=damage,
        )


def read(path: str | Path, max_jump: int, chunk_bytes: int = CHUNK_BYTES, sha256: str | None = None) -> CaptureReader:
    """Reads a capture in one pass, within bounded memory: some four chunks, and what `compression` bounds.

    Args:
        path: a classic pcap file, plain or in gzip, zstd, xz or lz4 frames (told by their magic, not by its name);
            records of link types that `capture.links` does not know keep
            timestamp, len and caplen only.
        max_jump: how far ahead of the median of its neighbours a timestamp may be, ns (SEMANTICS T3).
        chunk_bytes: bytes read at a time.
        sha256: of the file where it is known already; else it is computed in a thread beside the decoding.

    Returns:
        A reader to iterate once: batches of `BATCH` (`catalog.packets.RECORD` without `capture`), sane records in
        file order; then its `malformed` and `summary` are complete.

    Raises:
        CaptureError: as `header.parse_header`, or if the file cannot be read.

    Example:
        >>> from lowwater.capture import read
        >>> reader = read("main1.pcap", max_jump=61_000_000_000)  # doctest: +SKIP
        >>> sum(batch.num_rows for batch in reader)  # doctest: +SKIP
        6770
    """
    return CaptureReader(Path(path), max_jump, chunk_bytes, sha256)
