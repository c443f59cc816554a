"""Per-packet information (PPI) of a wireless capture: fields about the reception, then a record of a named link type.

Link type 192. Only the length of the header and the link type are read.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8
from lowwater.capture.headers.links.ethernet import ethernet
from lowwater.capture.headers.links.raw import raw
from lowwater.capture.headers.links.wifi import wifi
from lowwater.capture.headers.loads import little32
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare

_HEADER = 8
_ETHERNET, _WIFI, _RAW = 1, 105, 101


@rare
def ppi(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a PPI header and the header after it; see the package."""
    if at + _HEADER > end or u8(buffer, at, end) != 0:
        return -1, -1, -1, -1, -1, at, end
    length = u8(buffer, at + 2, end) | u8(buffer, at + 3, end) << 8
    kind = little32(buffer, at + 4)
    if length < _HEADER or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    at += length
    if kind == _WIFI:
        return wifi(buffer, at, end, False)
    if kind == _ETHERNET:
        return ethernet(buffer, at, end)
    if kind == _RAW:
        return raw(buffer, at, end)
    return -1, -1, -1, -1, -1, at, end


LINK_LAYERS = (LinkLayer("ppi", {192: "PPI"}, ppi),)
