"""Encodings of a page of 32-bit or 64-bit numbers: levels, DELTA_BINARY_PACKED, and dictionary indices.

Kernels below `writer`, after Encodings.md of the Parquet format. They check no bounds: callers allocate `room`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import njit

from lowwater.capture.headers.fields import put_little32, put_little64
from lowwater.machine_code import cached_njit

MOST_ENTRIES = 1 << 14
"""Most entries of a dictionary; a column with more values continues as differences."""

SLOTS = 4 * MOST_ENTRIES
"""Slots of the hash table of a dictionary."""

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
    """Writes a page: as dictionary numbers if all values fit into the dictionary, else as differences.

    Args:
        values: int32 or int64 array.
        valid: uint8 array, the validity bitmap; empty if no value is NULL.
        offset: offset of the first row in `valid`, bits.
        nullable: whether the column has levels.
        narrow: whether the column has 32 bits.
        slots: int16 array (SLOTS), hash table of the dictionary: number + 1, or 0; empty without a dictionary. Filled.
        entries: int64 array (MOST_ENTRIES), the dictionary. Filled.
        size: number of entries in the dictionary.
        present: int64 work array with room for a block more than `values`.
        numbers: int64 work array of the same size.
        out: uint8 array (room(len(values))), filled.

    Returns:
        Bytes in `out`; number of values that are not NULL; entries of the dictionary, or -1 for a page of differences.
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
