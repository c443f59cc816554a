"""Finding the records of a classic pcap in a buffer, and where they go on after damage.

First kernels of the reader: offsets, timestamps and lengths of whole records; `headers.packet` then reads the headers.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.formats.header import RECORD_HEADER
from lowwater.capture.headers.loads import big32, little32, prefetch
from lowwater.capture.inlining import kernel

FULL, MORE, DAMAGE = 0, 1, 2
"""Why a scan stopped: the output is full, more bytes are needed, what follows is no record."""

OFFSET, STAMP, WIRE, CAPTURED, INTERFACE, BLOCK, SIZE = range(7)
"""Rows of a scan's output: RECORD_HEADER bytes before the frame in the buffer, timestamp (ns), lengths (bytes). Only
where the format has them (else 0): number of the interface, where the block begins in the buffer, and its bytes."""

ROWS = 7

NO_RANGE, NO_TIME, NO_INTERFACE, NO_FRAME = -1, -2, -3, -4
"""Timestamps of records that are malformed by themselves: beyond any range, none, of an undeclared interface, of a
captured length that their block does not hold."""

AS_NAMED, SWAPPED, LARGER_LAST = range(3)
"""Order of the two lengths in a record header: captured first; last; or last where the first is the larger one."""

PASSED = 1 << 20
"""Bytes without records behind a record after which a scan stops as if the output were full."""

CHAIN = 4
"""Records or blocks in a row that are believed after damage."""

_AHEAD = 1 << 10  # bytes; some ten records of which the headers were kept

NOT_FOUND, FOUND = 0, 3
"""What a search ended with, besides MORE."""

DAY, YEAR = 86_400, 366 * 86_400
"""Seconds; what is believed after damage lies within a year of what precedes it, and each record within a day."""


@kernel
def scan(
    buffer: Any,
    begin: int,
    end: int,
    big: bool,
    scale: int,
    limit: int,
    header: int,
    lengths: int,
    out: Any,
    count: int,
) -> tuple[int, int, int]:
    """Finds whole records in buffer[begin:end].

    Args:
        buffer: uint8 array.
        begin: where the first record header is.
        end: where the valid bytes end.
        big: whether the capture is big endian.
        scale: nanoseconds per unit of the sub-second field.
        limit: largest believed captured length.
        header: bytes of a record header.
        lengths: AS_NAMED, SWAPPED or LARGER_LAST.
        out: int64 array of shape (ROWS, capacity), filled.
        count: number of records that it holds already.

    A sub-second field beyond a second (real captures have them) counts as it stands: the seconds carry over.

    Returns:
        Number of records in `out`, where the next one begins, and FULL, MORE or DAMAGE: an absurd captured length.
    """
    at = begin
    while count < out.shape[1]:
        if end - at < header:
            return count, at, MORE
        # Where the next header is is known only when this one is loaded, so the processor cannot look ahead by itself.
        prefetch(buffer, at + _AHEAD)
        if big:
            seconds, part = big32(buffer, at), big32(buffer, at + 4)
            captured, wire = big32(buffer, at + 8), big32(buffer, at + 12)
        else:
            seconds, part = little32(buffer, at), little32(buffer, at + 4)
            captured, wire = little32(buffer, at + 8), little32(buffer, at + 12)
        if lengths != AS_NAMED and (lengths == SWAPPED or captured > wire):
            captured, wire = wire, captured
        if captured > limit:
            return count, at, DAMAGE
        if end - at - header < captured:
            return count, at, MORE
        out[OFFSET, count] = at + header - RECORD_HEADER
        out[STAMP, count] = seconds * 1_000_000_000 + part * scale
        out[WIRE, count] = wire
        out[CAPTURED, count] = captured
        count += 1
        at += header + captured
    return count, at, FULL


@kernel
def plausible(
    buffer: Any, at: int, big: bool, scale: int, limit: int, lengths: int, near: int, span: int
) -> tuple[int, int]:
    """Whether a record header may be at buffer[at].

    Args:
        buffer: holds it whole.
        at: where.
        big: as `scan`, as the next three.
        scale: as above.
        limit: as above.
        lengths: as above.
        near: seconds since the epoch that the record's are compared with; negative for none.
        span: how far from them they may be.

    Returns:
        The captured length, or -1 where none may be; and the seconds.
    """
    if big:
        seconds, part = big32(buffer, at), big32(buffer, at + 4)
        captured, wire = big32(buffer, at + 8), big32(buffer, at + 12)
    else:
        seconds, part = little32(buffer, at), little32(buffer, at + 4)
        captured, wire = little32(buffer, at + 8), little32(buffer, at + 12)
    if lengths == SWAPPED or (lengths == LARGER_LAST and captured > wire):
        captured, wire = wire, captured
    known = near < 0 or abs(seconds - near) <= span
    good = known and 0 < wire <= limit and captured <= wire and part * scale < 1_000_000_000
    return (captured if good else -1), seconds


@kernel
def search(
    buffer: Any, begin: int, end: int, big: bool, scale: int, limit: int, header: int, lengths: int, near: int,
    at_end: bool,
) -> tuple[int, int]:  # fmt: skip
    """Where in buffer[begin:end] records go on: CHAIN of them in a row, or at least one and then the end of the file.

    Args:
        buffer: as `scan`, as the next seven.
        begin: first place to try.
        end: as above.
        big: as above.
        scale: as above.
        limit: as above.
        header: as above.
        lengths: as above.
        near: seconds since the epoch around which the records are, to a year; negative where that is not known. One
            follows another within a day.
        at_end: whether the file ends at `end`.

    Returns:
        Where, and FOUND, MORE (from there on more bytes are needed) or NOT_FOUND (up to the end of the file).
    """
    for start in range(begin, end - header + 1):
        at, whole, last, span = start, 0, near, YEAR
        while whole < CHAIN and end - at >= header:
            captured, last = plausible(buffer, at, big, scale, limit, lengths, last, span)
            if captured < 0:
                whole = -1
                break
            if end - at - header < captured:
                break
            at, whole, span = at + header + captured, whole + 1, DAY
        if whole == CHAIN or (at_end and whole > 0):
            return start, FOUND
        if whole >= 0 and not at_end:
            return start, MORE
    return (end, NOT_FOUND) if at_end else (max(begin, end - header + 1), MORE)
