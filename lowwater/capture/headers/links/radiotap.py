"""The radiotap header of a captured 802.11 frame: only its length and its padding flag are read.

Link type 127.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8
from lowwater.capture.headers.links.wifi import wifi
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import part

_SMALLEST = 8
_TIME, _FLAGS, _MORE = 0x01, 0x02, 0x80  # bits of the first, and of the last byte of a word of presence
_PADDED = 0x20  # bit of the flags


@part
def _flags(buffer: Any, at: int, end: int) -> int:
    """Reads the flags of a radiotap header in [at, end); 0 if it has none."""
    present = u8(buffer, at + 4, end)
    if present < 0 or not present & _FLAGS:
        return 0
    field = at + 8
    while u8(buffer, field - 1, end) >= _MORE:  # u8 is -1 beyond the end
        field += 4
    if present & _TIME:  # 8 bytes, aligned to 8 from the start of the header
        field += -(field - at) % 8 + 8
    return max(u8(buffer, field, end), 0)


@part
def radiotap(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a radiotap header and the 802.11 header after it; see the package."""
    low, high = u8(buffer, at + 2, end), u8(buffer, at + 3, end)
    length = low | high << 8
    if u8(buffer, at, end) != 0 or high < 0 or length < _SMALLEST or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    padded = _flags(buffer, at, at + length) & _PADDED != 0
    return wifi(buffer, at + length, end, padded)


LINK_LAYERS = (LinkLayer("radiotap", {127: "RADIOTAP"}, radiotap),)
