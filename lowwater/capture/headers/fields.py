"""Fields of a header that is perhaps cut: read with their bounds checked.

Between `loads` and the decoding kernels. A captured field is never negative, so -1 says "not captured". Positions only
grow from the record's first byte on, so the end is the only bound.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.loads import big16, big32, byte
from lowwater.capture.inlining import part


@part
def u8(buffer: Any, at: int, end: int) -> int:
    """The byte at `at`; -1 where it is not before `end`."""
    return byte(buffer, at) if at < end else -1


@part
def u16(buffer: Any, at: int, end: int) -> int:
    """Two bytes, big endian; -1 where they do not end before `end`."""
    return big16(buffer, at) if at + 2 <= end else -1


@part
def u32(buffer: Any, at: int, end: int) -> int:
    """Four bytes, big endian; -1 where they do not end before `end`."""
    return big32(buffer, at) if at + 4 <= end else -1


@part
def u48(buffer: Any, at: int, end: int) -> int:
    """Six bytes, big endian; -1 where they do not end before `end`."""
    return (big16(buffer, at) << 32) | big32(buffer, at + 2) if at + 6 <= end else -1
