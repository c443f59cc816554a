"""MPLS label stacks (RFC 3032).

Behind ether types and PPP protocol numbers.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u32
from lowwater.capture.inlining import rare

_BOTTOM = 0x100
_NETWORKS = (-1, -1, -1, -1, 0x0800, -1, 0x86DD)


@rare
def mpls(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Skips a label stack; returns the network (-1: neither IPv4 nor IPv6) and its index.

    Labels do not state the protocol after them. As routers do, this takes the next four bits for an IP version.
    """
    label = 0
    while label >= 0 and not label & _BOTTOM:
        label = u32(buffer, at, end)
        at += 4
    version = u8(buffer, at, end) >> 4
    return _NETWORKS[version] if 0 <= version <= 6 else -1, at
