"""Decodes packet headers into columns: ARP, IP, TCP, UDP, ICMP, by the second and third kernel of the reader.

The reader calls `decode_batch`. It allocates the columns of a batch, lets the kernels fill them, and wraps them without
a copy.

Of all functions here `buffer` is a uint8 array that holds the frame, `at` the index of the first byte of a header,
`end` the index behind the last captured byte of what it belongs to, and `row` the row of the record in `out`, of which
only wanted columns are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import types
from numpy.typing import NDArray

from lowwater.capture.formats.capture_file import ETHERNET, RECORD_HEADER
from lowwater.capture.formats.classic import CAPTURED, OFFSET, ROWS, STAMP, WIRE
from lowwater.capture.headers.fields import big16, big32, big64, byte, u8, u16, u32, with_bits
from lowwater.capture.headers.links import IPV4, IPV6, LINK_TYPES, LinkLayer
from lowwater.capture.headers.tunnels import ALL, PORTS, PROTOCOLS, TunnelReader
from lowwater.capture.headers.undecoded import Undecoded
from lowwater.capture.inlining import kernel, part, rare
from lowwater.capture.interpretation import Kernel
from lowwater.catalog.schemas import BATCH

# Columns that the decoding kernels fill, and functions that write a value. The kernels write into two blocks (64-bit
# and 32-bit columns), and keep a mask of present values for each record. The columns of ARP and of tunnels are last
# in both blocks, so that a batch without them never touches their memory. Columns that are not wanted, and NULLs, are
# not written.

WIDE = tuple(field.name for field in BATCH if field.type == pa.int64())
NARROW = tuple(field.name for field in BATCH if field.type == pa.int32())
_WIDE_FIXED = 3  # position, arrival, timestamp
_NARROW_FIXED = 2  # len, caplen

POSITION, ARRIVAL, TIMESTAMP, SRC_MAC, DEST_MAC, SRC_HI, DEST_HI, ID, SEQ, ACK = map(
    WIDE.index,
    ("position", "arrival", "timestamp", "srcMAC", "destMAC", "srcIP_hi", "destIP_hi", "id", "sequence_number",
     "ack_number"),
)  # fmt: skip
TUNNEL_ID, INNER_SRC_HI, INNER_DEST_HI, ARP_SRC_HI, ARP_DEST_HI = map(
    WIDE.index, ("tunnel_id", "inner_srcIP_hi", "inner_destIP_hi", "arp_srcIP_hi", "arp_destIP_hi")
)
LEN, CAPLEN, ETHER_TYPE, VLAN, VERSION, PROTOCOL, SRC_PORT, DEST_PORT = map(
    NARROW.index, ("len", "caplen", "ether_type", "vlan_id", "ipversion", "protocol", "srcPort", "destPort")
)
TOTAL, TTL, TOS, FRAGMENT, FLAGS, WINDOW, ICMP_TYPE, ICMP_CODE, PAYLOAD_OFFSET, PAYLOAD_LENGTH, UNSAID = map(
    NARROW.index,
    ("total_length", "ttl", "tos", "offset", "flags", "window", "icmp_type", "icmp_code", "payload_offset",
     "payload_length", "unsaid_length"),
)  # fmt: skip
TUNNEL, INNER_VERSION, INNER_PROTOCOL, INNER_SRC_PORT, INNER_DEST_PORT, INNER_FLAGS, ARP_OP, ARP_VERSION = map(
    NARROW.index,
    ("tunnel", "inner_ipversion", "inner_protocol", "inner_srcPort", "inner_destPort", "inner_flags", "arp_op",
     "arp_ipversion"),
)  # fmt: skip

NULLABLE = WIDE[_WIDE_FIXED:TUNNEL_ID] + NARROW[_NARROW_FIXED:] + WIDE[TUNNEL_ID:]
"""Column names in the order of the bits of the presence mask; columns that most records have are first."""

FIXED = WIDE[:_WIDE_FIXED] + NARROW[:_NARROW_FIXED]
"""Columns that every record has; their bits follow those of `NULLABLE` in a mask of columns."""

_FIRST_NARROW = NULLABLE.index(NARROW[_NARROW_FIXED]) - _NARROW_FIXED  # added to a narrow column gives its bit
_FIRST_TUNNEL = NULLABLE.index("tunnel_id") - TUNNEL_ID  # added to a wide column of tunnels or ARP gives its bit


class Columns(NamedTuple):
    """Output of a kernel: the 64-bit block, the 32-bit block, and the mask of wanted columns."""

    wide: Any
    narrow: Any
    wanted: int


def bits_of(*names: str) -> int:
    """Returns the mask of columns."""
    return sum(1 << (NULLABLE + FIXED).index(name) for name in names)


def _bits(name: str) -> int:
    return bits_of(f"{name}_hi", f"{name}_lo")


EVERY = bits_of(*NULLABLE, *FIXED)
SRC_BITS, DEST_BITS = _bits("srcIP"), _bits("destIP")
INNER_SRC_BITS, INNER_DEST_BITS = _bits("inner_srcIP"), _bits("inner_destIP")
ARP_SRC_BITS, ARP_DEST_BITS = _bits("arp_srcIP"), _bits("arp_destIP")


@part
def bit_of_narrow(column: int) -> int:
    """Returns the bit of a 32-bit column in a mask of columns."""
    return 1 << (column + (_FIRST_NARROW if column >= _NARROW_FIXED else len(NULLABLE) + _WIDE_FIXED))


@part
def bit_of_wide(column: int) -> int:
    """Returns the bit of a 64-bit column in a mask of columns."""
    if column < _WIDE_FIXED:
        return 1 << (column + len(NULLABLE))
    return 1 << (column - _WIDE_FIXED if column < TUNNEL_ID else column + _FIRST_TUNNEL)


@part
def set_narrow(out: Any, column: int, row: int, value: int) -> None:
    """Writes a 32-bit column, if it is wanted.

    Args:
        out: `Columns` of the batch.
        column: row of `Columns.narrow`, a constant of this module such as `FLAGS`.
        value: a number of 32 bits.
    """
    if out.wanted & bit_of_narrow(column):
        out.narrow[column, row] = value


@part
def set_wide(out: Any, column: int, row: int, value: int) -> None:
    """Writes a 64-bit column, if it is wanted.

    Args:
        out: `Columns` of the batch.
        column: row of `Columns.wide`, a constant of this module such as `TIMESTAMP`.
        value: a number of 64 bits.
    """
    if out.wanted & bit_of_wide(column):
        out.wide[column, row] = value


@part
def put_narrow(out: Any, column: int, row: int, value: int) -> int:
    """Writes a 32-bit column and returns its presence bit; a negative `value` means NULL and returns 0.

    Arguments as of `set_narrow`.
    """
    set_narrow(out, column, row, max(value, 0))
    return bit_of_narrow(column) if value >= 0 else 0


@part
def put_wide(out: Any, column: int, row: int, value: int) -> int:
    """Writes a 64-bit column and returns its presence bit; a negative `value` means NULL and returns 0.

    Arguments as of `set_wide`.
    """
    set_wide(out, column, row, max(value, 0))
    return bit_of_wide(column) if value >= 0 else 0


# The headers of ARP, IPv4, IPv6, TCP, UDP and ICMP. The decoding kernels of `packet` call it, behind the link layer.

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
    """Reads the header after IP; returns presence bits and its length (0: unknown protocol, -1: unknown length)."""
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


_IP4, IP6_BYTES = 20, 40
"""Bytes of the fixed headers."""


@part
def is_header(buffer: Any, network: int, at: int, end: int) -> bool:
    """Whether the first byte at `at` begins a header of this network (0x0800, 0x86DD)."""
    lead = u8(buffer, at, end)
    return (network == IPV4 and lead >> 4 == 4 and lead & 0x0F >= 5) or (network == IPV6 and lead >> 4 == 6)


@part
def put_address4(buffer: Any, at: int, end: int, out: Any, column: int, row: int) -> bool:
    """Writes both words of an IPv4 address. Returns whether the address is captured.

    Args:
        at: index of the first byte of the address.
        column: row of `Columns.wide` of the high word; the low word is in the row behind it.
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
def length4(buffer: Any, at: int, end: int, stop: int) -> int:
    """Returns the length of an IPv4 packet, which segmentation offload leaves to the frame by writing 0; -1 unknown.

    Args:
        stop: where the frame ends on the wire, as an index.
    """
    total = u16(buffer, at + 2, end)
    return total if total != 0 else stop - at


@part
def length6(buffer: Any, at: int, end: int, stop: int) -> int:
    """Returns the length of an IPv6 packet with its header; -1 unknown. Arguments as of `length4`."""
    payload = u16(buffer, at + 4, end)
    if payload != 0:
        return payload + IP6_BYTES if payload > 0 else -1
    return _length_unsaid(buffer, at, end, stop)


_LARGEST_SAID = 0xFFFF
_JUMBO, _PAD1 = 0xC2, 0
_LEAST_MTU = 1280  # every link of IPv6 carries packets of this size


@rare
def _length_unsaid(buffer: Any, at: int, end: int, stop: int) -> int:
    """Returns the length of an IPv6 packet whose header says 0: that of its jumbo option (RFC 2675); that of a frame
    which is longer than the header could say; or that of a segment of TCP that the card divides, which is larger than
    any link must carry. Otherwise there is no payload, and padding follows.
    """
    kind = u8(buffer, at + 6, end)
    if kind < 0:
        return -1
    if kind == _HOP_BY_HOP:
        option, words = at + IP6_BYTES + 2, u8(buffer, at + IP6_BYTES + 1, end)
        behind = at + IP6_BYTES + 8 * (words + 1)
        while words >= 0 and option < behind:
            code, size = u8(buffer, option, end), u8(buffer, option + 1, end)
            if code == _JUMBO and size == 4:
                jumbo = u32(buffer, option + 2, end)
                if jumbo < 0 or jumbo > _LARGEST_SAID:
                    return jumbo + IP6_BYTES if jumbo > 0 else -1
                return IP6_BYTES  # an option must not say what the header could
            if code < 0 or (code != _PAD1 and size < 0):
                return -1
            option += 1 if code == _PAD1 else 2 + size
        if words < 0:
            return -1
    longer = stop - at - IP6_BYTES > _LARGEST_SAID or (kind == TCP and stop - at > _LEAST_MTU)
    return stop - at if longer else IP6_BYTES


@part
def above4(buffer: Any, at: int, end: int, stop: int) -> tuple[int, int, int, int, int, int]:
    """Reads protocol, fragmentation and length from an IPv4 header.

    Args:
        stop: where the frame ends on the wire, as an index; not below `end`.

    Returns:
        Protocol, fragment offset and id (-1 if not captured), index of the payload, and end of the payload in the
        captured bytes and on the wire.
    """
    field = u16(buffer, at + 6, end)
    identity = u16(buffer, at + 4, end)
    protocol = u8(buffer, at + 9, end)
    length = length4(buffer, at, end, stop)
    if length >= 0:
        end, stop = min(end, at + length), min(stop, at + length)
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
        stop: where the frame ends on the wire, as an index; not below `end`.

    Returns:
        Presence bits, protocol (-1 unknown, or `LATER`), index of its header, and the ends as `above4`.
    """
    total = u16(buffer, at + 2, end)
    tos, ttl = u8(buffer, at + 1, end), u8(buffer, at + 8, end)
    bits = put_narrow(out, VERSION, row, 4) | put_narrow(out, TOS, row, tos)
    bits |= put_narrow(out, TOTAL, row, total) | put_narrow(out, TTL, row, ttl)
    if total == 0:
        bits |= put_narrow(out, UNSAID, row, stop - at)
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
        kind: next header that the fixed header names; -1 if it is not captured.

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
    length = length6(buffer, at, end, stop)
    kind = u8(buffer, at + 6, end)
    if length >= 0:
        end, stop = min(end, at + length), min(stop, at + length)
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
    if payload == 0:
        length = length6(buffer, at, end, stop)
        bits |= put_narrow(out, UNSAID, row, length if length != IP6_BYTES else -1)
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
    """Reads the operation, and for IPv4 over Ethernet the protocol addresses; returns presence bits."""
    bits = put_narrow(out, ARP_OP, row, u16(buffer, at + 6, end))
    if u16(buffer, at, end) != _ETHERNET or u16(buffer, at + 2, end) != IPV4 or u16(buffer, at + 4, end) != _LENGTHS:
        return bits
    bits |= put_narrow(out, ARP_VERSION, row, 4)
    if put_address4(buffer, at + 14, end, out, ARP_SRC_HI, row):
        bits |= ARP_SRC_BITS
    if put_address4(buffer, at + 24, end, out, ARP_DEST_HI, row):
        bits |= ARP_DEST_BITS
    return bits


# Decodes packet headers into columns: the second and third kernel of the reader. The second kernel reads the link,
# network and transport headers of each record. There is one for each link layer, compiled at its first record. It
# lists the few records with ARP or a tunnel, which the third kernel decodes.

# Fast path for the most common packets: Ethernet, IPv4 or IPv6, then TCP, UDP or ICMP, all headers captured. The
# general path through `links` and `network` writes the same columns at two to four times the cost. Here
# one check of the packet's shape replaces a bounds check for each field.

_HEADERS4, _HEADERS6 = 54, 74  # bytes of Ethernet, IP and TCP headers; shorter packets take the general path
_NO_OPTIONS = 0x45
_MAC = (1 << 48) - 1
_BITS = bits_of(
    *("srcMAC", "destMAC", "ether_type", "ipversion", "srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo", "protocol"),
    *("total_length", "ttl", "tos", "payload_offset", "payload_length"),
)
_OF_IP4, _OF_UDP, _OF_ICMP = bits_of("id", "offset"), bits_of("srcPort", "destPort"), bits_of("icmp_type", "icmp_code")
_LINK, _REST = bits_of("srcMAC", "destMAC", "ether_type"), bits_of("total_length", "ttl", "tos", "id", "offset")
_PAYLOAD, _COUNTERS = bits_of("payload_offset", "payload_length"), bits_of("sequence_number", "ack_number", "window")
_OF_TCP = _OF_UDP | bits_of("flags", "sequence_number", "ack_number", "window")


@part
def plain(buffer: Any, begin: int, end: int, wire: int, out: Any, row: int) -> int:
    """Decodes a packet of this shape; returns presence bits, or 0 for a packet of another shape.

    Args:
        wire: where the frame ends on the wire, as an index; not below `end`.
    """
    at = begin + 14
    if end - begin < _HEADERS4:
        return 0
    kind, bits = big16(buffer, begin + 12), _BITS
    if kind == IPV4 and byte(buffer, at) == _NO_OPTIONS and not big16(buffer, at + 6) & 0x1FFF:
        header, icmp, total, protocol = _IP4, ICMP, big16(buffer, at + 2), byte(buffer, at + 9)
        bits |= _OF_IP4
    elif kind == IPV6 and byte(buffer, at) >> 4 == 6 and end - begin >= _HEADERS6:
        header, icmp, total, protocol = IP6_BYTES, ICMPV6, IP6_BYTES + big16(buffer, at + 4), byte(buffer, at + 6)
    else:
        return 0
    ports = at + header
    destination = big16(buffer, ports + 2)
    if protocol == TCP:
        least, payload = 20, ports + 4 * (byte(buffer, ports + 12) >> 4)
        bits |= _OF_TCP
    elif protocol == UDP and destination not in PORTS:
        least, payload = 8, ports + 8
        bits |= _OF_UDP
    elif protocol == icmp:
        least, payload = 8, ports + 8
        bits |= _OF_ICMP
    else:
        return 0
    stop = min(wire, at + total)
    if payload < ports + least or payload > stop or total < header + least:
        return 0
    # One check covers columns that are rarely wanted alone, because a check costs as much as a write.
    if out.wanted & _LINK:
        set_wide(out, DEST_MAC, row, (big64(buffer, begin) >> 16) & _MAC)
        set_wide(out, SRC_MAC, row, big64(buffer, begin + 4) & _MAC)
        set_narrow(out, ETHER_TYPE, row, kind)
    set_narrow(out, PROTOCOL, row, protocol)
    if header == _IP4:
        _of_ip4(buffer, at, total, out, row)
    else:
        _of_ip6(buffer, at, total, out, row)
    if out.wanted & _PAYLOAD:
        set_narrow(out, PAYLOAD_OFFSET, row, payload - begin)
        set_narrow(out, PAYLOAD_LENGTH, row, stop - payload)
    if protocol == icmp:
        set_narrow(out, ICMP_TYPE, row, byte(buffer, ports))
        set_narrow(out, ICMP_CODE, row, byte(buffer, ports + 1))
        return bits
    set_narrow(out, SRC_PORT, row, big16(buffer, ports))
    set_narrow(out, DEST_PORT, row, destination)
    if protocol == TCP:
        set_narrow(out, FLAGS, row, byte(buffer, ports + 13))
        if out.wanted & _COUNTERS:
            set_wide(out, SEQ, row, big32(buffer, ports + 4))
            set_wide(out, ACK, row, big32(buffer, ports + 8))
            set_narrow(out, WINDOW, row, big16(buffer, ports + 14))
    return bits


@part
def _of_ip4(buffer: Any, at: int, total: int, out: Any, row: int) -> None:
    set_narrow(out, VERSION, row, 4)
    if out.wanted & _REST:
        set_narrow(out, TOTAL, row, total)
        set_narrow(out, TOS, row, byte(buffer, at + 1))
        set_wide(out, ID, row, big16(buffer, at + 4))
        set_narrow(out, FRAGMENT, row, 0)
        set_narrow(out, TTL, row, byte(buffer, at + 8))
    set_wide(out, SRC_HI, row, 0)
    set_wide(out, SRC_HI + 1, row, big32(buffer, at + 12))
    set_wide(out, DEST_HI, row, 0)
    set_wide(out, DEST_HI + 1, row, big32(buffer, at + 16))


@part
def _of_ip6(buffer: Any, at: int, total: int, out: Any, row: int) -> None:
    set_narrow(out, VERSION, row, 6)
    if out.wanted & _REST:
        set_narrow(out, TOTAL, row, total)
        set_narrow(out, TOS, row, (big16(buffer, at) >> 4) & 0xFF)
        set_narrow(out, TTL, row, byte(buffer, at + 7))
    set_wide(out, SRC_HI, row, big64(buffer, at + 8))
    set_wide(out, SRC_HI + 1, row, big64(buffer, at + 16))
    set_wide(out, DEST_HI, row, big64(buffer, at + 24))
    set_wide(out, DEST_HI + 1, row, big64(buffer, at + 32))


# Decodes the tunnel of a packet and its innermost IP header. The third kernel of the reader calls it. It follows
# tunnels inside tunnels, by the rules of `tunnels`.

_DEPTH = 4


@part
def carries(buffer: Any, protocol: int, at: int, end: int) -> bool:
    """Whether the header of an IP protocol can be the header of a tunnel.

    Args:
        protocol: number of the IP protocol; negative if unknown.
    """
    if protocol == UDP:
        return u16(buffer, at + 2, end) in PORTS
    return protocol in PROTOCOLS


@rare
def _none(buffer: Any, number: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reader for numbers that belong to no tunnel."""
    return -1, -1, -1, at, end


def _read_if(wanted: int, read: TunnelReader, otherwise: TunnelReader) -> TunnelReader:
    """Chains readers: `read` for the wanted number, `otherwise` for every other number."""

    @part
    def step(buffer: Any, number: int, at: int, end: int) -> tuple[int, int, int, int, int]:
        if number == wanted:
            return read(buffer, number, at, end)
        return otherwise(buffer, number, at, end)

    return step


def _reader(over_udp: bool) -> TunnelReader:
    """Combines the readers of all tunnels over UDP, or of all tunnels that are IP protocols."""
    # Calls from a table of functions would use pointers, which numba can neither inline nor cache on disk.
    reader: TunnelReader = _none
    for tunnel in ALL:
        if tunnel.over_udp == over_udp:
            for number in tunnel.names:
                reader = _read_if(number, tunnel.read, reader)
    return reader


_over_udp, _over_ip = _reader(True), _reader(False)


@rare
def _opened(buffer: Any, protocol: int, at: int, end: int) -> tuple[int, int, int, int, int]:
    """Reads the tunnel after an IP header; returns as every reader of `tunnels`."""
    if protocol == UDP:
        return _over_udp(buffer, u16(buffer, at + 2, end), at + 8, end)
    return _over_ip(buffer, protocol, at, end)


@rare
def _header(buffer: Any, network: int, at: int, end: int, out: Any, row: int) -> tuple[int, int, int, int]:
    """Reads an inner IP header and its ports, in place of an outer one; returns as `version4`, without the wire end.

    It writes all columns, because they may hold values of an outer header.
    """
    bits = 0
    if network == IPV4:
        bits |= put_narrow(out, INNER_VERSION, row, 4)
        if put_address4(buffer, at + 12, end, out, INNER_SRC_HI, row):
            bits |= INNER_SRC_BITS
        if put_address4(buffer, at + 16, end, out, INNER_DEST_HI, row):
            bits |= INNER_DEST_BITS
        protocol, offset, _, at, end, _ = above4(buffer, at, end, end)
    else:
        bits |= put_narrow(out, INNER_VERSION, row, 6)
        if put_address6(buffer, at + 8, end, out, INNER_SRC_HI, row):
            bits |= INNER_SRC_BITS
        if put_address6(buffer, at + 24, end, out, INNER_DEST_HI, row):
            bits |= INNER_DEST_BITS
        protocol, offset, _, at, end, _ = above6(buffer, at, end, end)
    bits |= put_narrow(out, INNER_PROTOCOL, row, protocol)
    if offset > 0:
        protocol = LATER
    ported = has_ports(protocol)
    bits |= put_narrow(out, INNER_SRC_PORT, row, u16(buffer, at, end) if ported else -1)
    bits |= put_narrow(out, INNER_DEST_PORT, row, u16(buffer, at + 2, end) if ported else -1)
    bits |= put_narrow(out, INNER_FLAGS, row, u8(buffer, at + 13, end) if protocol == TCP else -1)
    return bits, protocol, at, end


@rare
def tunnels(buffer: Any, protocol: int, at: int, end: int, out: Any, row: int) -> int:
    """Reads the outermost tunnel, and the innermost captured IP header within four tunnels; returns presence bits.

    Args:
        protocol: number of the outer IP protocol, for which `carries` holds.
    """
    bits, inner = 0, 0
    for depth in range(_DEPTH):
        tunnel, identity, network, at, end = _opened(buffer, protocol, at, end)
        if tunnel < 0:
            break
        if depth == 0:
            bits = put_narrow(out, TUNNEL, row, tunnel) | put_wide(out, TUNNEL_ID, row, identity)
        if not is_header(buffer, network, at, end):
            break
        inner, protocol, at, end = _header(buffer, network, at, end, out, row)
    return bits | inner


@rare
def _unread(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reader of unknown link types."""
    return -1, -1, -1, -1, -1, at, end


UNKNOWN_LINK = 147
"""A link type without a decoder: the first of the numbers reserved for private use."""

UNKNOWN = LinkLayer("unknown", {}, _unread)
"""Link layer of unknown link types: their records have only timestamp and lengths."""

read_link = _unread
"""Placeholder for the reader of the link layer; each kernel replaces it with its own."""

_ARGUMENTS = (
    types.Array(types.uint8, 1, "C", readonly=True),
    types.int64[:, :],
    types.int64,
    types.int64[::1],
    types.int64,
    types.NamedTuple((types.int64[:, ::1], types.int32[:, ::1], types.int64), Columns),  # type: ignore[no-untyped-call]
    types.int64[::1],
    types.int64[:, ::1],
    types.int64[:, ::1],
)
"""Types of the arguments of a kernel. Records have any layout: part of a larger array has another one than a whole
array, and the kernel would be compiled for both, for seconds."""

_ANY_IP = bits_of("ipversion")
_CARRIER_COLUMNS = bits_of(*(name for name in NULLABLE if name.startswith(("arp_", "inner_", "tunnel"))))


@part
def _payload(begin: int, at: int, stop: int, out: Any, row: int) -> int:
    """Writes offset and length of the payload from `at` (-1 unknown) to `stop`; returns presence bits."""
    valid = 0 <= at <= stop
    bits = put_narrow(out, PAYLOAD_OFFSET, row, at - begin if valid else -1)
    return bits | put_narrow(out, PAYLOAD_LENGTH, row, stop - at if valid else -1)


@part
def _above(
    buffer: Any, network: int, begin: int, at: int, end: int, stop: int, out: Any, row: int
) -> tuple[int, int, int, int]:
    """Reads network and transport headers.

    Returns:
        Presence bits; then protocol (-1 without), begin and end of an ARP or tunnel header for the third kernel.
    """
    protocol, icmp, bits, payload = -1, -1, 0, -1
    if is_header(buffer, network, at, end):
        if network == IPV4:
            bits, protocol, at, end, stop = version4(buffer, at, end, stop, out, row)
            icmp = ICMP
        else:
            bits, protocol, at, end, stop = version6(buffer, at, end, stop, out, row)
            icmp = ICMPV6
        if protocol >= 0:
            transport_bits, length = transport(buffer, at, end, protocol, icmp, out, row)
            bits |= transport_bits
            if length >= 0:
                payload = at + length
        elif protocol == LATER:
            payload = at
    elif network == ARP:
        protocol = ARP
    bits |= _payload(begin, payload, stop, out, row)
    return bits, protocol if protocol == ARP or carries(buffer, protocol, at, end) else -1, at, end


@cache
def _kernel(layer: LinkLayer, whole: bool, quick: bool = True) -> Kernel:
    """Makes the kernel of a link layer.

    `whole` and `straight` are constants inside the kernel, so that numba removes unused branches.

    Args:
        quick: whether common packets use `plain`; tests turn it off to compare both paths.
    """
    straight = quick and layer is LINK_TYPES[ETHERNET]

    def rows(
        buffer: Any,
        records: Any,
        count: int,
        positions: Any,
        clock: int,
        out: Any,
        present: Any,
        carriers: Any,
        unread: Any,
    ) -> tuple[int, int, int, int, int]:
        if whole:
            out = Columns(out.wide, out.narrow, EVERY)
        everywhere, anywhere, listed, missed = -1, 0, 0, 0
        for row in range(count):
            stamp = records[STAMP, row]
            clock = max(clock, stamp)
            set_wide(out, POSITION, row, positions[row])
            set_wide(out, TIMESTAMP, row, stamp)
            set_wide(out, ARRIVAL, row, clock)
            set_narrow(out, LEN, row, records[WIRE, row])
            set_narrow(out, CAPLEN, row, records[CAPTURED, row])
            begin = records[OFFSET, row] + RECORD_HEADER
            stop = begin + records[CAPTURED, row]
            wire = begin + max(records[WIRE, row], records[CAPTURED, row])
            bits = plain(buffer, begin, stop, wire, out, row) if straight else 0
            if bits:
                present[row] = bits
                everywhere &= bits
                anywhere |= bits
                continue
            destination, source, ether_type, vlan, network, at, end = read_link(buffer, begin, stop)
            bits = put_wide(out, DEST_MAC, row, destination) | put_wide(out, SRC_MAC, row, source)
            bits |= put_narrow(out, ETHER_TYPE, row, ether_type) | put_narrow(out, VLAN, row, vlan)
            above, carrier, at, end = _above(buffer, network, begin, at, end, wire, out, row)
            bits |= above
            present[row] = bits
            everywhere &= bits
            anywhere |= bits
            if not bits & _ANY_IP:
                unread[missed, 0], unread[missed, 1] = row, network
                missed += 1
            if carrier >= 0:
                carriers[listed, 0], carriers[listed, 1] = row, carrier
                carriers[listed, 2], carriers[listed, 3] = at, end
                listed += 1
        return clock, everywhere, anywhere, listed, missed

    # The reader is a global, because numba does not find cached kernels whose closure holds a function: its identity
    # differs in each process.
    bound_rows = FunctionType(rows.__code__, {**globals(), "read_link": layer.read}, "rows", None, rows.__closure__)
    bound_rows.__qualname__ = (
        f"rows_{layer.name}_{whole}_{quick}"  # kernels with a cache file in common could be mixed up by two processes
    )
    link = next(iter(layer.link_types), UNKNOWN_LINK)
    return Kernel(bound_rows, f"read headers of {layer.name}", link, _ARGUMENTS)


@cache
def _carrier_kernel() -> Kernel:
    """Makes the kernel of records with ARP or a tunnel."""

    def decode_carriers(buffer: Any, carriers: Any, listed: int, out: Any, present: Any) -> int:
        anywhere = 0
        for index in range(listed):
            row, carrier, at, end = carriers[index, 0], carriers[index, 1], carriers[index, 2], carriers[index, 3]
            of_arp = carrier == ARP
            bits = arp(buffer, at, end, out, row) if of_arp else tunnels(buffer, carrier, at, end, out, row)
            present[row] |= bits
            anywhere |= bits
        return anywhere

    return Kernel(decode_carriers, "read ARP and tunnels", ETHERNET)


def compiled(link: int) -> bool:
    """Whether machine code for the headers of a link type is on disk."""
    return _kernel(LINK_TYPES.get(link, UNKNOWN), False).compiled


def decode(
    buffer: Any,
    records: Any,
    count: int,
    positions: Any,
    clock: int,
    link: int,
    out: Columns,
    present: Any,
    undecoded: Undecoded | None = None,
) -> tuple[int, int, int]:
    """Decodes sane records into columns.

    Args:
        buffer: uint8 array that holds the records.
        records: int64 array (4, at least count), as the scanner fills it.
        positions: int64 array (count), numbers of the records in the capture.
        clock: largest sane timestamp of the capture before the records, ns.
        out: int64 array (len(WIDE), at least count) and int32 array (len(NARROW), at least count). Values that are
            present are written in wanted columns; other cells are undefined.
        present: int64 array (at least count), written: bit i means that NULLABLE[i] is not NULL.
        undecoded: counts the records without an IP header, by what they have in place of it.

    Returns:
        The clock after the records, ns; the bits that all masks of `present` have, and the bits that any has.
    """
    rows = _kernel(LINK_TYPES.get(link, UNKNOWN), out.wanted == EVERY).of(count)
    carriers = np.empty((count, 4), np.int64)  # pages that are never written use no memory
    unread = np.empty((count, 2), np.int64)
    clock, everywhere, anywhere, listed, missed = rows(
        buffer, records, count, positions, clock, out, present, carriers, unread
    )
    if undecoded is not None:
        undecoded.add(records[WIRE, :count], unread[:missed, 0], unread[:missed, 1], link)
        if anywhere & (_FRAGMENT_BIT | _UNSAID_BIT):
            _count_beside(undecoded, records[WIRE, :count], out, present[:count])
    if listed and out.wanted & _CARRIER_COLUMNS:
        anywhere |= _carrier_kernel().of(listed)(buffer, carriers, listed, out, present)
    return clock, everywhere, anywhere


_FRAGMENT_BIT, _PROTOCOL_BIT, _UNSAID_BIT = (bits_of(name) for name in ("offset", "protocol", "unsaid_length"))


def _count_beside(undecoded: Undecoded, wires: Any, out: Columns, present: Any) -> None:
    """Counts later fragments, and packets whose header leaves their length to the frame, if their columns are there."""
    both = _FRAGMENT_BIT | _PROTOCOL_BIT
    rows = unsaid = np.empty(0, np.intp)
    if out.wanted & both == both:
        rows = np.flatnonzero(out.narrow[FRAGMENT, : len(present)] > 0)  # few, and some where nothing was written
        rows = rows[present[rows] & both == both]
    if out.wanted & _UNSAID_BIT:
        unsaid = np.flatnonzero(present & _UNSAID_BIT)
    if len(rows) or len(unsaid):
        undecoded.add_beside(wires, out.narrow[PROTOCOL, rows], rows, unsaid)


@kernel
def bitmaps(present: Any, count: int, wanted: int, out: Any) -> None:
    """Turns presence masks into Arrow validity bitmaps.

    Args:
        present: int64 array with `count` masks, padded to a multiple of 8 entries.
        out: uint8 array (len(NULLABLE), at least ceil(count / 8)); row i is the bitmap of NULLABLE[i].
    """
    for bit in range(len(NULLABLE)):
        if wanted >> bit & 1:
            for block in range((count + 7) // 8):
                out[bit, block] = with_bits(present, 8 * block, 1 << bit)


_LINE = 64  # bytes of a cache line


class Memory:
    """Allocates memory for decoding, and can reuse it, because new pages cost as much as the writes to them.

    Args:
        again: whether to reuse the memory, which overwrites earlier batches; else every batch gets new memory.
    """

    def __init__(self, again: bool = True) -> None:
        self._again = again
        self._held: dict[str, NDArray[np.uint8]] = {}

    def bytes(self, name: str, size: int) -> NDArray[np.uint8]:
        """Returns uninitialised bytes for a purpose; with reuse, the same memory for the same name."""
        if not self._again:
            # Arrow's pool keeps freed memory, whereas NumPy would allocate new pages.
            return np.frombuffer(pa.allocate_buffer(size), np.uint8)
        if name not in self._held or len(self._held[name]) < size:
            self._held[name] = np.empty(size, np.uint8)
        return self._held[name][:size]

    def records(self, rows: int) -> NDArray[np.int64]:
        """Returns an int64 array of zeros, shape (ROWS, rows), for a scan."""
        records = self.bytes("records", ROWS * rows * 8).view(np.int64).reshape(ROWS, rows)
        records.fill(0)
        return records


@dataclass(frozen=True)
class Shape:
    """Columns of a batch.

    Attributes:
        wanted: mask of the columns, as `bits_of`.
        columns: for each column its type, whether it has 64 bits, its row in the block, and its presence bit or -1.
    """

    schema: pa.Schema
    wanted: int
    columns: tuple[tuple[pa.DataType, bool, int, int], ...]


@cache
def shape_of(names: tuple[str, ...]) -> Shape:
    """Returns the shape of batches with these columns of `BATCH`, in this order."""
    bits = {name: bit for bit, name in enumerate(NULLABLE)}
    columns = []
    for name in names:
        wide = name in WIDE
        place = (WIDE if wide else NARROW).index(name)
        columns.append((BATCH.field(name).type, wide, place, bits.get(name, -1)))
    return Shape(pa.schema([BATCH.field(name) for name in names]), bits_of(*names), tuple(columns))


WHOLE = shape_of(tuple(BATCH.names))
"""Shape with all columns."""


def _block(
    kind: type[np.int64] | type[np.int32], columns: int, rows: int, memory: Memory
) -> tuple[pa.Buffer, NDArray[Any], int]:
    """Allocates a block: an Arrow buffer, the same memory as array (columns, rows), and bytes per column."""
    # One more cache line per column, because columns a power of two apart would all map to one set of the cache.
    stride = (rows * np.dtype(kind).itemsize // _LINE + 2) * _LINE
    data = memory.bytes(kind.__name__, stride * columns)
    return pa.py_buffer(data), data.view(kind).reshape(columns, -1), stride


@cache
def _zeros(size: int) -> pa.Buffer:
    return pa.py_buffer(np.zeros(size, np.uint8))


def _nothing(kind: pa.DataType, rows: int) -> pa.Array:
    """Returns a column of NULLs over memory that all these columns share."""
    zeros = _zeros(8 << rows.bit_length())
    return pa.Array.from_buffers(kind, rows, [zeros, zeros], null_count=rows)


def decode_batch(
    buffer: NDArray[np.uint8],
    records: NDArray[np.int64],
    positions: NDArray[np.int64],
    clock: int,
    link: int,
    memory: Memory | None = None,
    shape: Shape = WHOLE,
    undecoded: Undecoded | None = None,
) -> tuple[pa.RecordBatch, int]:
    """Decodes sane records.

    Args:
        records: int64 array (4, n), as the scanner fills it.
        positions: int64 array (n), numbers of the records in the capture.
        clock: largest sane timestamp of the capture before the records, ns.
        memory: memory for the batch; None for new memory.
        undecoded: as in `decode`.

    Returns:
        A batch of n rows of the shape's schema, and the clock after the records, ns.
    """
    rows = len(positions)
    memory = memory or Memory(again=False)
    wide_buffer, wide, wide_stride = _block(np.int64, len(WIDE), rows, memory)
    narrow_buffer, narrow, narrow_stride = _block(np.int32, len(NARROW), rows, memory)
    present = memory.bytes("present", -(-rows // 8) * 64).view(np.int64)
    present[rows:] = 0
    out = Columns(wide, narrow, shape.wanted)
    clock, everywhere, anywhere = decode(buffer, records, rows, positions, clock, link, out, present, undecoded)
    size = len(present) // 8
    bits = memory.bytes("bits", len(NULLABLE) * size)
    bitmaps(present, rows, anywhere & ~everywhere & shape.wanted, bits.reshape(-1, size))
    bits_buffer, make, arrays = pa.py_buffer(bits), pa.Array.from_buffers, []
    for kind, is_wide, place, bit in shape.columns:
        if bit >= 0 and not anywhere >> bit & 1:
            arrays.append(_nothing(kind, rows))
            continue
        if is_wide:
            data = wide_buffer.slice(place * wide_stride, rows * 8)
        else:
            data = narrow_buffer.slice(place * narrow_stride, rows * 4)
        partly = bit >= 0 and not everywhere >> bit & 1
        arrays.append(make(kind, rows, [bits_buffer.slice(bit * size, size) if partly else None, data]))
    return pa.RecordBatch.from_arrays(arrays, schema=shape.schema), clock
