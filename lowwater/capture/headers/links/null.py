"""BSD loopback: the address family of a packet, in the byte order of the capturing machine or of the network.

Link types 0 (NULL) and 108 (LOOP). The file does not state the byte order. Families are small numbers, which shows it.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u32
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare

_SWAPPED = 0x0001_0000  # a family in the other byte order is at least this, in its own at most 0xFFFF
_IPV4 = 2
_IPV6 = (10, 23, 24, 28, 30)  # Linux, Windows, NetBSD and OpenBSD, FreeBSD, Darwin


@rare
def null(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a loopback header; see the package."""
    family = u32(buffer, at, end)
    if family >= _SWAPPED:
        family = (family & 0xFF) << 24 | (family & 0xFF00) << 8 | (family >> 8) & 0xFF00 | family >> 24
    network = -1
    if family == _IPV4:
        network = 0x0800
    elif family in _IPV6:
        network = 0x86DD
    return -1, -1, -1, -1, network, at + 4, end


LINK_LAYERS = (LinkLayer("null", {0: "NULL", 108: "LOOP"}, null),)
