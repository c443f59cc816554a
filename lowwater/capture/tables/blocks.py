"""Blocks of whole records of a text file: where each record begins and ends, and its line.

Between the bytes of a file and the parsers. Arrow's readers do not say where a record stands, and a damaged record must
be named by its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.machine_code import cached_njit

BLOCK_BYTES = 4 << 20
"""Bytes of a file that are parsed at a time."""

BLOCK_RECORDS = 1 << 17
"""Most records that are parsed at a time: short ones take far more memory than their bytes."""

MOST_RECORD = 1 << 20
"""Longest record, bytes. A quote that never ends makes a record of all that follows."""

_NEWLINE, _RETURN = 10, 13
_MARK = b"\xef\xbb\xbf"
Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """Consecutive records of a file, blank lines left out.

    Attributes:
        data: the bytes of the block.
        offset: offset of `data` in the decompressed file.
        begins: begin of each record in `data`.
        ends: end of each record in `data`, with its end of line.
        lines: line of each record, from 1.
        long: whether the record is longer than MOST_RECORD, so that only its first line belongs to it.
        last: whether the file ends with the block.
    """

    data: bytes
    offset: int
    begins: Offsets
    ends: Offsets
    lines: Offsets
    long: NDArray[np.bool_]
    last: bool

    def __len__(self) -> int:
        return len(self.begins)

    def parts(self) -> Iterator[Block]:
        """Yields the block in parts of at most BLOCK_RECORDS records."""
        if len(self) <= BLOCK_RECORDS:
            yield self
            return
        for first in range(0, len(self), BLOCK_RECORDS):
            end = first + BLOCK_RECORDS
            begins, ends, lines = (column[first:end] for column in (self.begins, self.ends, self.lines))
            last = self.last and end >= len(self)
            yield Block(self.data, self.offset, begins, ends, lines, self.long[first:end], last)

    def record(self, index: int) -> bytes:
        """Returns the bytes of a record."""
        return self.data[self.begins[index] : self.ends[index]]

    def no_utf8(self) -> Offsets:
        """Returns the indices of the records that are no UTF-8."""
        if self.data.isascii() or _is_utf8(self.data):
            return np.empty(0, np.int64)
        invalid = [index for index in range(len(self)) if not _is_utf8(self.record(index))]
        return np.array(invalid, np.int64)

    def joined(self, chosen: Offsets) -> bytes:
        """Returns the bytes of some records, ascending, one after another; each ends with an end of line."""
        if not len(chosen):
            return b""
        first, last = int(chosen[0]), int(chosen[-1])
        if last - first + 1 == len(chosen):
            return _closed(self.data[self.begins[first] : self.ends[last]])
        return b"".join(_closed(self.record(index)) for index in chosen.tolist())


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _closed(data: bytes) -> bytes:
    return data if data.endswith(b"\n") else data + b"\n"


@cached_njit(nogil=True)
def _quoted_ends(data: Any, begin: int, separator: int, quote: int, ends: Any) -> int:
    """Finds the ends of records in which a quoted value may hold separators and ends of lines, as Arrow reads them.

    Returns:
        The number of ends.
    """
    count, at = 0, begin
    start, quoted = True, False
    while at < len(data):
        byte = data[at]
        if quoted:
            if byte == quote:
                if at + 1 < len(data) and data[at + 1] == quote:
                    at += 1
                else:
                    quoted = False
            start = False
        elif byte == 10:
            ends[count] = at + 1
            count += 1
            start = True
        elif byte == separator:
            start = True
        elif start and byte == quote:
            quoted, start = True, False
        else:
            start = False
        at += 1
    return count


class TextBlocks:
    """The blocks of a text file; iterate it once.

    Args:
        source: the decompressed bytes.
        separator: the byte between two values.
        quote: the byte around a quoted value; None if values are never quoted, as in JSON lines.
        damaged: whether the source ended by damage; asked at its end. Its last record is then cut.

    Attributes:
        size: number of bytes read so far.
        overhead: number of bytes of blank lines so far.
        open_end: whether the file ends without an end of line.
    """

    def __init__(
        self,
        source: Source,
        separator: int = 44,
        quote: int | None = None,
        damaged: Callable[[], bool] = lambda: False,
    ) -> None:
        self.size = 0
        self.overhead = 0
        self.open_end = False
        self._source = source
        self._separator = separator
        self._quote = quote
        self._damaged = damaged
        self._line = 1
        self._in_long_line = False

    def __iter__(self) -> Iterator[Block]:
        rest, offset = b"", 0
        while True:
            piece = self._read(BLOCK_BYTES)
            last = not piece
            data = rest + piece
            if data or last:
                block, used = self._block(data, offset, last)
                if len(block) or last:
                    yield from block.parts()
                rest, offset = data[used:], offset + used
            if last:
                return

    def _read(self, size: int) -> bytes:
        buffer = bytearray(size)
        view, filled = memoryview(buffer), 0
        while filled < size and (count := self._source.readinto(view[filled:])):
            filled += count
        self.size += filled
        return bytes(view[:filled])

    def _block(self, data: bytes, offset: int, last: bool) -> tuple[Block, int]:
        """Divides the whole records of some bytes; returns the number of bytes that are used."""
        array = np.frombuffer(data, np.uint8)
        newlines = np.flatnonzero(array == _NEWLINE)
        begins: list[Offsets] = []
        ends: list[Offsets] = []
        long: list[tuple[int, bool]] = []
        at = self._mark(data) if offset == 0 else self._rest_of_long_line(newlines, len(data))
        while True:
            stops = self._ends(array, newlines, at)
            starts = np.concatenate([[at], stops[:-1]]) if len(stops) else stops
            too_long = np.flatnonzero(stops - starts > MOST_RECORD)
            whole = int(too_long[0]) if len(too_long) else len(stops)
            begins.append(starts[:whole])
            ends.append(stops[:whole])
            long.append((whole, False))
            at = int(stops[whole - 1]) if whole else at
            if not len(too_long) and len(data) - at <= MOST_RECORD and not last:
                break
            if at == len(data):
                break
            # A record without an end, or a long one: its first line is damage, and reading goes on behind that line.
            first = int(np.searchsorted(newlines, at))
            if first == len(newlines):
                if not last and len(data) - at <= 2 * BLOCK_BYTES:
                    break
                self.open_end, self._in_long_line = last, not last
                begins.append(np.array([at]))
                ends.append(np.array([len(data)]))
                long.append((1, len(data) - at > MOST_RECORD or (last and self._damaged())))
                at = len(data)
                break
            begins.append(np.array([at]))
            ends.append(np.array([int(newlines[first]) + 1]))
            long.append((1, True))
            at = int(newlines[first]) + 1
        return self._made(data, offset, np.concatenate(begins), np.concatenate(ends), long, newlines, at, last), at

    def _mark(self, data: bytes) -> int:
        """Returns the size of the byte order mark before the first record; it is overhead."""
        size = len(_MARK) if data.startswith(_MARK) else 0
        self.overhead += size
        return size

    def _rest_of_long_line(self, newlines: Offsets, size: int) -> int:
        """Returns where records go on; the rest of a line that was too long for a block is overhead."""
        if not self._in_long_line:
            return 0
        self._in_long_line = not len(newlines)
        at = int(newlines[0]) + 1 if len(newlines) else size
        self.overhead += at
        return at

    def _ends(self, array: NDArray[np.uint8], newlines: Offsets, at: int) -> Offsets:
        first = int(np.searchsorted(newlines, at))
        if self._quote is None or not np.any(array[at:] == self._quote):
            return newlines[first:].astype(np.int64) + 1
        ends = np.empty(len(newlines) - first, np.int64)
        return ends[: _quoted_ends(array, at, self._separator, self._quote, ends)]

    def _made(
        self,
        data: bytes,
        offset: int,
        begins: Offsets,
        ends: Offsets,
        long: list[tuple[int, bool]],
        newlines: Offsets,
        used: int,
        last: bool,
    ) -> Block:
        begins, ends = begins.astype(np.int64), ends.astype(np.int64)
        flags = np.repeat([flag for _, flag in long], [count for count, _ in long]).astype(np.bool_)
        lines = self._line + np.searchsorted(newlines, begins)
        self._line += int(np.searchsorted(newlines, used))
        array = np.frombuffer(data, np.uint8)
        sizes = ends - begins
        blank = (sizes <= 2) & np.isin(array[begins], (_NEWLINE, _RETURN)) & (array[ends - 1] == _NEWLINE)
        self.overhead += int(sizes[blank].sum())
        filled = ~blank
        return Block(data, offset, begins[filled], ends[filled], lines[filled], flags[filled], last)
