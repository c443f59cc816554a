"""The headers of ARP, IPv4, IPv6, TCP, UDP and ICMP.

The decoding kernels of `packet` call it, behind the link layer.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.columns import (
    ACK,
    ARP_DEST_BITS,
    ARP_DEST_HI,
    ARP_OP,
    ARP_SRC_BITS,
    ARP_SRC_HI,
    ARP_VERSION,
    DEST_BITS,
    DEST_HI,
    DEST_PORT,
    FLAGS,
    FRAGMENT,
    ICMP_CODE,
    ICMP_TYPE,
    ID,
    PROTOCOL,
    SEQ,
    SRC_BITS,
    SRC_HI,
    SRC_PORT,
    TOS,
    TOTAL,
    TTL,
    VERSION,
    WINDOW,
    put_narrow,
    put_wide,
    set_wide,
)
from lowwater.capture.headers.fields import big64, byte, u8, u16, u32
from lowwater.capture.headers.links import IPV4, IPV6
from lowwater.capture.inlining import part, rare

# Reads TCP, UDP, ICMP and ICMPv6 headers, and the ports of SCTP, DCCP and UDP-Lite. Called
# after the network header.

TCP, UDP, ICMP, ICMPV6, SCTP, DCCP, UDP_LITE = 6, 17, 1, 58, 132, 33, 136


@part
def has_ports(protocol: int) -> bool:
    """Whether a header of this protocol begins with two ports."""
    return protocol in (TCP, UDP, SCTP, DCCP, UDP_LITE)


@part
def _words(count: int, least: int) -> int:
    """Returns the bytes of a header from its length in 32-bit words; -1 if not captured or too small."""
    return 4 * count if count >= least else -1


@part
def transport(buffer: Any, at: int, end: int, protocol: int, icmp: int, out: Any, row: int) -> tuple[int, int]:
    """Reads the header after IP; returns presence bits and its length (0: unknown protocol, -1: unknown length).

    Args:
        buffer: uint8 array that holds the frame.
        at: index behind the IP header and its extensions.
        end: index behind the last captured byte of the IP packet.
        protocol: number of the IP protocol.
        icmp: protocol number of ICMP over this version of IP.
        out: `Columns`; only its wanted columns are written.
        row: row of the record in `out`.
    """
    bits, length = 0, 0
    if has_ports(protocol):
        bits |= put_narrow(out, SRC_PORT, row, u16(buffer, at, end))
        bits |= put_narrow(out, DEST_PORT, row, u16(buffer, at + 2, end))
        if protocol == TCP:
            bits |= put_wide(out, SEQ, row, u32(buffer, at + 4, end))
            bits |= put_wide(out, ACK, row, u32(buffer, at + 8, end))
            bits |= put_narrow(out, FLAGS, row, u8(buffer, at + 13, end))
            bits |= put_narrow(out, WINDOW, row, u16(buffer, at + 14, end))
            length = _words(u8(buffer, at + 12, end) >> 4, 5)
        elif protocol == SCTP:
            length = 12
        elif protocol == DCCP:
            length = _words(u8(buffer, at + 4, end), 3)
        else:
            length = 8
    elif protocol == icmp:
        bits |= put_narrow(out, ICMP_TYPE, row, u8(buffer, at, end))
        bits |= put_narrow(out, ICMP_CODE, row, u8(buffer, at + 1, end))
        length = 8
    return bits, length


_HOP_BY_HOP, _ROUTING, _FRAGMENT_HEADER, _AUTHENTICATION, _NONE, _DESTINATION, _MOBILITY = 0, 43, 44, 51, 59, 60, 135


LATER = -2
"""Value in place of a protocol: the packet is a later fragment, so no transport header follows."""


@part
def is_header(buffer: Any, network: int, at: int, end: int) -> bool:
    """Whether the first byte at `at` begins a header of this network (0x0800, 0x86DD).

    Args:
        buffer: uint8 array that holds the frame.
        network: an ether type; -1 if unknown.
        at: index at which the header would begin.
        end: index behind the last captured byte.
    """
    lead = u8(buffer, at, end)
    return (network == IPV4 and lead >> 4 == 4 and lead & 0x0F >= 5) or (network == IPV6 and lead >> 4 == 6)


@part
def put_address4(buffer: Any, at: int, end: int, out: Any, column: int, row: int) -> bool:
    """Writes both words of an IPv4 address. Returns whether the address is captured.

    Args:
        buffer: uint8 array that holds the frame.
        at: index of the first byte of the address.
        end: index behind the last captured byte.
        out: `Columns` of the batch.
        column: row of `out.wide` of the high word; the low word is in the row behind it.
        row: row of the record in `out`.
    """
    value = u32(buffer, at, end)
    set_wide(out, column, row, 0)
    set_wide(out, column + 1, row, max(value, 0))
    return value >= 0


@part
def put_address6(buffer: Any, at: int, end: int, out: Any, column: int, row: int) -> bool:
    """Writes both words of an IPv6 address. Returns whether the address is captured.

    Arguments as of `put_address4`.
    """
    if at + 16 > end:
        return False
    set_wide(out, column, row, big64(buffer, at))
    set_wide(out, column + 1, row, big64(buffer, at + 8))
    return True


@part
def above4(buffer: Any, at: int, end: int, stop: int) -> tuple[int, int, int, int, int, int]:
    """Reads protocol, fragmentation and length from an IPv4 header.

    Args:
        buffer: uint8 array that holds the frame.
        at: index of the first byte of the IP header.
        end: index behind the last captured byte.
        stop: where the frame ends on the wire, as an index; not below `end`.

    Returns:
        Protocol, fragment offset and id (-1 if not captured), index of the payload, and end of the payload in the
        captured bytes and on the wire.
    """
    total = u16(buffer, at + 2, end)
    field = u16(buffer, at + 6, end)
    identity = u16(buffer, at + 4, end)
    protocol = u8(buffer, at + 9, end)
    if total > 0:  # segmentation offload writes 0
        end, stop = min(end, at + total), min(stop, at + total)
    return (
        protocol,
        (field & 0x1FFF) << 3 if field >= 0 else -1,
        identity,
        at + 4 * (byte(buffer, at) & 0x0F),
        end,
        stop,
    )


@part
def version4(buffer: Any, at: int, end: int, stop: int, out: Any, row: int) -> tuple[int, int, int, int, int]:
    """Reads an IPv4 header.

    Args:
        buffer: uint8 array that holds the frame.
        at: index of the first byte of the IP header.
        end: index behind the last captured byte.
        stop: where the frame ends on the wire, as an index; not below `end`.
        out: `Columns`; only its wanted columns are written.
        row: row of the record in `out`.

    Returns:
        Presence bits, protocol (-1 unknown, or `LATER`), index of its header, and the ends as `above4`.
    """
    total = u16(buffer, at + 2, end)
    tos, ttl = u8(buffer, at + 1, end), u8(buffer, at + 8, end)
    bits = put_narrow(out, VERSION, row, 4) | put_narrow(out, TOS, row, tos)
    bits |= put_narrow(out, TOTAL, row, total) | put_narrow(out, TTL, row, ttl)
    if put_address4(buffer, at + 12, end, out, SRC_HI, row):
        bits |= SRC_BITS
    if put_address4(buffer, at + 16, end, out, DEST_HI, row):
        bits |= DEST_BITS
    protocol, offset, identity, above, end, stop = above4(buffer, at, end, stop)
    bits |= put_narrow(out, FRAGMENT, row, offset) | put_wide(out, ID, row, identity)
    bits |= put_narrow(out, PROTOCOL, row, protocol)
    return bits, protocol if offset <= 0 else LATER, above, end, stop


@part
def _extensions(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int, int]:
    """Skips IPv6 extension headers.

    Args:
        buffer: uint8 array that holds the frame.
        kind: next header that the fixed header names; -1 if it is not captured.
        at: index behind the fixed header.
        end: index behind the last captured byte of the IP packet.

    Returns:
        Protocol that the last whole header names (-1 unknown), index of its header (-1 if an extension header is cut),
        fragment offset and id (-1 none).
    """
    offset, identity = -1, -1
    while kind in (_HOP_BY_HOP, _ROUTING, _FRAGMENT_HEADER, _AUTHENTICATION, _DESTINATION, _MOBILITY):
        following, length = u8(buffer, at, end), u8(buffer, at + 1, end)
        size = 8 * (length + 1)
        if kind == _FRAGMENT_HEADER:
            field = u16(buffer, at + 2, end)
            offset = field & 0xFFF8 if field >= 0 else -1
            identity = u32(buffer, at + 4, end)
            size = 8
        elif kind == _AUTHENTICATION:
            size = 4 * (length + 2)
        if length < 0 or at + size > end:
            # A fragment header always has 8 bytes, so the payload of a later fragment has a known place.
            return kind, at + size if offset > 0 and kind == _FRAGMENT_HEADER else -1, offset, identity
        if kind == _MOBILITY and following == _NONE:  # the mobility header is the message itself
            return kind, at, offset, identity
        at += size
        last, kind = kind, following
        if last == _FRAGMENT_HEADER and offset > 0:
            break
    return kind, at, offset, identity


@part
def above6(buffer: Any, at: int, end: int, stop: int) -> tuple[int, int, int, int, int, int]:
    """Reads protocol, fragmentation and length from an IPv6 header; returns as `above4` (-1: not a fragment).

    The index of the payload is -1 if an extension header is cut; the protocol is then that of the cut header. Arguments
    as of `above4`.
    """
    payload = u16(buffer, at + 4, end)
    kind = u8(buffer, at + 6, end)
    if payload > 0:  # segmentation offload and jumbograms write 0
        end, stop = min(end, at + 40 + payload), min(stop, at + 40 + payload)
    protocol, above, offset, identity = _extensions(buffer, kind, at + 40, end)
    return protocol, offset, identity, above, end, stop


@part
def version6(buffer: Any, at: int, end: int, stop: int, out: Any, row: int) -> tuple[int, int, int, int, int]:
    """Reads an IPv6 header and its extensions; returns as `version4`.

    Arguments as of `version4`.
    """
    payload = u16(buffer, at + 4, end)
    first = u16(buffer, at, end)
    bits = put_narrow(out, VERSION, row, 6)
    bits |= put_narrow(out, TOS, row, (first >> 4) & 0xFF if first >= 0 else -1)
    bits |= put_narrow(out, TOTAL, row, payload + 40 if payload >= 0 else -1)
    bits |= put_narrow(out, TTL, row, u8(buffer, at + 7, end))
    if put_address6(buffer, at + 8, end, out, SRC_HI, row):
        bits |= SRC_BITS
    if put_address6(buffer, at + 24, end, out, DEST_HI, row):
        bits |= DEST_BITS
    protocol, offset, identity, above, end, stop = above6(buffer, at, end, stop)
    bits |= put_narrow(out, PROTOCOL, row, protocol)
    bits |= put_narrow(out, FRAGMENT, row, offset) | put_wide(out, ID, row, identity)
    if above < 0:
        protocol = -1
    return bits, protocol if offset <= 0 else LATER, above, end, stop


# ARP (RFC 826). The decoding kernels call it for frames with the ether type of ARP; ARP inside a tunnel is not read.

ARP = 0x0806
_ETHERNET, _LENGTHS = 1, 6 << 8 | 4  # bytes of the addresses of Ethernet and of IPv4


@rare
def arp(buffer: Any, at: int, end: int, out: Any, row: int) -> int:
    """Reads the operation, and for IPv4 over Ethernet the protocol addresses; returns presence bits.

    Args:
        buffer: uint8 array that holds the frame.
        at: index of the first byte of the ARP header.
        end: index behind the last captured byte of the frame.
        out: `Columns`; only its wanted columns are written.
        row: row of the record in `out`.
    """
    bits = put_narrow(out, ARP_OP, row, u16(buffer, at + 6, end))
    if u16(buffer, at, end) != _ETHERNET or u16(buffer, at + 2, end) != IPV4 or u16(buffer, at + 4, end) != _LENGTHS:
        return bits
    bits |= put_narrow(out, ARP_VERSION, row, 4)
    if put_address4(buffer, at + 14, end, out, ARP_SRC_HI, row):
        bits |= ARP_SRC_BITS
    if put_address4(buffer, at + 24, end, out, ARP_DEST_HI, row):
        bits |= ARP_DEST_BITS
    return bits
