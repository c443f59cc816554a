"""IP over InfiniBand (RFC 4391, section 6), behind a pseudo-header with the addresses.

Link type 242. The addresses have 16 and 20 bytes, so they are no MAC addresses.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u16
from lowwater.capture.headers.links.ether_types import FIRST_TYPE, follow_ether_type
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare

_ADDRESSES = 40  # bytes of the global routing header, or of zeros and the destination


@rare
def infiniband(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads the pseudo-header, the type, and two reserved bytes; see the package."""
    kind, vlan, network = u16(buffer, at + _ADDRESSES, end), -1, -1
    at += _ADDRESSES + 4
    if kind >= FIRST_TYPE:
        kind, vlan, network, at, end = follow_ether_type(buffer, kind, at, end)
    else:
        kind = -1
    return -1, -1, kind, vlan, network, at, end


LINK_LAYERS = (LinkLayer("infiniband", {242: "IPOIB"}, infiniband),)
