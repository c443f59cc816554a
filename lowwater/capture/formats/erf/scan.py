"""Kernels that find the records of an ERF file in a buffer.

Packets become records; padding and provenance are counted and skipped. `search` is for damage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowwater.capture.formats.erf.records import (
    CHANNEL_HDLC_TYPES,
    CHANNEL_TYPES,
    CISCO_HDLC,
    ETHERNET,
    ETHERNET_TYPES,
    EXTENSION,
    HDLC_TYPES,
    HEADER,
    INFINIBAND,
    INFINIBAND_TYPE,
    IPV4,
    IPV4_TYPE,
    IPV6,
    IPV6_TYPE,
    KINDS,
    MORE_HEADERS,
    PADDING,
    PORTS,
    PPP,
    PROVENANCE,
    WHOLE,
    YEAR_1990,
    is_known,
)
from lowwater.capture.formats.header import RECORD_HEADER
from lowwater.capture.formats.scan import (
    BLOCK,
    CAPTURED,
    CHAIN,
    DAMAGE,
    DAY,
    FOUND,
    FULL,
    INTERFACE,
    MORE,
    NOT_FOUND,
    OFFSET,
    PASSED,
    SIZE,
    STAMP,
    WIRE,
    YEAR,
)
from lowwater.capture.headers.loads import big16, byte, little32, prefetch
from lowwater.capture.inlining import kernel, part

PADDED, PROVENANCES, BYTES, TALLIES = range(4)
"""Indices in the tally of records that are no packets: their numbers by type, then their bytes."""

KEYS = PORTS * KINDS
"""Largest number of interfaces: port and kind of frame tell them apart."""

_SECOND = 1_000_000_000
_AHEAD = 1 << 10

_known = part(is_known)


@part
def _stamp(buffer: Any, at: int) -> int:
    """Returns the time of a record in ns, rounded to the nearest: seconds, and parts of 2^-32 s."""
    parts = little32(buffer, at)
    stamp: int = little32(buffer, at + 4) * _SECOND + (parts * _SECOND + (1 << 31) >> 32)
    return stamp


@part
def _port(flags: int) -> int:
    """Returns the port: two bits, and a third one of cards with more ports."""
    port: int = flags & 3 | (flags & 0x40) >> 4
    return port


@part
def _kind(buffer: Any, at: int, size: int) -> tuple[int, int]:
    """Returns the kind of frame of a record of `size` bytes and the bytes before its packet; -1 if they do not fit."""
    kind, more, before = byte(buffer, at + 8) & 0x7F, byte(buffer, at + 8), HEADER
    while more & MORE_HEADERS:
        if before + EXTENSION > size:
            return WHOLE, -1
        more = byte(buffer, at + before)
        before += EXTENSION
    frame = WHOLE
    if kind in ETHERNET_TYPES:
        if before + 2 > size:
            return WHOLE, -1
        # The first of the two bytes is an offset in the packet by its description; real files have any value there.
        frame = ETHERNET
        before += 2
    elif kind in CHANNEL_TYPES or kind in CHANNEL_HDLC_TYPES:
        before += 4
    elif kind == IPV4_TYPE:
        frame = IPV4
    elif kind == IPV6_TYPE:
        frame = IPV6
    elif kind == INFINIBAND_TYPE:
        frame = INFINIBAND
    if kind in HDLC_TYPES or kind in CHANNEL_HDLC_TYPES:
        cisco = before < size and byte(buffer, at + before) & 0x7F == 0x0F
        frame = CISCO_HDLC if cisco else PPP
    return frame, before if before <= size else -1


@kernel
def scan(
    buffer: Any, begin: int, end: int, numbers: Any, places: Any, tally: Any, out: Any, count: int
) -> tuple[int, int, int]:
    """Finds whole records in buffer[begin:end].

    Args:
        buffer: uint8 array.
        begin: index of the first record header.
        end: index behind the last valid byte.
        numbers: int64 array (KEYS + 1), number of the interface by port and kind of frame, -1 before its first packet;
            the last entry is the number of interfaces. New ones are added.
        places: int64 array (KEYS), receives the index of the first packet of each new interface.
        tally: int64 array (TALLIES); records that are no packets are added to it.
        out: int64 array of shape (scan.ROWS, capacity), filled.
        count: number of records that `out` holds already.

    Returns:
        Number of records in `out`, index of the next one, and FULL (also after PASSED bytes without a packet), MORE or
        DAMAGE (an unknown type, or lengths that do not fit).
    """
    at, passed = begin, 0
    while count < out.shape[1] and passed < PASSED:
        if end - at < HEADER:
            return count, at, MORE
        prefetch(buffer, at + _AHEAD)
        kind, size = byte(buffer, at + 8) & 0x7F, big16(buffer, at + 10)
        if not _known(kind) or size < HEADER:
            return count, at, DAMAGE
        if end - at < size:
            return count, at, MORE
        if kind in (PADDING, PROVENANCE):
            tally[PADDED if kind == PADDING else PROVENANCES] += 1
            tally[BYTES] += size
            at += size
            passed += size
            continue
        frame, before = _kind(buffer, at, size)
        if before < 0:
            return count, at, DAMAGE
        wire = big16(buffer, at + 14)
        captured = min(wire, size - before)
        if frame == WHOLE:
            wire, captured, before = wire + before, captured + before, 0
        key = _port(byte(buffer, at + 9)) * KINDS + frame
        if numbers[key] < 0:
            numbers[key], places[key] = numbers[KEYS], at
            numbers[KEYS] += 1
        out[OFFSET, count] = at + before - RECORD_HEADER
        out[STAMP, count] = _stamp(buffer, at)
        out[WIRE, count], out[CAPTURED, count] = wire, captured
        out[INTERFACE, count] = numbers[key]
        out[BLOCK, count], out[SIZE, count] = at, size
        count += 1
        at += size
        passed = 0
    return count, at, FULL


@kernel
def plausible(buffer: Any, at: int, near: int, span: int) -> tuple[int, int]:
    """Whether a record header may be at buffer[at].

    Args:
        buffer: uint8 array that holds the whole header.
        at: index of the header.
        near: seconds since the epoch near which records lie; negative if unknown.
        span: largest distance from `near`, seconds.

    Returns:
        The size of the record, or -1 if there can be none; and its seconds, those near it for padding.
    """
    kind, size = byte(buffer, at + 8) & 0x7F, big16(buffer, at + 10)
    seconds = little32(buffer, at + 4)
    if not _known(kind) or size < HEADER:
        return -1, seconds
    if kind == PADDING:
        return size, near
    close = abs(seconds - near) <= span if near >= 0 else seconds >= YEAR_1990
    return (size if close and (kind == PROVENANCE or size > HEADER) else -1), seconds


@kernel
def search(buffer: Any, begin: int, end: int, near: int, at_end: bool) -> tuple[int, int]:
    """Finds where records go on in buffer[begin:end]: CHAIN in a row, or at least one and then the end of the file.

    Args:
        buffer: uint8 array.
        begin: first index to try.
        end: index behind the last valid byte.
        near: seconds since the epoch; records lie within a year of it, and within a day of each other. Negative if
            unknown.
        at_end: whether the file ends at `end`.

    Returns:
        As `formats.scan.search`.
    """
    for start in range(begin, end - HEADER + 1):
        at, whole, last, span = start, 0, near, YEAR
        # Padding has no time, so that of zeros no chain can begin.
        if byte(buffer, start + 8) & 0x7F == PADDING:
            continue
        while whole < CHAIN and end - at >= HEADER:
            size, last = plausible(buffer, at, last, span)
            if size < 0:
                whole = -1
                break
            if end - at < size:
                break
            at, whole, span = at + size, whole + 1, DAY
        if whole == CHAIN or (at_end and whole > 0):
            return start, FOUND
        if whole >= 0 and not at_end:
            return start, MORE
    return (end, NOT_FOUND) if at_end else (max(begin, end - HEADER + 1), MORE)


def no_interfaces() -> Any:
    """Returns the table of interfaces of `scan` before the first packet."""
    numbers = np.full(KEYS + 1, -1)
    numbers[KEYS] = 0
    return numbers
