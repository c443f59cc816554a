"""The commonest packets: Ethernet, IPv4 without options, TCP or UDP, all headers captured.

Beside the general way through `links`, `network` and `transport`, which gives the same columns at twice the cost: here
one look at the shape stands for asking each field whether it is there.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.columns import (
    ACK,
    DEST_HI,
    DEST_MAC,
    DEST_PORT,
    ETHER_TYPE,
    FLAGS,
    FRAGMENT,
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
)
from lowwater.capture.inlining import part
from lowwater.capture.links.types import IPV4
from lowwater.capture.loads import big16, big32, big64
from lowwater.capture.transport import TCP, UDP
from lowwater.capture.tunnels.inner import PORTS

_HEADERS = 54  # of Ethernet, IPv4, TCP; no shorter one of UDP is looked at
_NO_OPTIONS = 0x45
_MAC = (1 << 48) - 1
_UDP_BITS = bits_of(
    *("srcMAC", "destMAC", "ether_type", "ipversion", "srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo", "protocol"),
    *("srcPort", "destPort", "total_length", "ttl", "tos", "id", "offset", "payload_offset", "payload_length"),
)
_TCP_BITS = _UDP_BITS | bits_of("flags", "sequence_number", "ack_number", "window")


@part
def plain(buffer: Any, begin: int, end: int, wire: int, wide: Any, narrow: Any, row: int) -> int:
    """Decodes a packet of this shape, from `begin` to `end` and to `wire` on the wire; presence bits, 0 for another."""
    at = begin + 14
    if end - begin < _HEADERS or big16(buffer, begin + 12) != IPV4 or buffer[at] != _NO_OPTIONS:
        return 0
    total, protocol = big16(buffer, at + 2), buffer[at + 9]
    ports = at + 20
    if protocol == TCP:
        payload = ports + 4 * (buffer[ports + 12] >> 4)
        bits, least = _TCP_BITS, 20
    elif protocol == UDP:
        payload = ports + 8
        bits, least = _UDP_BITS, 8
    else:
        return 0
    stop = min(wire, at + total)
    if payload < ports + least or payload > stop or total < 20 + least or big16(buffer, at + 6) & 0x1FFF:
        return 0
    destination = big16(buffer, ports + 2)
    if protocol == UDP and destination in PORTS:
        return 0
    wide[DEST_MAC, row] = (big64(buffer, begin) >> 16) & _MAC
    wide[SRC_MAC, row] = big64(buffer, begin + 4) & _MAC
    wide[SRC_HI, row], wide[SRC_HI + 1, row] = 0, big32(buffer, at + 12)
    wide[DEST_HI, row], wide[DEST_HI + 1, row] = 0, big32(buffer, at + 16)
    wide[ID, row] = big16(buffer, at + 4)
    narrow[ETHER_TYPE, row], narrow[VERSION, row], narrow[PROTOCOL, row] = IPV4, 4, protocol
    narrow[TOS, row], narrow[TTL, row] = buffer[at + 1], buffer[at + 8]
    narrow[TOTAL, row], narrow[FRAGMENT, row] = total, 0
    narrow[SRC_PORT, row], narrow[DEST_PORT, row] = big16(buffer, ports), destination
    narrow[PAYLOAD_OFFSET, row], narrow[PAYLOAD_LENGTH, row] = payload - begin, stop - payload
    if protocol == TCP:
        wide[SEQ, row], wide[ACK, row] = big32(buffer, ports + 4), big32(buffer, ports + 8)
        narrow[FLAGS, row], narrow[WINDOW, row] = buffer[ports + 13], big16(buffer, ports + 14)
    return bits
