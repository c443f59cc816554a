"""Kernels that find the packets of a pcapng in a buffer.

Packet blocks become records; other blocks are counted and skipped. `search` is for damage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowwater.capture.formats.header import RECORD_HEADER
from lowwater.capture.formats.pcapng import blocks
from lowwater.capture.formats.pcapng.blocks import INTERFACE, MULTIPLY, OLD_PACKET, PACKET, SECTION, SIMPLE_PACKET
from lowwater.capture.formats.scan import (
    BLOCK,
    CAPTURED,
    DAMAGE,
    FULL,
    MORE,
    NO_FRAME,
    NO_INTERFACE,
    NO_RANGE,
    NO_TIME,
    OFFSET,
    PASSED,
    SIZE,
    STAMP,
    WIRE,
)
from lowwater.capture.formats.scan import INTERFACE as OF_INTERFACE
from lowwater.capture.headers.loads import big16, big32, little16, little32
from lowwater.capture.inlining import kernel, part, rare

STATE = 4
"""Reason why a scan stopped, beside those of `capture.formats.scan`: a section header or an interface description."""

NUMBER, KIND, FACTOR, MOST, ADDED, SNAPLEN, COLUMNS = range(7)
"""Columns of the interface table of a section: number in the file (-1 for none), then as in `blocks.Description`."""

NAMES, STATISTICS, SECRETS, JOURNAL, CUSTOM, UNKNOWN, COMMENT, BYTES, TALLIES = range(2, 11)
"""Indices in the tally of blocks that are no packets: as `blocks.COUNTED`, then the bytes of these blocks."""

FIXED, SIMPLE_FIXED = 28, 12
"""Bytes of a packet block, and of a simple one, before its frame."""

_SECOND = 1_000_000_000
_LAST_SECOND = (1 << 63) // _SECOND


@part
def word(buffer: Any, at: int, big: bool) -> int:
    """Returns the 32-bit number at buffer[at]."""
    return big32(buffer, at) if big else little32(buffer, at)


@part
def _half(buffer: Any, at: int, big: bool) -> int:
    return big16(buffer, at) if big else little16(buffer, at)


@rare
def section(buffer: Any, at: int, end: int) -> tuple[int, bool]:
    """Parses the section header at buffer[at].

    Returns:
        Its bytes (0 if it is not whole before `end`, -1 if there is none), and whether it is big endian.
    """
    if end - at < blocks.LEAST_SECTION:
        return 0, False
    big = big32(buffer, at + 8) == 0x1A2B3C4D
    if not big and little32(buffer, at + 8) != 0x1A2B3C4D:
        return -1, False
    size = word(buffer, at + 4, big)
    if size < blocks.LEAST_SECTION or size > blocks.LARGEST_BLOCK or size & 3:
        return -1, big
    if end - at < size:
        return 0, big
    return (size if word(buffer, at + size - 4, big) == size else -1), big


@rare
def _fine(high: int, low: int, divide: bool, factor: int, most: int, added: int) -> int:
    """Converts ticks that are no whole nanoseconds; as `_nanoseconds`."""
    ticks = np.uint64(high) << np.uint64(32) | np.uint64(low)
    billion, width = np.uint64(_SECOND), np.uint64(32)
    if divide:
        whole = ticks // np.uint64(factor)
    else:
        bits = np.uint64(factor)
        seconds, part = np.uint64(0), ticks
        if factor < 64:
            seconds = ticks >> bits
            part = ticks - (seconds << bits)
        if seconds > np.uint64(_LAST_SECOND):
            return NO_RANGE
        if factor < 32:
            whole = seconds * billion + (part * billion >> bits)
        else:
            # part * billion has more than 64 bits; its lowest 32 bits are below a nanosecond.
            upper = (part >> width) * billion + ((part & np.uint64(0xFFFFFFFF)) * billion >> width)
            whole = seconds * billion + (upper >> (bits - width) if factor < 96 else np.uint64(0))
    if most < 0 or whole > np.uint64(most):
        return NO_RANGE
    stamp = int(np.int64(whole)) + added
    return stamp if stamp >= 0 else NO_RANGE


@part
def _nanoseconds(high: int, low: int, table: Any, row: int) -> int:
    """Converts ticks in two words to ns, rounded down; NO_RANGE if the time is negative or 2^63 ns or more."""
    factor, most, added = table[row, FACTOR], table[row, MOST], table[row, ADDED]
    if table[row, KIND] != MULTIPLY:
        return _fine(high, low, table[row, KIND] == blocks.DIVIDE, factor, most, added)
    ticks = high << 32 | low
    if ticks < 0 or ticks > most:
        return NO_RANGE
    stamp: int = ticks * factor + added
    return stamp if stamp >= 0 else NO_RANGE


@rare
def _comments(buffer: Any, at: int, end: int, big: bool) -> int:
    """Counts the comments among the options in buffer[at:end]."""
    count = 0
    while end - at >= 4 and _half(buffer, at, big) != 0:
        count += _half(buffer, at, big) == 1
        at += 4 + (_half(buffer, at + 2, big) + 3 & ~3)
    return count


@part
def _packet(buffer: Any, at: int, size: int, old: bool, big: bool, table: Any, out: Any, count: int) -> None:
    """Writes the record of a packet block to `out`."""
    captured, number, stamp, wire = 0, 0, NO_FRAME, 0
    if size >= blocks.LEAST_PACKET:
        row = _half(buffer, at + 8, big) if old else word(buffer, at + 8, big)
        declared = row < len(table) and table[row, NUMBER] >= 0
        captured, wire = word(buffer, at + 20, big), word(buffer, at + 24, big)
        if declared:
            number = table[row, NUMBER]
        if captured > size - blocks.LEAST_PACKET:
            captured = 0
        elif declared:
            stamp = _nanoseconds(word(buffer, at + 12, big), word(buffer, at + 16, big), table, row)
        else:
            stamp = NO_INTERFACE
    out[OFFSET, count], out[STAMP, count], out[WIRE, count] = at + FIXED - RECORD_HEADER, stamp, wire
    out[CAPTURED, count], out[OF_INTERFACE, count] = captured, number


@rare
def _simple(buffer: Any, at: int, size: int, big: bool, table: Any, out: Any, count: int) -> None:
    """Writes the record of a simple packet block, which has no time and belongs to the first interface."""
    declared = len(table) > 0 and table[0, NUMBER] >= 0
    whole = size >= blocks.LEAST_SIMPLE
    wire = word(buffer, at + 8, big) if whole else 0
    captured = min(wire, size - blocks.LEAST_SIMPLE) if whole else 0
    if declared and table[0, SNAPLEN] > 0:
        captured = min(captured, table[0, SNAPLEN])
    out[OFFSET, count], out[STAMP, count] = at + SIMPLE_FIXED - RECORD_HEADER, NO_TIME if whole else NO_FRAME
    out[WIRE, count], out[CAPTURED, count] = wire, captured
    out[OF_INTERFACE, count] = table[0, NUMBER] if declared else 0


@rare
def tallied(kind: int) -> int:
    """Returns the index in the tally for a kind of block that is no packet."""
    if kind == blocks.NAMES:
        return NAMES
    if kind == blocks.STATISTICS:
        return STATISTICS
    if kind == blocks.SECRETS:
        return SECRETS
    if kind == blocks.JOURNAL:
        return JOURNAL
    return CUSTOM if kind in (blocks.CUSTOM, blocks.CUSTOM_NOT_COPIED) else UNKNOWN


@kernel
def scan(
    buffer: Any, begin: int, end: int, big: bool, table: Any, tally: Any, out: Any, count: int
) -> tuple[int, int, int]:
    """Finds whole packet blocks in buffer[begin:end].

    A total length that is no multiple of 4 is rounded up, as in Wireshark: old writers left out the padding.

    Args:
        buffer: uint8 array.
        begin: index of the first block.
        end: index behind the last valid byte.
        big: whether the section is big endian.
        table: int64 array (interfaces of the section so far, COLUMNS).
        tally: int64 array (TALLIES); blocks that are no packets are added to it.
        out: as for `capture.formats.scan.scan`; the timestamp of a malformed record is a negative reason.
        count: number of records that `out` holds already.

    Returns:
        Number of records in `out`, index of the next block, and FULL (also after PASSED bytes without a packet), MORE,
        DAMAGE (implausible or unequal lengths) or STATE.
    """
    at, passed = begin, 0
    while count < out.shape[1] and passed < PASSED:
        left = end - at
        if left < blocks.LEAST_BLOCK:
            return count, at, MORE
        kind = word(buffer, at, big)
        if kind == SECTION:
            whole, _ = section(buffer, at, end)
            return count, at, STATE if whole > 0 else MORE if whole == 0 else DAMAGE
        size = word(buffer, at + 4, big)
        padded = size + 3 & ~3
        if size < blocks.LEAST_BLOCK or size > blocks.LARGEST_BLOCK:
            return count, at, DAMAGE
        if left < padded:
            return count, at, MORE
        if word(buffer, at + padded - 4, big) != size:
            return count, at, DAMAGE
        if kind in (PACKET, OLD_PACKET):
            _packet(buffer, at, size, kind == OLD_PACKET, big, table, out, count)
            options = at + FIXED + (out[CAPTURED, count] + 3 & ~3)
            if at + size - 4 - options >= 4 and out[STAMP, count] != NO_FRAME:
                tally[COMMENT] += _comments(buffer, options, at + size - 4, big)
        elif kind == SIMPLE_PACKET:
            _simple(buffer, at, size, big, table, out, count)
        elif kind == INTERFACE and size >= blocks.LEAST_INTERFACE:
            return count, at, STATE
        else:
            tally[tallied(kind)] += 1
            tally[BYTES] += padded
            at += padded
            passed += padded
            continue
        out[BLOCK, count], out[SIZE, count] = at, padded
        count += 1
        at += padded
        passed = 0
    return count, at, FULL
