"""Pages of 32-bit and 64-bit numbers: levels, DELTA_BINARY_PACKED, and indices of a dictionary.

Kernels below `writer`, after the Parquet format's Encodings.md. They check no bounds: `room` says what a page may take.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import njit

from lowwater.capture.headers.loads import put_little32, put_little64

MOST_ENTRIES = 1 << 14
"""Entries of a dictionary; a column with more is written as differences from there on."""

SLOTS = 4 * MOST_ENTRIES
"""Of the hash table of a dictionary."""

_SHIFT = 64 - (SLOTS.bit_length() - 1)
_MULTIPLIER = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed number (Fibonacci hashing)
_MOST_PROBES = 64  # packets chosen so that their values collide must not cost more than this
_BLOCK, _MINI = 128, 32
_LARGEST = np.iinfo(np.int64).max


def room(rows: int) -> int:
    """The most bytes of a page of so many rows, with what the kernels write beyond its end."""
    return 10 * rows + 2048


@njit(nogil=True, cache=True)
def _varint(value: int, out: Any, at: int) -> int:
    while value < 0 or value >= 0x80:  # a negative one is a number of 64 bits without sign
        out[at] = (value & 0x7F) | 0x80
        value = (value >> 7) & 0x01FF_FFFF_FFFF_FFFF
        at += 1
    out[at] = value
    return at + 1


@njit(nogil=True, cache=True)
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
    """Packs `step` values at a time, which take 56 bits at most."""

    @njit(nogil=True)
    def pack(values: Any, begin: int, count: int, width: int, out: Any, at: int) -> int:
        word, filled = 0, 0
        for index in range(begin, begin + count, step):
            for each in range(step):
                word |= values[index + each] << (filled + each * width)
            put_little64(out, at, word)
            filled += step * width
            at += filled >> 3
            word >>= filled & 0x38
            filled &= 7
        return at

    return cast("Callable[[Any, int, int, int, Any, int], int]", pack)


_by_eight, _by_four, _by_two, _by_one = map(_packer, (8, 4, 2, 1))


@njit(nogil=True, cache=True)
def _pack(values: Any, begin: int, count: int, width: int, out: Any, at: int) -> int:
    """Packs values of `width` bits, the least bit first; where the next byte goes. `count` is a multiple of 8."""
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


@njit(nogil=True, cache=True)
def _levels(valid: Any, offset: int, rows: int, present: int, out: Any, at: int) -> int:
    """Definition levels with their length: one run of equal ones, or the validity bitmap as one packed run."""
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


@njit(nogil=True, cache=True)
def _present(values: Any, valid: Any, offset: int, rows: int, found: Any) -> int:
    """The values that are not NULL, and how many."""
    if len(valid) == 0:
        for row in range(rows):
            found[row] = values[row]
        return rows
    count = 0
    row = 0
    while row < rows:
        at = offset + row
        if at & 7 == 0 and rows - row >= 8:
            byte = valid[at >> 3]
            if byte == 0xFF:
                for each in range(8):
                    found[count + each] = values[row + each]
                count += 8
            elif byte:
                for each in range(8):
                    found[count] = values[row + each]
                    count += (byte >> each) & 1
            row += 8
        else:
            found[count] = values[row]
            count += (valid[at >> 3] >> (at & 7)) & 1
            row += 1
    return count


@njit(nogil=True, cache=True)
def _delta(found: Any, count: int, narrow: bool, out: Any, at: int) -> int:
    """Writes values as DELTA_BINARY_PACKED; where the page ends. Differences of 32-bit values wrap at 32 bits."""
    block = np.empty(_BLOCK, np.int64)
    at = _varint(_BLOCK, out, at)
    at = _varint(_BLOCK // _MINI, out, at)
    at = _varint(count, out, at)
    first = found[0] if count else 0
    at = _varint((first << 1) ^ (first >> 63), out, at)
    for begin in range(1, count, _BLOCK):
        size = min(_BLOCK, count - begin)
        least = _LARGEST
        for index in range(size):
            step = found[begin + index] - found[begin + index - 1]
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


@njit(nogil=True, cache=True)
def _place(value: int, slot: int, slots: Any, entries: Any, size: int) -> tuple[int, int]:
    """The number of a value that is not the first of its slot, -1 where it finds no room; and the entries then."""
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


@njit(nogil=True, cache=True)
def _look_up(found: Any, count: int, slots: Any, entries: Any, size: int, numbers: Any) -> tuple[int, bool]:
    """Turns values into their numbers in a dictionary, which grows; its entries then, and whether it has all values."""
    for index in range(count):
        value = found[index]
        slot = ((value * _MULTIPLIER) >> _SHIFT) & (SLOTS - 1)
        number = slots[slot] - 1
        if number < 0 or entries[number] != value:
            number, size = _place(value, slot, slots, entries, size)
            if number < 0:
                return size, False
        numbers[index] = number
    return size, True


@njit(nogil=True, cache=True)
def _alike(values: Any, count: int) -> bool:
    for begin in range(0, count, _BLOCK):
        others = 0
        for index in range(begin, min(begin + _BLOCK, count)):
            others |= values[index] ^ values[0]
        if others:
            return False
    return True


@njit(nogil=True, cache=True)
def _numbers(numbers: Any, count: int, size: int, out: Any, at: int) -> int:
    """Writes numbers in a dictionary of `size` entries as RLE_DICTIONARY; where the page ends.

    All are packed as one run, or are one run of equal ones: shorter runs are not looked for.
    """
    width = max(1, _width(size - 1))
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


@njit(nogil=True, cache=True)
def page(
    values: Any, valid: Any, offset: int, nullable: bool, narrow: bool, slots: Any, entries: Any, size: int,
    found: Any, numbers: Any, out: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Writes a page: as numbers of the dictionary if it has one and all values fit in, else as differences.

    Args:
        values: int32 or int64 array.
        valid: uint8 array, the validity bitmap; empty where none is NULL.
        offset: the offset of the first row in `valid`, bits.
        nullable: whether the column has levels.
        narrow: whether the column is of 32 bits.
        slots: int16 array (SLOTS), the hash table of the dictionary: number + 1, or 0; empty without one. Filled.
        entries: int64 array (MOST_ENTRIES), the dictionary. Filled.
        size: entries that it has.
        found: int64 array with room for a block more than `values`, to work in; `numbers` another one.
        numbers: as above.
        out: uint8 array (room(len(values))), filled.

    Returns:
        Bytes in `out`; how many values are not NULL; entries of the dictionary then, -1 if the page has differences.
    """
    rows = len(values)
    count = _present(values, valid, offset, rows, found)
    at = _levels(valid, offset, rows, count, out, 0) if nullable else 0
    if len(slots):
        once = count > 0 and _alike(found, count)
        size, fits = _look_up(found, 1 if once else count, slots, entries, size, numbers)
        if fits:
            if once:
                numbers[1:count] = numbers[0]
            return _numbers(numbers, count, size, out, at), count, size
    return _delta(found, count, narrow, out, at), count, -1
