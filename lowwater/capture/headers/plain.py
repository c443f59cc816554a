"""Fast path for the most common packets: Ethernet, IPv4 or IPv6, then TCP, UDP or ICMP, all headers captured.

The general path through `links`, `network` and `transport` writes the same columns at two to four times the cost. Here
one check of the packet's shape replaces a bounds check for each field.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.columns import (
    ACK,
    DEST_HI,
    DEST_MAC,
    DEST_PORT,
    ETHER_TYPE,
    FLAGS,
    FRAGMENT,
    ICMP_CODE,
    ICMP_TYPE,
    ID,
    PAYLOAD_LENGTH,
    PAYLOAD_OFFSET,
    PROTOCOL,
    SEQ,
    SRC_HI,
    SRC_MAC,
    SRC_PORT,
    TOS,
    TOTAL,
    TTL,
    VERSION,
    WINDOW,
    bits_of,
    set_narrow,
    set_wide,
)
from lowwater.capture.headers.links.ether_types import IPV4, IPV6
from lowwater.capture.headers.loads import big16, big32, big64, byte
from lowwater.capture.headers.transport import ICMP, ICMPV6, TCP, UDP
from lowwater.capture.headers.tunnels import PORTS
from lowwater.capture.inlining import part

_HEADERS4, _HEADERS6 = 54, 74  # bytes of Ethernet, IP and TCP headers; shorter packets take the general path
_IP4, _IP6 = 20, 40
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
        buffer: uint8 array that holds the frame.
        begin: index of the first byte of the frame.
        end: index behind the last captured byte.
        wire: where the frame ends on the wire, as an index; not below `end`.
        out: `Columns`; only its wanted columns are written.
        row: row of the record in `out`.
    """
    at = begin + 14
    if end - begin < _HEADERS4:
        return 0
    kind, bits = big16(buffer, begin + 12), _BITS
    if kind == IPV4 and byte(buffer, at) == _NO_OPTIONS and not big16(buffer, at + 6) & 0x1FFF:
        header, icmp, total, protocol = _IP4, ICMP, big16(buffer, at + 2), byte(buffer, at + 9)
        bits |= _OF_IP4
    elif kind == IPV6 and byte(buffer, at) >> 4 == 6 and end - begin >= _HEADERS6:
        header, icmp, total, protocol = _IP6, ICMPV6, _IP6 + big16(buffer, at + 4), byte(buffer, at + 6)
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
