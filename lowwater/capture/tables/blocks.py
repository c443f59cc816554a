"""Blocks of whole records of a text file: where each record begins and ends, and its line.

Between the bytes of a file and the parsers. Arrow's readers do not say where a record stands, and a damaged record must
be named by its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.values import nanoseconds, stored_columns, typed
from lowwater.catalog.records import RecordLayout
from lowwater.limits import RECORD_BLOCK_BYTES, RECORD_BLOCK_RECORDS, RECORD_BYTES
from lowwater.machine_code import cached_njit

NEWLINE, RETURN = 10, 13
MARK = b"\xef\xbb\xbf"
"""Byte order mark before the text of a file."""
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
        long: whether the record is longer than RECORD_BYTES, so that only its first line belongs to it.
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
        """Yields the block in parts of at most RECORD_BLOCK_RECORDS records."""
        if len(self) <= RECORD_BLOCK_RECORDS:
            yield self
            return
        for first in range(0, len(self), RECORD_BLOCK_RECORDS):
            end = first + RECORD_BLOCK_RECORDS
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
def _last_lines(data: Any, begin: int, lines: Any, separator: int, quote: int) -> Any:
    """Finds, for each line, the last line of a record that begins with it, as Arrow reads quoted values; -1 if it has
    no end.

    Backward, so that each byte is read once: where a record ends follows from the next byte and from whether a value
    begins there, goes on, or is quoted.
    """
    lasts = np.empty(len(lines), np.int64)
    starting, going_on, quoted, behind, line = -1, -1, -1, -1, len(lines)
    for at in range(len(data) - 1, begin - 1, -1):
        byte = data[at]
        if byte == 10:
            if line < len(lines):
                lasts[line] = starting
            line -= 1
            starting, going_on = line, line
            behind = quoted
        elif byte == separator:
            going_on = starting
            behind = quoted
        elif byte == quote:
            # Two quotes in a quoted value are one; of a single one the value begins or ends.
            after = going_on
            starting = quoted
            double = at + 1 < len(data) and data[at + 1] == quote
            quoted, behind = behind if double else after, quoted
        else:
            starting = going_on
            behind = quoted
    if len(lines):
        lasts[0] = starting
    return lasts


@cached_njit(nogil=True)
def _divided(lines: Any, lasts: Any, at: int, size: int, most: int, last: bool) -> Any:
    """Divides lines into records.

    Args:
        lines: end of each line, without its byte.
        lasts: last line of a record that begins with each line, -1 if it has no end.
        size: bytes of the data.
        most: bytes of the longest record. Of a longer one the first line is damage, and reading goes on behind it.

    Returns:
        Begin and end of each record, and whether it is such a line.
    """
    begins, ends = np.empty(len(lines), np.int64), np.empty(len(lines), np.int64)
    long = np.zeros(len(lines), np.bool_)
    count = line = 0
    while line < len(lines):
        final = lasts[line]
        if final < 0 and not last and size - at <= most:
            break
        if final < 0 or lines[final] + 1 - at > most:
            final, long[count] = line, True
        begins[count], ends[count] = at, lines[final] + 1
        at, line, count = lines[final] + 1, final + 1, count + 1
    return begins[:count], ends[:count], long[:count]


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
            piece = self._read(RECORD_BLOCK_BYTES)
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
        newlines = np.flatnonzero(array == NEWLINE)
        at = self._mark(data) if offset == 0 else self._rest_of_long_line(newlines, len(data))
        lines = newlines[np.searchsorted(newlines, at) :]
        begins, ends, long = _divided(lines, self._lasts(array, at, lines), at, len(data), RECORD_BYTES, last)
        at = int(ends[-1]) if len(ends) else at
        if at < len(data) and (last or len(data) - at > max(RECORD_BYTES, 2 * RECORD_BLOCK_BYTES)):
            # A line without an end.
            self.open_end, self._in_long_line = last, not last
            begins, ends = np.append(begins, at), np.append(ends, len(data))
            long = np.append(long, len(data) - at > RECORD_BYTES or (last and self._damaged()))
            at = len(data)
        return self._made(data, offset, begins, ends, long, newlines, at, last), at

    def _mark(self, data: bytes) -> int:
        """Returns the size of the byte order mark before the first record; it is overhead."""
        size = len(MARK) if data.startswith(MARK) else 0
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

    def _lasts(self, array: NDArray[np.uint8], at: int, lines: Offsets) -> Offsets:
        """Returns the last line of a record that begins with each line."""
        if self._quote is None or not np.any(array[at:] == self._quote):
            return np.arange(len(lines))
        lasts: Offsets = _last_lines(array, at, lines, self._separator, self._quote)
        return lasts

    def _made(
        self,
        data: bytes,
        offset: int,
        begins: Offsets,
        ends: Offsets,
        long: NDArray[np.bool_],
        newlines: Offsets,
        used: int,
        last: bool,
    ) -> Block:
        lines = self._line + np.searchsorted(newlines, begins)
        self._line += int(np.searchsorted(newlines, used))
        array = np.frombuffer(data, np.uint8)
        sizes = ends - begins
        blank = (sizes <= 2) & np.isin(array[begins], (NEWLINE, RETURN)) & (array[ends - 1] == NEWLINE)
        self.overhead += int(sizes[blank].sum())
        filled = ~blank
        return Block(data, offset, begins[filled], ends[filled], lines[filled], long[filled], last)


# Parsed records of a piece of a file: typed columns of the whole ones, and the reasons of the others. Between the
# parsers, which fill it, and `reader`, which judges the times.

NO_TIME, TIME_RANGE, TIME_JUMP, LONG, COLUMNS, SYNTAX, ENCODING, HEADER = (
    "no-time", "time-range", "time-jump", "length", "columns", "syntax", "encoding", "header",
)  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Where the records of a piece stand.

    Attributes:
        offsets: offset of each record in the decompressed file; in parquet, the number of its row.
        lengths: length of each record, bytes; 0 in parquet.
        lines: line of each record, from 1; None in parquet.
    """

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    lines: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.offsets)


class Refusals:
    """Why records of a piece are malformed.

    Attributes:
        codes: code of the reason of each record; 0 for a whole record.
        names: the reason of each code.
    """

    def __init__(self, count: int) -> None:
        self.codes = np.zeros(count, np.int16)
        self.names = [""]

    def add(self, chosen: NDArray[np.int64], reason: str) -> None:
        """Refuses records, by index, for a reason; a record that is refused already keeps its reason."""
        if not len(chosen):
            return
        if reason not in self.names:
            self.names.append(reason)
        self.codes[chosen[self.codes[chosen] == 0]] = self.names.index(reason)


@dataclass(frozen=True)
class Piece:
    """Consecutive records of a file.

    Attributes:
        places: where all of the records stand.
        whole: indices of the records with a value or NULL in every column and a time within range, ascending.
        stamps: timestamps of the whole records, ns.
        columns: the stored columns of the whole records; texts may be in dictionaries.
        refusals: why others are malformed.
        left_out: type and number of the records of other types, which are neither whole nor malformed.
        overhead: bytes of these records, and of lines that are no records.
        absent: fields that no record has; None without records, and where the header of the file says it.
        unknown: then, columns of the records that no field reads.
    """

    places: Places
    whole: NDArray[np.int64]
    stamps: NDArray[np.int64]
    columns: pa.RecordBatch
    refusals: Refusals
    left_out: tuple[tuple[str, int], ...] = ()
    overhead: int = 0
    absent: frozenset[str] | None = None
    unknown: frozenset[str] = frozenset()


def make_piece(
    layout: RecordLayout,
    places: Places,
    parsed: NDArray[np.int64],
    raw: Sequence[pa.Array],
    refusals: Refusals,
    refused: Sequence[NDArray[np.bool_]] | None = None,
) -> Piece:
    """Types the values of parsed records, and reads their times.

    Args:
        layout: the fields, in the order of `raw`.
        places: where all records stand.
        parsed: indices of the parsed records, ascending.
        raw: the values of each field for the parsed records: texts, or values that the file has typed.
        refusals: why other records are malformed; gets those of the parsed records.
        refused: flags of the values of each field that the parser refuses; None for none.
    """
    columns: list[pa.Array] = []
    stamps = np.zeros(len(parsed), np.int64)
    timeless = np.zeros(len(parsed), np.bool_)
    for number, (field, values) in enumerate(zip(layout.fields, raw, strict=True)):
        column, bad = typed(values, field)
        bad = bad if refused is None else bad | refused[number]
        if bad.any():
            refusals.add(parsed[bad], f"value of {field.name}")
        if field.stored == layout.clock:
            stamps, timeless = nanoseconds(column, field, layout.unit)
        columns += stored_columns(column, field)
    if timeless.any():
        refusals.add(parsed[timeless], NO_TIME)
    refusals.add(parsed[stamps < 0], TIME_RANGE)
    fields = zip(layout.schema, columns, strict=True)
    schema = pa.schema([stored.with_type(column.type) for stored, column in fields])
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    if not refusals.codes.any():
        return Piece(places, parsed, stamps, batch, refusals)
    good = refusals.codes[parsed] == 0
    return Piece(places, parsed[good], stamps[good], batch.filter(pa.array(good)), refusals)
