"""Reading a capture as Arrow batches of sane records, with a row for everything else.

The top of the reader: moves a window over the file, finds records (a `Scanner`), judges their timestamps (`sanity`),
decodes their headers (`batches`); `index` uses it to divide a file into chunks that decode by themselves.
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
from lowwater.capture.classic import ClassicScanner, Scanner
from lowwater.capture.compression import Unpacked, compression_of
from lowwater.capture.decode import BATCH
from lowwater.capture.facts import CaptureSummary, Interface, InterfaceSummary, Malformed
from lowwater.capture.header import FILE_HEADER, CaptureFile, open_capture, parse_header
from lowwater.capture.sanity import Judge, in_range
from lowwater.capture.tally import Tally
from lowwater.errors import CaptureError

__all__ = [
    "BATCH",
    "DECODER_VERSION",
    "CaptureFile",
    "CaptureReader",
    "CaptureSummary",
    "Interface",
    "InterfaceSummary",
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
class Round:
    """Records of a stretch of the file, judged.

    Attributes:
        buffer: holds them.
        records: shape (scan.ROWS, n), as `scan` fills it.
        kept: indices of the sane ones, ascending.
        position: number of the first one in the capture.
        end: offset in the file behind the last one.
    """

    buffer: NDArray[np.uint8]
    records: NDArray[np.int64]
    kept: NDArray[np.int64]
    position: int
    end: int


class CaptureReader:
    """One pass over a capture: iterate it once, for its batches or `by_interface`; see `read`.

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
        self._scanner: Scanner
        self._sha256 = sha256
        self._judge = Judge(max_jump)
        self._tallies: list[Tally] = []
        self._position = 0
        self._record_bytes = 0
        try:
            self._open(path)
        except BaseException:
            self._window.close()
            raise

    @property
    def scanner(self) -> Scanner:
        """Where the reading is."""
        return self._scanner

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interfaces met so far."""
        return self._scanner.interfaces

    def clocks(self) -> tuple[int, ...]:
        """Largest sane timestamp of each interface in what was counted so far, ns; -1 where there is none."""
        return tuple(tally.clock for tally in self._tallies)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batch in self.by_interface():
            yield batch

    def by_interface(self) -> Iterator[tuple[Interface, pa.RecordBatch]]:
        """The batches, each of one interface, with that interface."""
        for each in self.rounds():
            for number, chosen in self.shares(each):
                tally = self._tallies[number]
                interface = self.interfaces[number]
                batch = decode_round(each, chosen, tally.clock, interface)
                tally.undecoded += batch.column("ipversion").null_count
                tally.add(each.records[scanning.STAMP][chosen])
                yield interface, batch

    def rounds(self) -> Iterator[Round]:
        """The records, judged but not decoded. Whoever iterates adds the sane ones to the tallies (`count`)."""
        try:
            yield from self._rounds()
        except OSError as error:
            raise CaptureError(f"{self.header.path}: cannot be read: {error.strerror}", "check the disk") from error
        finally:
            self._window.close()
            for tally in self._tallies:
                tally.close()

    def count(self, each: Round) -> None:
        """Counts the sane records of a round that nobody decodes."""
        for number, chosen in self.shares(each):
            self._tallies[number].add(each.records[scanning.STAMP][chosen])

    def shares(self, each: Round) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The sane records of a round by interface: its number, and the indices of its records, at least one."""
        return shares(each, len(self.interfaces))

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
        self._scanner = ClassicScanner.of(self.header)
        self._window.advance(self._scanner.start)

    def _rounds(self) -> Iterator[Round]:
        window, scanner = self._window, self._scanner
        records = np.zeros((scanning.ROWS, _ROWS), np.int64)
        waiting, at, final = 0, window.begin, False
        while not final:
            count, at, stopped = scanner.scan(window.buffer, at, window.end, records, waiting)
            final = stopped == scanning.LENGTH or (stopped == scanning.MORE and window.at_end)
            self._tallies += [Tally() for _ in range(len(self.interfaces) - len(self._tallies))]
            settled, kept = self._sift(records[:, :count], final)
            rest = at if settled == count else scanner.extent(window.buffer, records, settled)[0]
            end = window.offset + rest - window.begin
            self._record_bytes += scanner.bytes_of(window.buffer, records, kept)
            if settled:
                yield Round(window.buffer, records[:, :settled], kept, self._position, end)
            self._position += settled
            window.advance(rest)
            # Those not settled yet stay, so that every byte is scanned once.
            waiting = count - settled
            records[:, :waiting] = records[:, settled:count].copy()
            if stopped == scanning.MORE and not final:
                moved = window.begin
                window.fill()
                records[[scanning.OFFSET, scanning.BLOCK], :waiting] -= moved
                at -= moved
            elif waiting == records.shape[1]:  # all of them out of range: more must be seen at once
                records = np.concatenate([records, np.zeros_like(records)], axis=1)
        self._finish(stopped == scanning.LENGTH)

    def _sift(self, records: NDArray[np.int64], final: bool) -> tuple[int, NDArray[np.int64]]:
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
        for index, clock in zip(insane.tolist(), self._clocks_at(records, kept, insane), strict=True):
            reason = "time-jump" if usable[index] else "wire-length" if not short[index] else "time-range"
            begin, length = self._scanner.extent(self._window.buffer, records, index)
            offset = self._window.offset + begin - self._window.begin
            interface = int(records[scanning.INTERFACE, index])
            self._reject(self._position + index, offset, length, reason, clock, interface)
        return settled, kept

    def _clocks_at(self, records: NDArray[np.int64], kept: NDArray[np.int64], insane: NDArray[np.int64]) -> list[int]:
        """The clock of its interface before each of the insane records."""
        clocks = np.empty(len(insane), np.int64)
        for number in np.unique(records[scanning.INTERFACE][insane]).tolist():
            mine = kept[records[scanning.INTERFACE][kept] == number]
            stamps = np.concatenate([[self._tallies[number].clock], records[scanning.STAMP][mine]])
            wanted = records[scanning.INTERFACE][insane] == number
            clocks[wanted] = np.maximum.accumulate(stamps)[np.searchsorted(mine, insane[wanted])]
        found: list[int] = clocks.tolist()
        return found

    def _reject(
        self, position: int | None, offset: int, length: int, reason: str, clock: int, interface: int = 0
    ) -> None:
        arrival = clock if clock >= 0 else None
        self.malformed.append(Malformed(position, offset, length, reason, arrival, interface))
        self._tallies[interface].malformed += 1

    def _finish(self, absurd: bool) -> None:
        """Accounts for what follows the last whole record, and sums up."""
        window, packed = self._window, self._unpacked
        rest = window.offset
        cut = window.begin < window.end
        window.drain()
        skipped, damage = (packed.skipped, packed.damage) if packed else (0, "")
        clock = self._tallies[0].clock
        if absurd or (cut and not damage):
            reason = "length" if absurd else "cut"
            self._reject(self._position, rest, window.offset - rest, reason, clock)
        if damage:
            position, begin = (None, window.offset) if absurd else (self._position, rest)
            self._reject(position, begin, window.offset - begin + skipped, "compression", clock)
        summaries = zip(self.interfaces, self._tallies, strict=True)
        self.summary = CaptureSummary(
            sha256=self._sha256 or (packed or window).sha256(),
            bytes=packed.stored if packed else window.offset,
            format=self.header.format,
            interfaces=tuple(tally.summary(interface) for interface, tally in summaries),
            record_bytes=self._record_bytes,
            overhead=self._scanner.overhead,
            ended_cleanly=not (absurd or cut or damage),
            largest_ahead=self._judge.largest_ahead,
            smallest_jump=self._judge.smallest_jump,
            compression=self._compression,
            unpacked=window.offset,
            skipped=skipped,
            damage=damage,
        )


def shares(each: Round, interfaces: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The sane records of a round by interface; see `CaptureReader.shares`."""
    if interfaces == 1:
        if len(each.kept):
            yield 0, each.kept
        return
    numbers = each.records[scanning.INTERFACE][each.kept]
    for number in np.unique(numbers).tolist():
        yield number, each.kept[numbers == number]


def decode_round(each: Round, chosen: NDArray[np.int64], clock: int, interface: Interface) -> pa.RecordBatch:
    """Decodes some records of a round.

    Args:
        each: the round.
        chosen: indices of sane records of one interface, ascending, at least one.
        clock: largest sane timestamp of the interface before them, ns.
        interface: theirs.

    Returns:
        A batch of `BATCH`.
    """
    together = chosen[-1] == len(chosen) - 1
    sane = each.records[:, : len(chosen)] if together else each.records[:, chosen]
    batch, _ = decode_batch(each.buffer, sane, chosen + each.position, clock, interface.link_number)
    return batch


def read(path: str | Path, max_jump: int, chunk_bytes: int = CHUNK_BYTES, sha256: str | None = None) -> CaptureReader:
    """Reads a capture in one pass, within bounded memory: some four chunks, and what `compression` bounds.

    Args:
        path: a classic pcap file, plain or in gzip, zstd, xz or lz4 frames (told by their magic, not by its name).
            Records of link types that `capture.links` does not know keep timestamp, len and caplen only.
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
