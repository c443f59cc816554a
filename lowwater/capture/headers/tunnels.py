"""Tunnels: a reader for each protocol, their registry `ALL`, and the conditions that identify a tunnel.

The third kernel of the reader uses them. A tunnel follows an IP header whose protocol has an entry here (unless it is a
later fragment), or a UDP header whose destination port has one. The first bytes must fit the protocol of this port. A
reader gets the number of its entry, and reads only the bytes [at, end) after the outer header. It
returns the tunnel (-1: the bytes are no tunnel), its id (-1: none, or not captured), the network of the inner packet
(0x0800 IPv4, 0x86DD IPv6, others are not read), the index of the inner packet, and its end.

| `tunnel` | reader | condition | `tunnel_id` | carries |
| --- | --- | --- | --- | --- |
| 4, 41 | `ip` | always | none | IPv4, IPv6 |
| 97 | `etherip` | version 3 | none | Ethernet |
| 137, 6635 | `labels` | always | none | MPLS |
| 47, 4754 | `gre` | always | key; of version 1 the call id, of ERSPAN the session | by its protocol type |
| 1701 | `l2tp` | L2TP: version 2, no control message | session | PPP |
| 2152 | `gtp` | GTP-U: version 1, message 255 (G-PDU) | TEID | IPv4 or IPv6, by its first four bits |
| 3544 | `teredo` | behind its indications IPv6 begins | none | IPv6 |
| 4341 | `lisp` | always | instance, with the I flag | IPv4 or IPv6, by its first four bits |
| 4789, 8472 | `vxlan` | the I flag is set | VNI | Ethernet |
| 4790 | `vxlan_gpe` | version 0, the I flag is set | VNI | by its next protocol |
| 6081 | `geneve` | version 0 | VNI | by its protocol type |
| 37008 | `tzsp` | version 1, a received or sent packet of Ethernet | none | Ethernet |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.capture.headers.fields import u8, u16, u32
from lowwater.capture.headers.links import (
    FRAME,
    IPV4,
    IPV6,
    LABELS,
    NSH,
    by_number,
    ethernet,
    follow_ether_type,
    ppp_link,
    raw,
)
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


# GRE (RFC 2784, RFC 2890), version 1 of PPTP (RFC 2637), and ERSPAN. IP protocol 47; UDP port 4754 (RFC 8086).

_CHECKSUM, _ROUTING, _KEY, _SEQUENCE, _ACKNOWLEDGEMENT, _VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0080, 0x0007
_PPP, _ERSPAN2, _ERSPAN3 = 0x880B, 0x88BE, 0x22EB
_SESSION, _SUBHEADER = 0x03FF, 0x0001  # of ERSPAN: bits of its second and, version 3, of its last 16-bit word


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
        kind = FRAME
    _, _, network, at, end = follow_ether_type(buffer, kind, at, end)
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
    _, _, network, at, end = follow_ether_type(buffer, kind, at + 8 + 4 * first, end)
    return port, word >> 8, network, at, end


# VXLAN with other contents (draft-ietf-nvo3-vxlan-gpe). UDP port 4790.

_GPE_VERSION, _TYPED = 0x30, 0x04  # the P flag: there is a next protocol
_GPE_NEXT = (-1, IPV4, IPV6, FRAME, NSH, LABELS)


@rare
def vxlan_gpe(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a VXLAN-GPE header; see the module. Arguments as of `vxlan`."""
    flags, following, word = u8(buffer, at, end), u8(buffer, at + 3, end), u32(buffer, at + 4, end)
    if flags < 0 or not flags & _VALID or flags & _GPE_VERSION:
        return -1, -1, -1, at, end
    kind = FRAME
    if flags & _TYPED or following:  # some senders leave the flag out, and plain VXLAN has 0 there
        kind = _GPE_NEXT[following] if 0 <= following < len(_GPE_NEXT) else -1
    _, _, network, at, end = follow_ether_type(buffer, kind, at + 8, end)
    return port, word >> 8, network, at, end


# EtherIP (RFC 3378). IP protocol 97.

_ETHERIP = 3


@rare
def etherip(buffer: Any, protocol: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads an EtherIP header; see the module. Arguments as of `gre`."""
    first = u8(buffer, at, end)
    if first < 0 or first >> 4 != _ETHERIP:
        return -1, -1, -1, at, end
    _, _, _, _, network, at, end = ethernet(buffer, at + 2, end)
    return protocol, -1, network, at, end


# MPLS in IP (RFC 4023) and in UDP (RFC 7510). IP protocol 137, UDP port 6635.


@rare
def labels(buffer: Any, number: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a label stack; see the module. `number` is the IP protocol or the UDP port."""
    _, _, network, at, end = follow_ether_type(buffer, LABELS, at, end)
    return number, -1, network, at, end


# L2TP, version 2 (RFC 2661). UDP port 1701.

_CONTROL, _WITH_LENGTH, _NUMBERED, _WITH_OFFSET, _L2TP_VERSION = 0x8000, 0x4000, 0x0800, 0x0200, 0x000F


@rare
def l2tp(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads an L2TP header; see the module. Arguments as of `vxlan`."""
    flags = u16(buffer, at, end)
    if flags < 0 or flags & _CONTROL or flags & _L2TP_VERSION != 2:
        return -1, -1, -1, at, end
    at += 4 if flags & _WITH_LENGTH else 2
    session = u16(buffer, at + 2, end)
    at += 8 if flags & _NUMBERED else 4
    if flags & _WITH_OFFSET:
        offset = u16(buffer, at, end)
        if offset < 0:
            return port, session, -1, at, end
        at += 2 + offset
    _, _, _, _, network, at, end = ppp_link(buffer, at, end)
    return port, session, network, at, end


# LISP (RFC 9300). UDP port 4341.


@rare
def lisp(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a LISP header; see the module. Arguments as of `vxlan`."""
    flags, word = u8(buffer, at, end), u32(buffer, at + 4, end)
    if flags < 0:
        return -1, -1, -1, at, end
    _, _, _, _, network, at, end = raw(buffer, at + 8, end)
    return port, word >> 8 if flags & _VALID else -1, network, at, end


# Teredo (RFC 4380). UDP port 3544.

_ORIGIN, _AUTHENTICATED = 0x0000, 0x0001


@rare
def teredo(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Skips the indications of Teredo; see the module. Arguments as of `vxlan`."""
    first = u16(buffer, at, end)
    if first == _AUTHENTICATED:
        name, value = u8(buffer, at + 2, end), u8(buffer, at + 3, end)
        if value < 0:
            return -1, -1, -1, at, end
        at += 13 + name + value
        first = u16(buffer, at, end)
    if first == _ORIGIN:
        at += 8
    if u8(buffer, at, end) >> 4 != 6:
        return -1, -1, -1, at, end
    return port, -1, IPV6, at, end


# TZSP, in which access points and routers send copies of packets. UDP port 37008.

_RECEIVED, _TZSP_ETHERNET = (0x0100, 0x0101), 1  # version, and type of the message
_PADDING, _LAST = 0, 1  # tags without a length


@rare
def tzsp(buffer: Any, port: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads a TZSP header and skips its tags; see the module. Arguments as of `vxlan`."""
    first, encapsulated = u16(buffer, at, end), u16(buffer, at + 2, end)
    if first not in _RECEIVED or encapsulated != _TZSP_ETHERNET:
        return -1, -1, -1, at, end
    at += 4
    tag = u8(buffer, at, end)
    while tag >= 0 and tag != _LAST:
        length = -1 if tag == _PADDING else u8(buffer, at + 1, end)
        if tag != _PADDING and length < 0:
            return port, -1, -1, at, end
        at += 2 + length
        tag = u8(buffer, at, end)
    if tag < 0:
        return port, -1, -1, at, end
    _, _, _, _, network, at, end = ethernet(buffer, at + 1, end)
    return port, -1, network, at, end


ALL = (
    Tunnel({97: "EtherIP"}, False, etherip),
    Tunnel({6081: "Geneve"}, True, geneve),
    Tunnel({47: "GRE"}, False, gre),
    Tunnel({4754: "GRE-in-UDP"}, True, gre),
    Tunnel({2152: "GTP-U"}, True, gtp),
    Tunnel({4: "IPv4-in-IP", 41: "IPv6-in-IP"}, False, ip),
    Tunnel({1701: "L2TP"}, True, l2tp),
    Tunnel({4341: "LISP"}, True, lisp),
    Tunnel({137: "MPLS-in-IP"}, False, labels),
    Tunnel({6635: "MPLS-in-UDP"}, True, labels),
    Tunnel({3544: "Teredo"}, True, teredo),
    Tunnel({37008: "TZSP"}, True, tzsp),
    Tunnel({4789: "VXLAN", 8472: "VXLAN"}, True, vxlan),
    Tunnel({4790: "VXLAN-GPE"}, True, vxlan_gpe),
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
