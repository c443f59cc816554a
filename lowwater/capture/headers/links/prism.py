"""Headers about the reception of an 802.11 frame, older than radiotap: Prism and AVS. Only their length is read.

Link types 119 and 163. Drivers write AVS headers under the number of Prism, too, and some write none. Prism's numbers
are in the byte order of the capturing machine.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u32
from lowwater.capture.headers.links.wifi import wifi
from lowwater.capture.headers.loads import little32
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare

_CODES = (0x44, 0x41)  # "sniff frame" of the Prism II and of the wlan-ng driver
_LEAST, _LEAST_AVS = 24, 8
_AVS, _VERSION = 0x8021_1000, 0xFFF


@rare
def avs(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads an AVS header and the 802.11 header after it; see the package."""
    length = u32(buffer, at + 4, end)
    if u32(buffer, at, end) & ~_VERSION != _AVS or length < _LEAST_AVS or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    return wifi(buffer, at + length, end, False)


@rare
def prism(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Prism header and the 802.11 header after it; see the package."""
    if at + 8 > end:
        return -1, -1, -1, -1, -1, at, end
    code, length = u32(buffer, at, end), u32(buffer, at + 4, end)
    if code & ~_VERSION == _AVS:
        return avs(buffer, at, end)
    if code not in _CODES:
        code, length = little32(buffer, at), little32(buffer, at + 4)
    if code not in _CODES:
        return wifi(buffer, at, end, False)
    if length < _LEAST or length > end - at:
        return -1, -1, -1, -1, -1, at, end
    return wifi(buffer, at + length, end, False)


LINK_LAYERS = (
    LinkLayer("prism", {119: "IEEE802_11_PRISM"}, prism),
    LinkLayer("avs", {163: "IEEE802_11_AVS"}, avs),
)
