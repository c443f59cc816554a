"""Addresses as text, a column at a time: the published form of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.capture.inlining import kernel, part
from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import INSTANT

_LONGEST = {4: 15, 6: 39}
"""Most characters of an IPv4 and of an IPv6 address."""
_MAC = 17
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_DOT, _COLON = ord("."), ord(":")


def published(values: pa.Array, kind: Type) -> pa.Array:
    """Converts a column of a stream to its published form: addresses become texts, instants timestamps.

    Args:
        values: array of a type in `catalog.schemas.STREAM_TYPES`.

    Example:
        >>> published(pa.array([b"\\x04\\x0a\\x00\\x00\\x01", None]), Type.IP).to_pylist()
        ['10.0.0.1', None]
    """
    if kind is Type.IP:
        return _ip_texts(values)
    if kind is Type.INSTANT:
        return values.cast(INSTANT)
    return _mac_texts(values) if kind is Type.MAC else values


def _ip_texts(values: pa.Array) -> pa.Array:
    data, offsets = _bytes(values)
    lengths = np.diff(offsets)
    families = data[np.minimum(offsets[:-1], max(len(data) - 1, 0))] if len(data) else np.zeros(len(lengths), np.uint8)
    room = np.where(lengths == 0, 0, np.where(families == 4, _LONGEST[4], _LONGEST[6])).sum()
    texts, ends = np.empty(int(room), np.uint8), np.zeros(len(values) + 1, np.int32)
    _write_ips(data, offsets, texts, ends)
    return _strings(values, texts, ends)


def _mac_texts(values: pa.Array) -> pa.Array:
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    texts = np.empty(_MAC * len(values), np.uint8)
    _write_macs(numbers, texts)
    return _strings(values, texts, np.arange(0, _MAC * len(values) + 1, _MAC, dtype=np.int32))


def _bytes(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Returns the bytes of a binary column with n values, and its n + 1 offsets."""
    _, places, data = values.buffers()
    offsets = np.frombuffer(places, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), offsets


def _strings(values: pa.Array, texts: NDArray[np.uint8], ends: NDArray[np.int32]) -> pa.Array:
    """Builds a column of texts, with NULL where `values` has NULL."""
    valid = None if not values.null_count else pa.array(values.is_valid()).buffers()[1]
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]])]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


@kernel
def _write_ips(data: Any, offsets: Any, texts: Any, ends: Any) -> None:
    """Writes the texts of the addresses one after another, and where they end; an empty value has no text."""
    at = 0
    for row in range(len(offsets) - 1):
        begin = offsets[row]
        if offsets[row + 1] > begin:
            at = (
                _write_ipv4(data, begin + 1, texts, at) if data[begin] == 4 else _write_ipv6(data, begin + 1, texts, at)
            )
        ends[row + 1] = at


@part
def _write_ipv4(data: Any, begin: Any, texts: Any, at: Any) -> Any:
    for place in range(4):
        byte = data[begin + place]
        if byte >= 100:
            texts[at] = _DIGITS[byte // 100]
            at += 1
        if byte >= 10:
            texts[at] = _DIGITS[byte // 10 % 10]
            at += 1
        texts[at] = _DIGITS[byte % 10]
        texts[at + 1] = _DOT
        at += 2
    return at - 1  # without the last dot


@part
def _write_ipv6(data: Any, begin: Any, texts: Any, at: Any) -> Any:
    """Writes an IPv6 address by RFC 5952: the first of the longest runs of at least two zero groups becomes `::`."""
    longest, first = 1, -1
    run = 0
    for group in range(8):
        run = 0 if data[begin + 2 * group] or data[begin + 2 * group + 1] else run + 1
        if run > longest:
            longest, first = run, group + 1 - run
    group = 0
    while group < 8:
        if group == first:
            texts[at] = _COLON
            texts[at + 1] = _COLON
            at += 2
            group += longest
            continue
        if group and (first < 0 or group != first + longest):
            texts[at] = _COLON
            at += 1
        number = (int(data[begin + 2 * group]) << 8) | int(data[begin + 2 * group + 1])
        for shift in (12, 8, 4, 0):
            if number >> shift or shift == 0:
                texts[at] = _DIGITS[(number >> shift) & 15]
                at += 1
        group += 1
    return at


@kernel
def _write_macs(numbers: Any, texts: Any) -> None:
    at = 0
    for number in numbers:
        for shift in (40, 32, 24, 16, 8, 0):
            byte = (number >> shift) & 255
            texts[at] = _DIGITS[byte >> 4]
            texts[at + 1] = _DIGITS[byte & 15]
            if shift:
                texts[at + 2] = _COLON
            at += 3 if shift else 2
