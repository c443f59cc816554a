"""GRE (RFC 2784, RFC 2890), version 1 of PPTP (RFC 2637), and ERSPAN.

IP protocol 47.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.fields import u16, u32
from lowwater.capture.headers.links.ether_types import follow_ether_type
from lowwater.capture.headers.links.ethernet import ethernet
from lowwater.capture.headers.links.ppp import ppp_link
from lowwater.capture.headers.registry import Tunnel
from lowwater.capture.inlining import rare

BRIDGED = 0x6558
"""Protocol type of an Ethernet frame (transparent Ethernet bridging)."""

_CHECKSUM, _ROUTING, _KEY, _SEQUENCE, _ACKNOWLEDGEMENT, _VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0080, 0x0007
_PPP, _ERSPAN2, _ERSPAN3 = 0x880B, 0x88BE, 0x22EB
_SESSION, _SUBHEADER = 0x03FF, 0x0001  # of ERSPAN: bits of its second and, version 3, of its last 16-bit word


@rare
def behind_type(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int]:
    """Follows the protocol type of a tunnel, including Ethernet frames; returns network, its index, and its end.

    Args:
        buffer: uint8 array that holds the frame.
        kind: protocol type of the tunnel's header; -1 if it is not captured.
        at: index behind the tunnel's header.
        end: index behind the last captured byte.
    """
    if kind == BRIDGED:
        _, _, _, _, network, at, end = ethernet(buffer, at, end)
    else:
        _, _, network, at, end = follow_ether_type(buffer, kind, at, end)
    return network, at, end


@rare
def _erspan(buffer: Any, kind: int, numbered: bool, at: int, end: int) -> tuple[int, int]:
    """Reads an ERSPAN header; returns the session (-1: none, or not captured) and the index of the frame, or `end`."""
    if kind == _ERSPAN2 and not numbered:  # type I has neither a sequence number nor a header
        return -1, at
    session = u16(buffer, at + 2, end)
    if session >= 0:
        session &= _SESSION
    if kind == _ERSPAN2:
        return session, at + 8
    last = u16(buffer, at + 10, end)
    if last < 0:
        return session, end
    return session, at + (20 if last & _SUBHEADER else 12)


@rare
def gre(buffer: Any, protocol: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a GRE header; see the package. Source routes (RFC 1701) are not followed.

    Args:
        buffer: uint8 array that holds the frame.
        protocol: the IP protocol, which is the number of the tunnel.
        at: index behind the IP header.
        end: index behind the last captured byte of the IP packet.
    """
    flags, kind = u16(buffer, at, end), u16(buffer, at + 2, end)
    version = flags & _VERSION
    at += 4
    if kind < 0 or flags & _ROUTING or version > 1:
        return protocol, -1, -1, at, end
    identity = -1
    if flags & _CHECKSUM:
        at += 4
    if flags & _KEY:  # version 1: length of the payload, call id
        identity = u16(buffer, at + 2, end) if version == 1 else u32(buffer, at, end)
        at += 4
    if flags & _SEQUENCE:
        at += 4
    if version == 1 and flags & _ACKNOWLEDGEMENT:
        at += 4
    if kind == _PPP:
        _, _, _, _, network, at, end = ppp_link(buffer, at, end)
        return protocol, identity, network, at, end
    if kind in (_ERSPAN2, _ERSPAN3):
        identity, at = _erspan(buffer, kind, flags & _SEQUENCE != 0, at, end)
        kind = BRIDGED
    network, at, end = behind_type(buffer, kind, at, end)
    return protocol, identity, network, at, end


TUNNELS = (Tunnel({47: "GRE"}, False, gre),)
