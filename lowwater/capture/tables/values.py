"""Typed columns of the values of records: texts, and values that a file has typed already.

The parsers call it. Whether a value can be read depends on the value alone, never on the values beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.catalog.protocols import protocol_number
from lowwater.catalog.records import INSTANT, ISO, PROTOCOL_NAME, SECONDS, TIMES, RecordField
from lowwater.catalog.values import Type, pack_ip, words_from_ip
from lowwater.limits import DICTIONARY_BYTES
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
_NUMBER = {pa.int64(): r"^-?(0[xX])?[0-9a-fA-F]+$", pa.float64(): r"^[-+0-9.a-zA-Z]+$"}
_INSTANT = r"^[-+0-9 :.,TtZz]+$"
"""Patterns of all texts that Arrow's casts take, and of few others."""
_MILLISECONDS = r"^([0-9]{9,12})([0-9]{3})$"
"""12 digits and more: in seconds, these are times behind the year 5138."""

_ZONED = r":[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)$"


def typed(values: pa.Array, field: RecordField) -> Typed:
    """Returns the values of a field in its type: IP addresses are of `addresses.WORDS`, times of a form are integers.

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
        return [_divided(values, field.unit)]
    if field.type is not Type.IP:
        return [values]
    return address_columns(values)


def _divided(values: pa.Array, unit: int) -> pa.Array:
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


def _seconds(texts: pa.Array) -> Typed:
    parts = pc.extract_regex(pc.utf8_trim_whitespace(texts), _DECIMAL)
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
    texts = pc.utf8_trim_whitespace(texts)
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
        return (column, bad) if field.form else (_divided(column, field.unit), bad)
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
