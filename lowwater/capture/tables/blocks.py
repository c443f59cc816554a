"""What the parsers of records share: typed columns of values, and blocks of whole records of a text file.

Whether a value can be read depends on the value alone, never on the values beside it. Arrow's readers do not say where
a record stands, and a damaged record must be named by its place; so blocks know where each record begins and ends, and
its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.formats.sources import Source
from lowwater.capture.tables.statistics import Told
from lowwater.catalog.protocols import protocol_number
from lowwater.catalog.records import INSTANT, ISO, PROTOCOL_NAME, SECONDS, TIMES, RecordField, RecordLayout
from lowwater.catalog.values import Type, pack_ip, words_from_ip
from lowwater.limits import DICTIONARY_BYTES, RECORD_BLOCK_BYTES, RECORD_BLOCK_RECORDS, RECORD_BYTES
from lowwater.machine_code import cached_njit

# Texts of IP addresses as the columns that are stored: version, upper and lower word. A kernel reads plain IPv4
# addresses, since most are; `catalog.values` decides about all other texts.

WORDS = pa.struct([("version", pa.int32()), ("high", pa.int64()), ("low", pa.int64())])
"""Type of a column of addresses between its texts and its stored columns."""

_VERSION = 4


def addresses(texts: pa.Array) -> tuple[pa.StructArray, NDArray[np.bool_]]:
    """Returns the addresses (WORDS), NULL where a text is none, and flags of the texts that are no addresses.

    Args:
        texts: strings; blanks around an address do not count.
    """
    low = np.full(len(texts), -1, np.int64)
    _, offsets, data = texts.buffers()
    if data is not None and len(texts):
        ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        _ipv4(np.frombuffer(data, np.uint8), ends, low)
    null = texts.is_null().to_numpy(zero_copy_only=False)
    version, high = np.full(len(texts), _VERSION, np.int32), np.zeros(len(texts), np.int64)
    others = np.flatnonzero((low < 0) & ~null)
    bad = np.zeros(len(texts), np.bool_)
    if len(others):
        encoded = texts.take(pa.array(others)).dictionary_encode()
        words = [_words(text) for text in encoded.dictionary.to_pylist()]
        columns = np.array([word or (0, 0, 0) for word in words], np.int64).reshape(-1, 3)
        chosen = columns[encoded.indices.to_numpy()]
        version[others], high[others], low[others] = chosen.T
        bad[others] = chosen[:, 0] == 0
    absent = null | bad
    columns_stored = [pa.array(version), pa.array(high), pa.array(low)]
    return pa.StructArray.from_arrays(columns_stored, fields=list(WORDS), mask=pa.array(absent)), bad


def address_columns(values: pa.StructArray) -> list[pa.Array]:
    """Returns the stored columns of addresses."""
    return list(values.flatten())


def _words(text: str) -> tuple[int, int, int] | None:
    try:
        return words_from_ip(pack_ip(text.strip()))
    except ValueError:
        return None


@cached_njit(nogil=True)
def _ipv4(data: Any, ends: Any, low: Any) -> None:
    """Sets the value of each text that is four decimal numbers to 255 without leading zeros, between three dots."""
    for index in range(len(ends) - 1):
        value, part, digits, dots, fits = 0, 0, 0, 0, True
        for at in range(ends[index], ends[index + 1]):
            byte = data[at]
            if byte == 46 and digits > 0 and dots < 3:
                value, part, digits, dots = value << 8 | part, 0, 0, dots + 1
            elif 48 <= byte <= 57 and digits < 3 and not (digits > 0 and part == 0):
                part, digits = part * 10 + (byte - 48), digits + 1
                if part > 255:
                    fits = False
                    break
            else:
                fits = False
                break
        if fits and dots == 3 and digits > 0:
            low[index] = value << 8 | part


Flags = NDArray[np.bool_]
Typed = tuple[pa.Array, Flags]
"""A column, NULL where a value cannot be read, and flags of the values that cannot be read."""


NANOSECONDS = 1_000_000_000
_LATEST = (1 << 62) // NANOSECONDS
_MOST = _LATEST * NANOSECONDS
_TRUE, _FALSE = ("true", "t", "1", "yes"), ("false", "f", "0", "no")
_SECONDS = pa.decimal128(38, 9)
_DECIMAL = r"^(?P<sign>-?)(?P<whole>[0-9]{1,18})(?:\.(?P<part>[0-9]{0,9}))?$"
_EXPONENT = r"^[0-9]{1,18}(\.[0-9]{0,18})?[eE]\+?[0-9]{1,2}$"
_NUMBER = {pa.int64(): r"^-?(0[xX])?[0-9a-fA-F]+$", pa.float64(): r"^[-+0-9.a-zA-Z]+$"}
_INSTANT = r"^[-+0-9 :.,TtZz]+$"
"""Patterns of all texts that Arrow's casts take, and of few others."""
_MILLISECONDS = r"^([0-9]{9,12})([0-9]{3})$"
"""12 digits and more: in seconds, these are times behind the year 5138."""

_ZONED = r":[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"


def typed(values: pa.Array, field: RecordField) -> Typed:
    """Returns the values of a field in its type: IP addresses are of WORDS, times of a form are integers.

    Args:
        values: texts (binary or strings), or values that the file has typed.
    """
    if pa.types.is_dictionary(values.type):
        if 0 < len(values.dictionary) < len(values) // 2:
            return _from_dictionary(values, field)
        values = values.dictionary_decode()
    if _is_text(values.type):
        texts, bad = _texts(values)
        column, others = _from_texts(texts, field)
        return column, bad | others
    return _from_values(values, field)


def _from_dictionary(values: pa.DictionaryArray, field: RecordField) -> Typed:
    """Converts each different value once. Short texts stay in their dictionary."""
    column, bad = typed(values.dictionary, field)
    indices = values.indices
    if not bad.any():
        kept = pa.types.is_string(column.type) and column.nbytes <= DICTIONARY_BYTES
        return pa.DictionaryArray.from_arrays(indices, column) if kept else column.take(indices), _no_flags(values)
    refused = bad[indices.fill_null(0).to_numpy()] & values.is_valid().to_numpy(zero_copy_only=False)
    return column.take(indices), refused


def nanoseconds(values: pa.Array, field: RecordField, unit: int) -> tuple[NDArray[np.int64], Flags]:
    """Returns the timestamps (ns) of a clock column, -1 where they are out of range, and flags of the NULLs.

    Args:
        values: integers in units of the clock, or in ns for a field with a form of time.
        unit: length of one unit of an integer, ns.
    """
    null = _no_flags(values) if values.null_count == 0 else values.is_null().to_numpy(zero_copy_only=False)
    filled = values.fill_null(0) if values.null_count else values
    numbers = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    scale = 1 if field.form in TIMES else unit
    latest = ((1 << 62) - 1) // scale
    bounds = pc.min_max(filled)
    if len(values) == 0 or 0 <= bounds["min"].as_py() <= bounds["max"].as_py() <= latest:
        return numbers * scale, null
    within = (numbers >= 0) & (numbers <= latest)
    return np.where(within, np.where(within, numbers, 0) * scale, -1), null


def stored_columns(values: pa.Array, field: RecordField) -> list[pa.Array]:
    """Returns the stored columns of a field, in the order of `catalog.records.stored_parts`."""
    if field.form in TIMES:
        return [_in_unit(values, field.unit)]
    if field.type is not Type.IP:
        return [values]
    return address_columns(values)


def _in_unit(values: pa.Array, unit: int) -> pa.Array:
    null = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values.fill_null(0).to_numpy(zero_copy_only=False) // unit, pa.int64(), mask=null)


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
    return any(test(kind) for test in tests)


def _no_flags(values: pa.Array) -> Flags:
    return np.zeros(len(values), np.bool_)


def _each(values: pa.Array, cast: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> Typed:
    """Applies a cast, to halves where it fails, down to the values that fail."""
    try:
        return cast(values), _no_flags(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(values) == 1:
            return pa.nulls(1, kind), np.ones(1, np.bool_)
    middle = len(values) // 2
    first, second = (_each(part, cast, kind) for part in (values.slice(0, middle), values.slice(middle)))
    return pa.concat_arrays([first[0], second[0]]), np.concatenate([first[1], second[1]])


def _texts(values: pa.Array) -> Typed:
    # Arrow takes the texts of a parquet file for UTF-8 without a look.
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary() if pa.types.is_large_string(values.type) else pa.binary())
    return _each(values, lambda part: part.cast(pa.string()), pa.string())


def _from_texts(texts: pa.Array, field: RecordField) -> Typed:
    if field.form == SECONDS:
        return _seconds(texts)
    if field.form == ISO:
        return _instants(texts)
    if field.form == INSTANT:
        return _times(texts)
    if field.form == PROTOCOL_NAME:
        return _protocols(texts)
    if field.type is Type.STRING:
        return texts, _no_flags(texts)
    if field.type is Type.BOOL:
        return _booleans(texts)
    if field.type is Type.IP:
        return addresses(texts)
    kind = pa.int64() if field.type is Type.INT else pa.float64()
    column, bad = _numbers(texts, kind)
    return _finite(column, bad) if field.type is Type.FLOAT else (column, bad)


def _numbers(texts: pa.Array, kind: pa.DataType) -> Typed:
    try:
        return texts.cast(kind), _no_flags(texts)
    except pa.ArrowInvalid:
        return _plausible(pc.utf8_trim_whitespace(texts), _NUMBER[kind], lambda part: part.cast(kind), kind)


def _plausible(texts: pa.Array, pattern: str, cast: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> Typed:
    """Applies a cast to texts of a pattern; others are refused at once, since to find them by halves is slow."""
    fits = pc.match_substring_regex(texts, pattern)
    implausible = pc.invert(pc.fill_null(fits, True)).to_numpy(zero_copy_only=False)
    if not implausible.any():
        return _each(texts, cast, kind)
    column, bad = _each(pc.if_else(fits, texts, pa.scalar(None, pa.string())), cast, kind)
    return column, bad | implausible


def _finite(values: pa.Array, bad: Flags) -> Typed:
    """Refuses infinite values and NaN, which no expression has as its value (SEMANTICS V2)."""
    odd = ~pc.fill_null(pc.is_finite(values), True).to_numpy(zero_copy_only=False)
    return (pc.if_else(pa.array(odd), pa.scalar(None, values.type), values), bad | odd) if odd.any() else (values, bad)


def _booleans(texts: pa.Array) -> Typed:
    lower = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    true = pc.is_in(lower, pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(lower, pa.array(_FALSE)))
    bad = pc.and_(texts.is_valid(), pc.invert(known)).to_numpy(zero_copy_only=False)
    return pc.if_else(known, true, pa.scalar(None, pa.bool_())), bad


def _without_exponent(texts: pa.Array) -> pa.Array:
    """Returns numbers such as `1.7e9`, as awk and old versions of tools write large ones, as decimals."""
    written = pc.match_substring_regex(texts, _EXPONENT)
    if not pc.any(written).as_py():
        return texts
    pairs = zip(texts.to_pylist(), written.to_pylist(), strict=True)
    plain = [f"{Decimal(text):f}" if odd else text for text, odd in pairs]
    return pa.array(plain, pa.string())


def _seconds(texts: pa.Array) -> Typed:
    texts = _without_exponent(pc.utf8_trim_whitespace(texts))
    parts = pc.extract_regex(texts, _DECIMAL)
    bad = pc.and_(texts.is_valid(), parts.is_null()).to_numpy(zero_copy_only=False)
    fields = {name: parts.field(name) for name in ("sign", "whole", "part")}
    whole = _digits(fields["whole"])
    part = _digits(pc.utf8_rpad(fields["part"], 9, "0"))
    bad |= whole >= _LATEST
    values = np.where(bad, 0, whole) * NANOSECONDS + part
    negative = pc.equal(fields["sign"], "-").fill_null(False).to_numpy(zero_copy_only=False)
    null = texts.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.where(negative, -values, values), pa.int64(), mask=bad | null), bad


def _times(texts: pa.Array) -> Typed:
    """Reads decimal seconds, whole milliseconds and ISO 8601, by the form of each text."""
    texts = _without_exponent(pc.utf8_trim_whitespace(texts))
    texts = pc.replace_substring_regex(texts, _MILLISECONDS, r"\1.\2")
    decimal = pc.match_substring_regex(texts, _DECIMAL).fill_null(False)
    none = pa.scalar(None, pa.string())
    seconds, bad = _seconds(pc.if_else(decimal, texts, none))
    instants, others = _instants(pc.if_else(decimal, none, texts))
    return pc.coalesce(seconds, instants), bad | others


def _protocols(texts: pa.Array) -> Typed:
    """Returns the numbers of IP protocols; NULL for a name without one, such as `unknown_transport`."""
    encoded = texts.dictionary_encode()
    numbers = pa.array([protocol_number(text) for text in encoded.dictionary.to_pylist()], pa.int64())
    return numbers.take(encoded.indices), _no_flags(texts)


def _digits(texts: pa.Array) -> NDArray[np.int64]:
    # An absent part is an empty text.
    filled = pc.if_else(pc.equal(pc.utf8_length(texts).fill_null(0), 0), "0", texts)
    numbers: NDArray[np.int64] = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _instants(texts: pa.Array) -> Typed:
    trimmed = pc.utf8_trim_whitespace(texts)
    zoned = pc.match_substring_regex(trimmed, _ZONED).fill_null(False)
    none = pa.scalar(None, pa.string())
    kinds = (pa.timestamp("ns", "UTC"), zoned), (pa.timestamp("ns"), pc.invert(zoned))
    columns = []
    bad = _no_flags(texts)
    for kind, chosen in kinds:
        column, failed = _plausible(pc.if_else(chosen, trimmed, none), _INSTANT, partial(_cast, kind=kind), kind)
        columns.append(column.cast(pa.int64()))
        bad |= failed
    return pc.coalesce(*columns), bad


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(kind)


def _from_values(values: pa.Array, field: RecordField) -> Typed:
    """Returns values of a typed column; all are refused where the type of the column is another one."""
    kind = values.type
    if pa.types.is_timestamp(kind) and field.type is Type.INT:
        column, bad = _each(values, lambda part: part.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64()), pa.int64())
        return (column, bad) if field.form else (_in_unit(column, field.unit), bad)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if field.form == SECONDS and number:
        return _scaled(values)
    if not field.form:
        target: Any = {Type.INT: pa.int64(), Type.FLOAT: pa.float64(), Type.BOOL: pa.bool_()}.get(field.type)
        fits = pa.types.is_boolean(kind) if field.type is Type.BOOL else number
        if target is not None and fits:
            column, bad = _each(values, lambda part: part.cast(target), target)
            return _finite(column, bad) if field.type is Type.FLOAT else (column, bad)
    nothing = pa.nulls(len(values), WORDS if field.type is Type.IP else _plain(field))
    return nothing, values.is_valid().to_numpy(zero_copy_only=False)


def _scaled(values: pa.Array) -> Typed:
    """Returns seconds as ns: exactly for integers and decimals; floats have microseconds."""
    null = values.is_null().to_numpy(zero_copy_only=False)
    if not pa.types.is_floating(values.type):
        decimals, bad = _each(values, lambda part: part.cast(_SECONDS), _SECONDS)
        lower, upper = _unscaled(decimals)
        bad |= (upper != lower >> 63) | (np.abs(np.maximum(lower, -_MOST)) >= _MOST)
        return pa.array(lower, pa.int64(), mask=null | bad), bad & ~null
    numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    bad = ~(np.abs(numbers) < _LATEST)
    scaled = np.rint(np.where(bad, 0, numbers) * 1_000_000).astype(np.int64) * 1_000
    return pa.array(scaled, pa.int64(), mask=null | bad), bad


def _unscaled(decimals: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the lower and the upper 64 bits of the integers that a column of 128-bit decimals holds."""
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    chosen = words[decimals.offset : decimals.offset + len(decimals)]
    return chosen[:, 0], chosen[:, 1]


def _plain(field: RecordField) -> pa.DataType:
    return {Type.BOOL: pa.bool_(), Type.FLOAT: pa.float64(), Type.STRING: pa.string()}.get(field.type, pa.int64())


NEWLINE, RETURN = 10, 13
MARK = b"\xef\xbb\xbf"
"""Byte order mark before the text of a file."""
Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """Consecutive records of a file, blank lines left out."""

    data: bytes
    offset: int  # offset of `data` in the decompressed file
    begins: Offsets  # begin of each record in `data`
    ends: Offsets  # end of each record in `data`, with its end of line
    lines: Offsets  # line of each record, from 1
    long: NDArray[np.bool_]  # whether the record is longer than RECORD_BYTES, so that only its first line belongs to it
    last: bool  # whether the file ends with the block

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
    """Divides lines into records. Returns begin and end of each record, and whether it is such a line.

    Args:
        lines: end of each line, without its byte.
        lasts: last line of a record that begins with each line, -1 if it has no end.
        size: bytes of the data.
        most: bytes of the longest record. Of a longer one the first line is damage, and reading goes on behind it.
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

UNREAD_VALUES = 50
"""Values of a field that cannot be read, of which it is found out what they are."""

VALUE_OF = "value of "
"""Begin of the reason of a record that is malformed by a value; the name of its field follows."""

NO_TIME, TIME_RANGE, TIME_JUMP, LONG, COLUMNS, SYNTAX, ENCODING, HEADER = (
    "no-time", "time-range", "time-jump", "length", "columns", "syntax", "encoding", "header",
)  # fmt: skip


@dataclass(frozen=True)
class Places:
    """Where the records of a piece stand."""

    offsets: NDArray[np.int64]  # offset of each record in the decompressed file; in parquet, the number of its row
    lengths: NDArray[np.int64]  # length of each record, bytes; 0 in parquet
    lines: NDArray[np.int64] | None = None  # line of each record, from 1; None in parquet

    def __len__(self) -> int:
        return len(self.offsets)


class Refusals:
    """Why records of a piece are malformed.

    Attributes:
        codes: code of the reason of each record; 0 for a whole record.
        values: field -> record with its first value that cannot be read, and the first UNREAD_VALUES of them: texts,
            values that the file has typed, or Python's values of JSON.
    """

    def __init__(self, count: int) -> None:
        self.codes = np.zeros(count, np.int16)
        self.names = [""]
        self.values: dict[str, tuple[int, pa.Array | list[Any]]] = {}

    def add(self, chosen: NDArray[np.int64], reason: str) -> None:
        """Refuses records, by index, for a reason; a record that is refused already keeps its reason."""
        if not len(chosen):
            return
        if reason not in self.names:
            self.names.append(reason)
        self.codes[chosen[self.codes[chosen] == 0]] = self.names.index(reason)


@dataclass(frozen=True)
class Piece:
    """Consecutive records of a file."""

    places: Places  # where all of the records stand
    # indices of the records with a value or NULL in every column and a time within range, ascending
    whole: NDArray[np.int64]
    stamps: NDArray[np.int64]  # timestamps of the whole records, ns
    columns: pa.RecordBatch  # the stored columns of the whole records; texts may be in dictionaries
    refusals: Refusals  # why others are malformed
    # type and number of the records of other types, which are neither whole nor malformed
    left_out: tuple[tuple[str, int], ...] = ()
    overhead: int = 0  # bytes of these records, and of lines that are no records
    # fields that no record has; None without records, and where the header of the file says it
    absent: frozenset[str] | None = None
    unknown: frozenset[str] = frozenset()  # then, columns of the records that no field reads
    told: tuple[Told, ...] = ()  # what records of other types tell of drops


def make_piece(
    layout: RecordLayout,
    places: Places,
    parsed: NDArray[np.int64],
    raw: Sequence[pa.Array],
    refusals: Refusals,
    refused: Sequence[NDArray[np.bool_]] | None = None,
    written: Sequence[Mapping[int, Any]] | None = None,
) -> Piece:
    """Types the values of parsed records, and reads their times.

    Args:
        layout: the fields, in the order of `raw`.
        parsed: indices of the parsed records, ascending.
        raw: the values of each field for the parsed records: texts, or values that the file has typed.
        refusals: why other records are malformed; gets those of the parsed records.
        refused: flags of the values of each field that the parser refuses; None for none.
        written: for each field, index of a value that the parser refuses -> the value, where `raw` does not have it.
    """
    columns: list[pa.Array] = []
    stamps = np.zeros(len(parsed), np.int64)
    timeless = np.zeros(len(parsed), np.bool_)
    for number, (field, values) in enumerate(zip(layout.fields, raw, strict=True)):
        column, bad = typed(values, field)
        bad = bad if refused is None else bad | refused[number]
        if bad.any():
            refusals.add(parsed[bad], f"{VALUE_OF}{field.name}")
            chosen = np.flatnonzero(bad)[:UNREAD_VALUES]
            examples = values.take(pa.array(chosen))
            if written is not None:
                pairs = zip(chosen.tolist(), examples.to_pylist(), strict=True)
                examples = [written[number].get(at, value) for at, value in pairs]
            refusals.values[field.name] = int(parsed[chosen[0]]), examples
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
