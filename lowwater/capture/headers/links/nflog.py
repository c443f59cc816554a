"""Packets that Linux's netfilter logs: attributes, one of which is the packet.

Link type 239. Lengths and types are in the byte order of the capturing machine, which the type of each attribute shows.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare

_IPV4, _IPV6 = 2, 10  # address families of Linux
_PAYLOAD = 9
_NUMBER = 0x3F  # the upper bits of a type are flags
_HEADER = 4


@rare
def _attribute(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads length and type of an attribute; -1 each if they are not captured or not possible."""
    first, second, low, high = u8(buffer, at, end), u8(buffer, at + 1, end), u8(buffer, at + 2, end), -1
    if low >= 0:
        high = u8(buffer, at + 3, end)
    if high < 0:
        return -1, -1
    # All types are from 1 to 255, so one of the two bytes is zero but for flags, and the other one is not.
    if low > 0 and high & _NUMBER == 0:
        length, kind = second << 8 | first, low
    elif high > 0 and low & _NUMBER == 0:
        length, kind = first << 8 | second, high
    else:
        return -1, -1
    return (length, kind) if length >= _HEADER else (-1, -1)


@rare
def nflog(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads the attributes up to the packet; see the package."""
    family, network = u8(buffer, at, end), -1
    if family == _IPV4:
        network = 0x0800
    elif family == _IPV6:
        network = 0x86DD
    at += _HEADER
    length, kind = _attribute(buffer, at, end)
    while length > 0 and kind != _PAYLOAD:
        at += length + 3 & ~3
        length, kind = _attribute(buffer, at, end)
    if length < 0:
        return -1, -1, -1, -1, -1, at, end
    return -1, -1, -1, -1, network, at + _HEADER, min(end, at + length)


LINK_LAYERS = (LinkLayer("nflog", {239: "NFLOG"}, nflog),)
