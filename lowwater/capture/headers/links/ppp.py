"""PPP (RFC 1661), with or without HDLC-like framing (RFC 1662).

Link types 9 and 50, and inside PPPoE.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u8, u16
from lowwater.capture.headers.mpls import mpls
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.inlining import rare

_ADDRESS_CONTROL = 0xFF03
_IPV4, _IPV6, _MPLS, _MPLS_MULTICAST = 0x0021, 0x0057, 0x0281, 0x0283


@rare
def ppp(buffer: Any, at: int, end: int) -> tuple[int, int]:
    """Reads the protocol field, which is one byte if compressed; returns the network and its index."""
    protocol = u8(buffer, at, end)
    if protocol >= 0 and protocol & 1:  # only the last byte of a protocol number is odd
        at += 1
    else:
        protocol = u16(buffer, at, end)
        at += 2
    if protocol == _IPV4:
        return 0x0800, at
    if protocol == _IPV6:
        return 0x86DD, at
    if protocol in (_MPLS, _MPLS_MULTICAST):
        return mpls(buffer, at, end)
    return -1, at


@rare
def ppp_link(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reads a record that begins with PPP; see the package."""
    if u16(buffer, at, end) == _ADDRESS_CONTROL:
        at += 2
    network, at = ppp(buffer, at, end)
    return -1, -1, -1, -1, network, at, end


LINK_LAYERS = (LinkLayer("ppp", {9: "PPP", 50: "PPP_SERIAL"}, ppp_link),)
