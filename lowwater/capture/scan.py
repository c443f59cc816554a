"""Finding the records of a classic pcap in a buffer.

First kernel of the reader: offsets, timestamps and lengths of whole records; `decode` then reads the headers.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from lowwater.capture.header import RECORD_HEADER
from lowwater.capture.loads import big32, little32

FULL, MORE, LENGTH = 0, 1, 2
"""Why a scan stopped: the output is full, more bytes are needed, the next record's length is absurd."""

OFFSET, STAMP, WIRE, CAPTURED, INTERFACE, BLOCK = range(6)
"""Rows of a scan's output: RECORD_HEADER bytes before the frame in the buffer, timestamp (ns), lengths (bytes). Only
where the format has them (else 0): number of the interface, and where the block begins in the buffer."""

ROWS = 6


@njit(nogil=True, cache=True)
def scan(
    buffer: Any, begin: int, end: int, big: bool, scale: int, limit: int, out: Any, count: int
) -> tuple[int, int, int]:
    """Finds whole records in buffer[begin:end].

    Args:
        buffer: uint8 array.
        begin: where the first record header is.
        end: where the valid bytes end.
        big: whether the capture is big endian.
        scale: nanoseconds per unit of the sub-second field.
        limit: largest believed captured length.
        out: int64 array of shape (ROWS, capacity), filled.
        count: number of records that it holds already.

    A sub-second field beyond a second (real captures have them) counts as it stands: the seconds carry over.

    Returns:
        Number of records in `out`, where the next one begins, and FULL, MORE or LENGTH.
    """
    at = begin
    while count < out.shape[1]:
        if end - at < RECORD_HEADER:
            return count, at, MORE
        if big:
            seconds, part = big32(buffer, at), big32(buffer, at + 4)
            captured, wire = big32(buffer, at + 8), big32(buffer, at + 12)
        else:
            seconds, part = little32(buffer, at), little32(buffer, at + 4)
            captured, wire = little32(buffer, at + 8), little32(buffer, at + 12)
        if captured > limit:
            return count, at, LENGTH
        if end - at - RECORD_HEADER < captured:
            return count, at, MORE
        out[OFFSET, count] = at
        out[STAMP, count] = seconds * 1_000_000_000 + part * scale
        out[WIRE, count] = wire
        out[CAPTURED, count] = captured
        count += 1
        at += RECORD_HEADER + captured
    return count, at, FULL
