"""Parquet files of numbers, written without a call for every value: encodings, footer, file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit
from numpy.typing import NDArray

from lowwater.capture.headers.fields import put_little32, put_little64
from lowwater.capture.interpretation import FirstRecords
from lowwater.lake.footers import MAGIC, varint
from lowwater.machine_code import cached_njit

# Pages of 32-bit or 64-bit numbers, after Encodings.md of the Parquet format: levels, DELTA_BINARY_PACKED, dictionary
# indices. The kernels check no bounds: callers allocate `room`.

MOST_ENTRIES = 1 << 14  # most entries of a dictionary; a column with more values continues as differences
SLOTS = 4 * MOST_ENTRIES  # slots of the hash table of a dictionary

_SHIFT = 64 - (SLOTS.bit_length() - 1)
_MULTIPLIER = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed number (Fibonacci hashing)
_MOST_PROBES = 64  # bounds the cost of packets whose values were chosen to collide
_BLOCK, _MINI = 128, 32
_LARGEST = np.iinfo(np.int64).max


def room(rows: int) -> int:
    """Returns the most bytes of a page of this number of rows, including what kernels write beyond its end."""
    return 10 * rows + 2048


@cached_njit(nogil=True)
def _varint(value: int, out: Any, at: int) -> int:
    while value < 0 or value >= 0x80:  # a negative number counts as an unsigned one of 64 bits
        out[at] = (value & 0x7F) | 0x80
        value = (value >> 7) & 0x01FF_FFFF_FFFF_FFFF
        at += 1
    out[at] = value
    return at + 1


@cached_njit(nogil=True)
def _width(value: int) -> int:
    if value < 0:
        return 64
    width = 0
    for step in (32, 16, 8, 4, 2, 1):
        if value >> step:
            width += step
            value >>= step
    return width + value


def _packer(step: int) -> Callable[[Any, int, int, int, Any, int], int]:
    """Makes a kernel that packs `step` values at a time, 56 bits at most."""

    @njit(nogil=True)
    def pack(values: Any, begin: int, count: int, width: int, out: Any, at: int) -> int:
        word, filled = 0, 0
        for index in range(begin, begin + count, step):
            for lane in range(step):
                word |= values[index + lane] << (filled + lane * width)
            put_little64(out, at, word)
            filled += step * width
            at += filled >> 3
            word >>= filled & 0x38
            filled &= 7
        return at

    return cast("Callable[[Any, int, int, int, Any, int], int]", pack)


_by_eight, _by_four, _by_two, _by_one = map(_packer, (8, 4, 2, 1))


@cached_njit(nogil=True)
def _pack(values: Any, begin: int, count: int, width: int, out: Any, at: int) -> int:
    """Packs values of `width` bits, the least bit first; returns the next index. `count` is a multiple of 8."""
    if width <= 7:
        return _by_eight(values, begin, count, width, out, at)
    if width <= 14:
        return _by_four(values, begin, count, width, out, at)
    if width <= 28:
        return _by_two(values, begin, count, width, out, at)
    if width <= 56:
        return _by_one(values, begin, count, width, out, at)
    word, filled = 0, 0
    for index in range(begin, begin + count):
        value = values[index]
        word |= value << filled
        filled += width
        if filled >= 64:
            put_little64(out, at, word)
            at += 8
            filled -= 64
            word = value >> (width - filled) if filled else 0
    put_little64(out, at, word)
    return at + (filled >> 3)


@cached_njit(nogil=True)
def _levels(valid: Any, offset: int, rows: int, present: int, out: Any, at: int) -> int:
    """Writes definition levels with their length: one run of equal levels, or the validity bitmap as a packed run."""
    begin = at + 4
    if present == rows or present == 0:
        at = _varint(rows << 1, out, begin)
        out[at] = 1 if present else 0
        at += 1
    else:
        size = (rows + 7) >> 3
        at = _varint(size << 1 | 1, out, begin)
        first, shift = offset >> 3, offset & 7
        for index in range(size):
            byte = valid[first + index] >> shift
            if shift and first + index + 1 < len(valid):
                byte |= valid[first + index + 1] << (8 - shift)
            out[at + index] = byte & 0xFF
        at += size
    put_little32(out, begin - 4, at - begin)
    return at


@cached_njit(nogil=True)
def _present(values: Any, valid: Any, offset: int, rows: int, present: Any) -> int:
    """Copies the values that are not NULL; returns their number."""
    if len(valid) == 0:
        for row in range(rows):
            present[row] = values[row]
        return rows
    count = 0
    row = 0
    while row < rows:
        at = offset + row
        if at & 7 == 0 and rows - row >= 8:
            byte = valid[at >> 3]
            if byte == 0xFF:
                for lane in range(8):
                    present[count + lane] = values[row + lane]
                count += 8
            elif byte:
                for lane in range(8):
                    present[count] = values[row + lane]
                    count += (byte >> lane) & 1
            row += 8
        else:
            present[count] = values[row]
            count += (valid[at >> 3] >> (at & 7)) & 1
            row += 1
    return count


@cached_njit(nogil=True)
def _delta(present: Any, count: int, narrow: bool, out: Any, at: int) -> int:
    """Writes values as DELTA_BINARY_PACKED; returns the end of the page. Differences of 32-bit values wrap."""
    block = np.empty(_BLOCK, np.int64)
    at = _varint(_BLOCK, out, at)
    at = _varint(_BLOCK // _MINI, out, at)
    at = _varint(count, out, at)
    first = present[0] if count else 0
    at = _varint((first << 1) ^ (first >> 63), out, at)
    for begin in range(1, count, _BLOCK):
        size = min(_BLOCK, count - begin)
        least = _LARGEST
        for index in range(size):
            step = present[begin + index] - present[begin + index - 1]
            if narrow:
                step = ((step + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
            block[index] = step
            least = min(least, step)
        if size < _BLOCK:
            block[size:] = least
        at = _varint((least << 1) ^ (least >> 63), out, at)
        widths = at
        at += _BLOCK // _MINI
        for mini in range(_BLOCK // _MINI):
            every = 0
            for index in range(mini * _MINI, (mini + 1) * _MINI):
                block[index] -= least
                every |= block[index]
            width = _width(every)
            out[widths + mini] = width
            if width:
                at = _pack(block, mini * _MINI, _MINI, width, out, at)
    return at


@cached_njit(nogil=True)
def _place(value: int, slot: int, slots: Any, entries: Any, size: int) -> tuple[int, int]:
    """Finds or adds a dictionary value after a collision; returns its number (-1 without room), and the new size."""
    for _ in range(_MOST_PROBES):
        number = slots[slot] - 1
        if number >= 0 and entries[number] == value:
            return number, size
        if number < 0:
            if size == MOST_ENTRIES:
                return -1, size
            entries[size] = value
            slots[slot] = size + 1
            return size, size + 1
        slot = (slot + 1) & (SLOTS - 1)
    return -1, size


@cached_njit(nogil=True)
def _look_up(present: Any, count: int, slots: Any, entries: Any, size: int, numbers: Any) -> tuple[int, bool]:
    """Converts values to numbers of a growing dictionary; returns its size, and whether all values fit."""
    for index in range(count):
        value = present[index]
        slot = ((value * _MULTIPLIER) >> _SHIFT) & (SLOTS - 1)
        number = slots[slot] - 1
        if number < 0 or entries[number] != value:
            number, size = _place(value, slot, slots, entries, size)
            if number < 0:
                return size, False
        numbers[index] = number
    return size, True


@cached_njit(nogil=True)
def _alike(values: Any, count: int) -> bool:
    for begin in range(0, count, _BLOCK):
        others = 0
        for index in range(begin, min(begin + _BLOCK, count)):
            others |= values[index] ^ values[0]
        if others:
            return False
    return True


@cached_njit(nogil=True)
def _numbers(numbers: Any, count: int, size: int, out: Any, at: int) -> int:
    """Writes dictionary numbers as RLE_DICTIONARY; returns the end of the page.

    The page is one packed run, or one run of equal numbers: shorter runs are not searched.
    """
    width = max(1, _width(max(0, size - 1)))  # without a value so far there is no entry either
    out[at] = width
    at += 1
    if count == 0:
        return at
    if _alike(numbers, count):
        at = _varint(count << 1, out, at)
        put_little32(out, at, numbers[0])
        return at + ((width + 7) >> 3)
    groups = (count + 7) >> 3
    numbers[count : 8 * groups] = 0
    at = _varint(groups << 1 | 1, out, at)
    return _pack(numbers, 0, 8 * groups, width, out, at)


@cached_njit(nogil=True)
def page(
    values: Any, valid: Any, offset: int, nullable: bool, narrow: bool, slots: Any, entries: Any, size: int,
    present: Any, numbers: Any, out: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Writes a page: as dictionary numbers if all values fit into the dictionary, else as differences. Returns bytes in
    `out`; number of values that are not NULL; entries of the dictionary, or -1 for a page of differences.

    Args:
        values: int32 or int64 array.
        valid: uint8 array, the validity bitmap; empty if no value is NULL.
        offset: offset of the first row in `valid`, bits.
        narrow: whether the column has 32 bits.
        slots: int16 array (SLOTS), hash table of the dictionary: number + 1, or 0; empty without a dictionary. Filled.
        entries: int64 array (MOST_ENTRIES), the dictionary. Filled.
        present: int64 work array with room for a block more than `values`.
        numbers: int64 work array of the same size.
        out: uint8 array (room(len(values))), filled.
    """
    rows = len(values)
    count = _present(values, valid, offset, rows, present)
    at = _levels(valid, offset, rows, count, out, 0) if nullable else 0
    if len(slots):
        once = count > 0 and _alike(present, count)
        size, fits = _look_up(present, 1 if once else count, slots, entries, size, numbers)
        if fits:
            if once:
                numbers[1:count] = numbers[0]
            return _numbers(numbers, count, size, out, at), count, size
    return _delta(present, count, narrow, out, at), count, -1


# Page headers and the footer in Thrift's compact protocol, after parquet.thrift.


PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8  # numbers of encodings
BOOLEAN, INT32, INT64, DOUBLE, TEXT = 0, 1, 2, 5, 6  # numbers of physical types; TEXT is BYTE_ARRAY

CREATOR = "lowwater"

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2

_Field = tuple[int, int, bytes]


@dataclass(frozen=True)
class Column:
    """A column of the schema."""

    name: str
    kind: int
    nullable: bool  # whether it has definition levels
    text: bool = False  # whether its bytes are text


@dataclass(frozen=True)
class ColumnChunk:
    """The pages of a column, as the footer describes them."""

    column: Column
    size: int  # bytes in the file, with headers and dictionary
    encodings: Sequence[int]  # encodings in use
    data: int  # bytes before the first data page
    unpacked: int  # bytes without compression
    codec: int = 0
    bounds: tuple[int, int] | None = None  # smallest and largest value of a 64-bit column; None without them


def _number(identity: int, value: int, kind: int = _I32) -> _Field:
    return identity, kind, varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _text(identity: int, value: bytes) -> _Field:
    return identity, _BINARY, varint(len(value)) + value


def _list(identity: int, kind: int, values: Sequence[bytes]) -> _Field:
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + varint(len(values))
    return identity, _LIST, head + b"".join(values)


def _struct(*fields: _Field) -> bytes:
    data, last = bytearray(), 0
    for identity, kind, value in fields:
        data.append(identity - last << 4 | kind)
        data += value
        last = identity
    return bytes(data) + b"\0"


def data_header(rows: int, encoding: int, content: bytes) -> bytes:
    """Makes the header of an uncompressed data page (version 1), with its checksum."""
    before, between, behind = _around(rows, encoding)
    number = varint(len(content) << 1)
    return before + number + between + number + between + _checksum(content) + behind


def _checksum(content: bytes) -> bytes:
    """Encodes the CRC of a page, a signed number of 32 bits."""
    value = crc32(content)
    return _number(4, value - (1 << 32) if value >> 31 else value)[2]


@lru_cache(64)
def _around(rows: int, encoding: int) -> tuple[bytes, bytes, bytes]:
    """Returns the bytes before the first size in the header of a data page, before the next two numbers, and behind
    them."""
    page = _struct(_number(1, rows), _number(2, encoding), _number(3, RLE), _number(4, RLE))
    kind, field = _struct(_number(1, _DATA_PAGE))[:-1], bytes([1 << 4 | _I32])
    return kind + field, field, bytes([1 << 4 | _STRUCT]) + page + b"\0"


def dictionary_header(entries: int, content: bytes) -> bytes:
    """Makes the header of an uncompressed dictionary page, with its checksum."""
    page = _struct(_number(1, entries), _number(2, PLAIN))
    size = len(content)
    return _struct(
        _number(1, _DICTIONARY_PAGE),
        _number(2, size),
        _number(3, size),
        (4, _I32, _checksum(content)),
        (7, _STRUCT, page),
    )


def footer(chunks: Sequence[ColumnChunk], rows: int) -> bytes:
    """Makes the end of a file with one row group, whose column chunks follow MAGIC in this order."""
    at, placed = len(MAGIC), []
    for chunk in chunks:
        placed.append(_struct(_number(2, at, _I64), (3, _STRUCT, _facts(chunk, rows, at))))
        at += chunk.size
    size = sum(chunk.unpacked for chunk in chunks)
    group = _struct(_list(1, _STRUCT, placed), _number(2, size, _I64), _number(3, rows, _I64))
    root = _struct(_text(4, b"schema"), _number(5, len(chunks)))
    columns = [root, *(_element(chunk.column) for chunk in chunks)]
    # Without column orders, readers ignore the bounds of columns.
    orders = [_struct((1, _STRUCT, _struct()))] * len(chunks)
    metadata = _struct(
        _number(1, 2),
        _list(2, _STRUCT, columns),
        _number(3, rows, _I64),
        _list(4, _STRUCT, [group]),
        _text(6, CREATOR.encode()),
        _list(7, _STRUCT, orders),
    )
    return metadata + len(metadata).to_bytes(4, "little") + MAGIC


def _element(column: Column) -> bytes:
    fields = [_number(1, column.kind), _number(3, int(column.nullable)), _text(4, column.name.encode())]
    if column.text:
        fields += [_number(6, 0), (10, _STRUCT, _struct((1, _STRUCT, _struct())))]
    return _struct(*fields)


def _facts(chunk: ColumnChunk, rows: int, at: int) -> bytes:
    fields = [
        _number(1, chunk.column.kind),
        _list(2, _I32, [varint(encoding << 1) for encoding in chunk.encodings]),
        _list(3, _BINARY, [_text(0, chunk.column.name.encode())[2]]),
        _number(4, chunk.codec),
        _number(5, rows, _I64),
        _number(6, chunk.unpacked, _I64),
        _number(7, chunk.size, _I64),
        _number(9, at + chunk.data, _I64),
    ]
    if chunk.data:
        fields.append(_number(11, at, _I64))
    if chunk.bounds is not None:
        least, most = (value.to_bytes(8, "little", signed=True) for value in chunk.bounds)
        fields.append((12, _STRUCT, _struct(_text(5, most), _text(6, least))))
    return _struct(*fields)


# Integers are encoded at once, other values by Arrow at the end. Arrow also encodes the numbers of a first capture of
# few rows, which then waits for no compiler (docs/adr/0044). Only the pages of a file wait in memory, a sixth of the
# size of its rows.

_WRITER_NONE = np.empty(0, np.uint8)
_WRITER_NONE.flags.writeable = False
_BLOCK_ROOM = 128
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "ZSTD": 6, "LZ4": 7}
_KINDS = {pa.bool_(): BOOLEAN, pa.float64(): DOUBLE}
_ENCODINGS = {"PLAIN": PLAIN, "RLE": RLE, "RLE_DICTIONARY": DICTIONARY, "PLAIN_DICTIONARY": 2, "DELTA_BINARY_PACKED": 5}

_FIRST = FirstRecords(getattr(page, "py_func", page), lambda: "page")


class PageBuffers:
    """Work memory of a thread for the pages that it makes, one after another."""

    def __init__(self) -> None:
        self.present = np.empty(0, np.int64)
        self.numbers = np.empty(0, np.int64)
        self.out = np.empty(0, np.uint8)
        self.slots = np.zeros(1, np.int16)

    def fit(self, rows: int) -> None:
        if len(self.present) < rows + _BLOCK_ROOM:
            self.present = np.empty(rows + _BLOCK_ROOM, np.int64)
            self.numbers = np.empty(rows + _BLOCK_ROOM, np.int64)
            self.out = np.empty(room(rows), np.uint8)


class NumberColumn:
    """The pages of a column of 32-bit or 64-bit numbers. A `counter` counts or has many values, so that it is written
    as differences; another column is written as dictionary numbers while the dictionary has room. Of a `bounded`
    column, of 64 bits and without NULL, the file has the smallest and the largest value."""

    def __init__(self, field: pa.Field, counter: bool, bounded: bool) -> None:
        self.present = 0  # number of values so far that are not NULL
        self.bounds: tuple[int, int] | None = None  # smallest and largest value so far
        self._bounded = bounded
        self._narrow = field.type == pa.int32()
        self._column = Column(field.name, INT32 if self._narrow else INT64, field.nullable)
        self._pages: list[bytes] = []
        self._uses: set[int] = set()
        self._slots = np.empty(0, np.int16)
        self._entries = np.empty(0, np.int64)
        self._numbered = not counter
        self._size = 0

    def add(self, array: pa.Array, scratch: PageBuffers) -> None:
        """Adds a page; `scratch` must have room for it."""
        values, valid, offset = _parts(array, np.int32 if self._narrow else np.int64)
        self._widen(values)
        slots = self._slots
        if self._numbered and not len(slots):
            slots = scratch.slots  # a page of NULLs allocates no table: many files with few columns may wait at a time
            if array.null_count < len(array):
                slots = self._slots = np.zeros(SLOTS, np.int16)
                self._entries = np.empty(MOST_ENTRIES, np.int64)
        size, count, entries = page(
            values, valid, offset, self._column.nullable, self._narrow, slots, self._entries, self._size,
            scratch.present, scratch.numbers, scratch.out,
        )  # fmt: skip
        self.present += count
        if entries < 0:
            self._numbered, self._slots = False, self._slots[:0].copy()
        else:
            self._size = entries
        kind = DELTA if entries < 0 else DICTIONARY
        self._uses.add(kind)
        content = scratch.out[:size].tobytes()
        self._pages += data_header(len(values), kind, content), content

    def add_pages(self, array: pa.Array, pages: bytes, uses: Collection[int]) -> None:
        """Adds an array that is pages already, with their headers and not compressed, of differences or plain."""
        self._widen(_parts(array, np.int32 if self._narrow else np.int64)[0])
        self.present += len(array) - array.null_count
        self._uses.update(uses)
        self._pages.append(pages)
        self._numbered = False  # DuckDB may read a page of dictionary numbers behind one of differences wrongly

    def _widen(self, values: NDArray[Any]) -> None:
        if self._bounded:
            least, most = int(values.min()), int(values.max())
            self.bounds = (min(least, self.bounds[0]), max(most, self.bounds[1])) if self.bounds else (least, most)

    def chunk(self) -> tuple[ColumnChunk, list[bytes]]:
        pages, data, uses = self._pages, 0, [RLE, *sorted(self._uses - {RLE})]
        if DICTIONARY in self._uses:
            entries = self._entries[: self._size].astype(np.int32 if self._narrow else np.int64).tobytes()
            first = dictionary_header(self._size, entries), entries
            pages, data, uses = [*first, *pages], sum(map(len, first)), sorted({PLAIN, *uses})
        size = sum(map(len, pages))
        return ColumnChunk(self._column, size, uses, data, size, bounds=self.bounds), pages


@dataclass(frozen=True)
class UnfinishedFile:
    """A Parquet file with all columns and without a footer: texts that all rows share may be known later."""

    path: Path
    rows: int
    chunks: tuple[ColumnChunk, ...]

    def finish(self, constants: Mapping[str, str]) -> int:
        """Adds columns with the same text in all rows, and the footer; returns the size of the file, bytes."""
        columns = [_constant(name, value, self.rows) for name, value in constants.items()]
        with self.path.open("ab") as file:
            for _, pages in columns:
                file.writelines(pages)
            file.write(footer([*self.chunks, *(chunk for chunk, _ in columns)], self.rows))
            return file.tell()


def _constant(name: str, value: str, rows: int) -> tuple[ColumnChunk, list[bytes]]:
    text = value.encode()
    entry, numbers = len(text).to_bytes(4, "little") + text, b"\1" + varint(rows << 1) + b"\0"
    first = [dictionary_header(1, entry), entry]
    pages = [*first, data_header(rows, DICTIONARY, numbers), numbers]
    size = sum(map(len, pages))
    column = Column(name, TEXT, nullable=False, text=True)
    return ColumnChunk(column, size, [PLAIN, RLE, DICTIONARY], sum(map(len, first)), size), pages


class FileWriter:
    """A Parquet file of one row group, of integers of 32 and 64 bits, floats of 64, booleans, texts and bytes; with the
    smallest and largest value of the bounded columns."""

    def __init__(self, schema: pa.Schema, counters: Collection[str], bounded: Collection[str]) -> None:
        self.rows = 0
        self._schema = schema
        numbers = [field for field in schema if pa.types.is_integer(field.type)]
        self._numbers = {
            field.name: NumberColumn(field, field.name in counters, field.name in bounded) for field in numbers
        }
        others = [field.name for field in schema if field.name not in self._numbers]
        self._others: dict[str, list[pa.Array]] = {name: [] for name in others}

    def add(self, batches: Sequence[pa.RecordBatch], scratch: PageBuffers) -> None:
        """Adds rows of the schema, whose texts may be in dictionaries of 32-bit numbers: a page for every column of
        numbers. Arrow writes the pages while our encoder is not compiled."""
        numbers = [batch.select(list(self._numbers)) for batch in batches]
        page = numbers[0] if len(numbers) == 1 else pa.concat_batches(numbers)
        if _FIRST.few(page.num_rows):
            for name, (pages, uses) in _arrows_pages(page, self._schema, self._numbers).items():
                self._numbers[name].add_pages(page.column(name), pages, uses)
        else:
            scratch.fit(page.num_rows)
            for name, column in self._numbers.items():
                column.add(page.column(name), scratch)
        for name, arrays in self._others.items():
            arrays += [batch.column(name) for batch in batches]
        self.rows += page.num_rows

    def bounds(self, name: str) -> tuple[int, int]:
        """Returns the smallest and the largest value of a bounded column."""
        bounds = self._numbers[name].bounds
        assert bounds is not None
        return bounds

    def write(self, path: Path) -> UnfinishedFile:
        """Writes the columns that have a value; readers take missing columns for NULL."""
        others = by_arrow({self._schema.field(name): arrays for name, arrays in self._others.items()})
        written = []
        for name in self._schema.names:
            if name in others:
                written.append(others[name])
            elif name in self._numbers and self._numbers[name].present:
                written.append(self._numbers[name].chunk())
        with path.open("wb") as file:
            file.write(MAGIC)
            for _, pages in written:
                file.writelines(pages)
        return UnfinishedFile(path, self.rows, tuple(chunk for chunk, _ in written))


def by_arrow(columns: Mapping[pa.Field, Sequence[pa.Array]]) -> dict[str, tuple[ColumnChunk, list[bytes]]]:
    """Encodes texts, which may be in dictionaries, bytes, booleans and floats by Arrow: field -> its values, in parts.
    Returns chunk and pages by column name, without columns that have no value."""
    joined = {field: _joined(parts, field.type) for field, parts in columns.items()}
    filled = {field: values for field, values in joined.items() if values.null_count < len(values)}
    if not filled:
        return {}
    fields = [field.with_type(values.type) for field, values in filled.items()]
    table = pa.Table.from_arrays(list(filled.values()), schema=pa.schema(fields))
    texts = [field.name for field in filled if field.type == pa.string()]
    written, group = _written(table, compression="lz4", use_dictionary=texts)
    chunks = {}
    for index, field in enumerate(filled):
        facts = group.column(index)
        start = facts.dictionary_page_offset or facts.data_page_offset
        kind = _KINDS.get(field.type, TEXT)
        column = Column(field.name, kind, field.nullable, text=field.type == pa.string())
        pages = [written.slice(start, facts.total_compressed_size).to_pybytes()]
        encodings = [_ENCODINGS[name] for name in facts.encodings]
        sizes = facts.data_page_offset - start, facts.total_uncompressed_size
        chunk = ColumnChunk(column, facts.total_compressed_size, encodings, *sizes, codec=_CODECS[facts.compression])
        chunks[field.name] = chunk, pages
    return chunks


def _written(table: pa.Table, **options: Any) -> tuple[pa.Buffer, pq.RowGroupMetaData]:
    """Returns a file of one row group that Arrow writes of a table, and what its footer says of the group."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, table.num_rows, write_statistics=False, store_schema=False, write_page_checksum=True, **options
    )
    written = sink.getvalue()
    return written, pq.read_metadata(pa.BufferReader(written)).row_group(0)


def _joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    """Returns the parts as one column, with one dictionary if all have one."""
    if parts and all(pa.types.is_dictionary(part.type) for part in parts):
        return pa.chunked_array(parts).unify_dictionaries()
    return pa.chunked_array([part.cast(kind) for part in parts], kind)


def _arrows_pages(
    batch: pa.RecordBatch, schema: pa.Schema, names: Collection[str]
) -> dict[str, tuple[bytes, set[int]]]:
    """Encodes numbers by Arrow, as differences, or plain where no value is; returns pages and encodings by name."""
    fields = [schema.field(name) for name in names]
    if not fields:
        return {}
    table = pa.Table.from_arrays([batch.column(field.name) for field in fields], schema=pa.schema(fields))
    encodings = {
        name: "PLAIN" if table.column(name).null_count == table.num_rows else "DELTA_BINARY_PACKED" for name in names
    }
    written, group = _written(table, compression="none", use_dictionary=False, column_encoding=encodings)
    pages = {}
    for index, name in enumerate(names):
        facts = group.column(index)
        chunk = written.slice(facts.data_page_offset, facts.total_compressed_size).to_pybytes()
        pages[name] = chunk, {_ENCODINGS[encoding] for encoding in facts.encodings}
    return pages


def _parts(array: pa.Array, kind: type[np.int32] | type[np.int64]) -> tuple[NDArray[Any], NDArray[np.uint8], int]:
    """Returns the values of an array, its validity bitmap (empty without NULL), and the bit of its first row."""
    bits, data = array.buffers()
    values: NDArray[Any] = np.frombuffer(data, kind)[array.offset : array.offset + len(array)]
    valid = np.frombuffer(bits, np.uint8) if array.null_count else _WRITER_NONE
    values.flags.writeable = False
    valid.flags.writeable = False
    return values, valid, array.offset
