"""IEEE 802.2 LLC, with SNAP (RFC 1042).

Inside IEEE 802.3, 802.11 and cooked captures.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u16
from lowwater.capture.headers.links.ether_types import IPV4, follow_ether_type
from lowwater.capture.inlining import rare

_SNAP, _IP, _UNNUMBERED = 0xAAAA, 0x0606, 0x03
_ENCAPSULATED, _BRIDGED = 0x000000, 0x0000F8


@rare
def llc(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads an LLC header; returns as `types.follow_ether_type`."""
    access, control = u16(buffer, at, end), u8(buffer, at + 2, end)
    if control == _UNNUMBERED:
        if access == _IP:
            return -1, -1, IPV4, at + 3, end
        high, low = u8(buffer, at + 3, end), u16(buffer, at + 4, end)
        organisation = high << 16 | low if low >= 0 else -1
        if access == _SNAP and (organisation in (_ENCAPSULATED, _BRIDGED)):
            return follow_ether_type(buffer, u16(buffer, at + 6, end), at + 8, end)
    return -1, -1, -1, at, end
