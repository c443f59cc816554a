"""Reads header fields with a check against the end of the captured bytes.

The decoding kernels use it. A captured field is never negative, so -1 means "not captured". Positions only grow from
the first byte of the record, so the end is the only bound.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.loads import big16, big32, byte
from lowwater.capture.inlining import part


@part
def u8(buffer: Any, at: int, end: int) -> int:
    """Reads a byte; -1 if it is not before `end`."""
    return byte(buffer, at) if at < end else -1


@part
def u16(buffer: Any, at: int, end: int) -> int:
    """Reads two bytes, big endian; -1 if they extend beyond `end`."""
    return big16(buffer, at) if at + 2 <= end else -1


@part
def u32(buffer: Any, at: int, end: int) -> int:
    """Reads four bytes, big endian; -1 if they extend beyond `end`."""
    return big32(buffer, at) if at + 4 <= end else -1


@part
def u48(buffer: Any, at: int, end: int) -> int:
    """Reads six bytes, big endian; -1 if they extend beyond `end`."""
    return (big16(buffer, at) << 32) | big32(buffer, at + 2) if at + 6 <= end else -1
