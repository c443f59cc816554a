"""Tunnels: a reader for each protocol, their registry `ALL`, and the conditions that identify a tunnel.

The third kernel of the reader uses them. A tunnel follows an IP header whose protocol has an entry here (unless it is a
later fragment), or a UDP header whose destination port has one. The first bytes must fit the protocol of this port. A
reader gets the number of its entry, and reads only the bytes [at, end) after the outer header. It
returns the tunnel (-1: the bytes are no tunnel), its id (-1: none, or not captured), the network of the inner packet
(0x0800 IPv4, 0x86DD IPv6, others are not read), the index of the inner packet, and its end.

| `tunnel` | reader | condition | `tunnel_id` | carries |
| --- | --- | --- | --- | --- |
| 4, 41 | `ip` | always | none | IPv4, IPv6 |
| 47 | `gre` | always | key; of version 1 the call id, of ERSPAN the session | by its protocol type |
| 2152 | `gtp` | GTP-U: version 1, message 255 (G-PDU) | TEID | IPv4 or IPv6, by its first four bits |
| 4789, 8472 | `vxlan` | the I flag is set | VNI | Ethernet |
| 6081 | `geneve` | version 0 | VNI | by its protocol type |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.capture.headers.fields import u8, u16, u32
from lowwater.capture.headers.links import IPV4, IPV6, by_number, ethernet, follow_ether_type, ppp_link, raw
from lowwater.capture.inlining import rare

TunnelReader = Callable[[Any, int, int, int], tuple[int, int, int, int, int]]


@dataclass(frozen=True, eq=False)
class Tunnel:
    """A tunnel header after an IP or UDP header.

    Attributes:
        names: displayed names by number of the tunnel.
        over_udp: whether the numbers are UDP destination ports rather than IP protocols.
        read: the compiled reader, as described in the module.
    """

    names: Mapping[int, str]
    over_udp: bool
    read: TunnelReader


# GRE (RFC 2784, RFC 2890), version 1 of PPTP (RFC 2637), and ERSPAN. IP protocol 47.

BRIDGED = 0x6558
"""Protocol type of an Ethernet frame (transparent Ethernet bridging)."""

_CHECKSUM, _ROUTING, _KEY, _SEQUENCE, _ACKNOWLEDGEMENT, _VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0080, 0x0007
_PPP, _ERSPAN2, _ERSPAN3 = 0x880B, 0x88BE, 0x22EB
_SESSION, _SUBHEADER = 0x03FF, 0x0001  # of ERSPAN: bits of its second and, version 3, of its last 16-bit word


@rare
def behind_type(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int]:
    """Follows the protocol type of a tunnel, including Ethernet frames; returns network, its index, and its end.

    Args:
        kind: protocol type of the tunnel's header; -1 if it is not captured.
        at: index behind the tunnel's header.
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
    """Reads a GRE header; see the module. Source routes (RFC 1701) are not followed."""
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


# GTP-U (3GPP TS 29.281). UDP port 2152.

_VERSION_TYPE, _USER_PLANE = 0xF0, 0x30  # version 1, protocol type GTP; the fifth bit is spare
_PACKET = 255
_OPTIONAL, _EXTENDED = 0x07, 0x04  # any of the three flags brings all of the optional fields


@rare
def gtp(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a GTP-U header with its extension headers; see the module. Arguments as of `vxlan`."""
    flags, message, identity = u8(buffer, at, end), u8(buffer, at + 1, end), u32(buffer, at + 4, end)
    if message != _PACKET or flags & _VERSION_TYPE != _USER_PLANE:
        return -1, -1, -1, at, end
    at += 8
    if flags & _OPTIONAL:
        following = u8(buffer, at + 3, end)
        at += 4
        if not flags & _EXTENDED:
            following = 0
        while following > 0:
            length = 4 * u8(buffer, at, end)
            if length <= 0:  # without a valid length the next header cannot be found
                return port, identity, -1, at, end
            at += length
            following = u8(buffer, at - 1, end)
        if following < 0:
            return port, identity, -1, at, end
    _, _, _, _, network, at, end = raw(buffer, at, end)
    return port, identity, network, at, end


# IP in IP (RFC 2003), and IPv6 in either version (RFC 2473, RFC 4213). IP protocols 4 and 41.

_IN_IP4 = 4


@rare
def ip(buffer: Any, protocol: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Returns the inner IP packet, because this tunnel has no header; see the module. Arguments as of `gre`."""
    return protocol, -1, IPV4 if protocol == _IN_IP4 else IPV6, at, end


# VXLAN (RFC 7348). UDP ports 4789 and 8472, the former default of Linux.

_VALID = 0x08  # the I flag: there is a VNI


@rare
def vxlan(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a VXLAN header; see the module."""
    flags, word = u8(buffer, at, end), u32(buffer, at + 4, end)
    if flags < 0 or not flags & _VALID:
        return -1, -1, -1, at, end
    _, _, _, _, network, at, end = ethernet(buffer, at + 8, end)
    return port, word >> 8, network, at, end


# Geneve (RFC 8926). UDP port 6081.

_OPTION_WORDS = 0x3F


@rare
def geneve(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a Geneve header and skips its options; see the module. Arguments as of `vxlan`."""
    first, kind, word = u8(buffer, at, end), u16(buffer, at + 2, end), u32(buffer, at + 4, end)
    if first < 0 or first > _OPTION_WORDS:  # the upper two bits are the version
        return -1, -1, -1, at, end
    network, at, end = behind_type(buffer, kind, at + 8 + 4 * first, end)
    return port, word >> 8, network, at, end


ALL = (
    Tunnel({6081: "Geneve"}, True, geneve),
    Tunnel({47: "GRE"}, False, gre),
    Tunnel({2152: "GTP-U"}, True, gtp),
    Tunnel({4: "IPv4-in-IP", 41: "IPv6-in-IP"}, False, ip),
    Tunnel({4789: "VXLAN", 8472: "VXLAN"}, True, vxlan),
)
"""All tunnels that are decoded."""

NAMES: dict[int, str] = {
    number: name for number, (_, name) in by_number([(tunnel, tunnel.names) for tunnel in ALL]).items()
}
"""Names of tunnels, by IP protocol or UDP port."""

PORTS: tuple[int, ...] = tuple(number for tunnel in ALL if tunnel.over_udp for number in tunnel.names)
"""UDP destination ports of tunnels."""

PROTOCOLS: tuple[int, ...] = tuple(number for tunnel in ALL if not tunnel.over_udp for number in tunnel.names)
"""IP protocols of tunnels."""
