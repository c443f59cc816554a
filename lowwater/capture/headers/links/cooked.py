"""Linux cooked captures, both versions.

Link types 113 and 276, as libpcap writes them for the device `any`.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u16, u48
from lowwater.capture.headers.links.ether_types import FIRST_TYPE, follow_ether_type
from lowwater.capture.headers.links.llc import llc
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import part, rare

_MAC_BYTES = 6
_LLC = 0x0004


@rare
def _protocol(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Follows a cooked header's protocol; returns as `types.follow_ether_type`."""
    if kind >= FIRST_TYPE:
        return follow_ether_type(buffer, kind, at, end)
    if kind == _LLC:
        return llc(buffer, at, end)
    return -1, -1, -1, at, end


@part
def cooked(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Linux cooked header; see the package."""
    source = u48(buffer, at + 6, end) if u16(buffer, at + 4, end) == _MAC_BYTES else -1
    kind, vlan, network, at, end = _protocol(buffer, u16(buffer, at + 14, end), at + 16, end)
    return -1, source, kind, vlan, network, at, end


@part
def cooked2(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a Linux cooked header of version 2; see the package."""
    source = u48(buffer, at + 12, end) if u8(buffer, at + 11, end) == _MAC_BYTES else -1
    kind, vlan, network, at, end = _protocol(buffer, u16(buffer, at, end), at + 20, end)
    return -1, source, kind, vlan, network, at, end


LINK_LAYERS = (
    LinkLayer("cooked", {113: "LINUX_SLL"}, cooked),
    LinkLayer("cooked2", {276: "LINUX_SLL2"}, cooked2),
)
