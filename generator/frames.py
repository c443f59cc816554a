"""Bytes of generated packets.

Second step of `generate`: a kernel copies a template and fills in addresses, numbers, lengths and checksums.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from lowwater.capture.formats.capture_file import RECORD_HEADER
from lowwater.capture.headers.fields import big16, put_big16, put_big32, put_big64, put_little32
from lowwater.machine_code import cached_njit

from . import templates
from .flows import ARP, DNS, ECHO, HTTP, TCP, UDP
from .templates import DNS_HOST_AT, HTTP_HOST_AT, SNAPLEN

_BARE, _TLS, _REQUEST, _ANSWER = templates.BARE, templates.TLS, templates.REQUEST, templates.ANSWER
_DATAGRAM, _QUERY, _REPLY, _ECHO, _ARP = (
    templates.DATAGRAM, templates.QUERY, templates.REPLY, templates.ECHO, templates.ARP,
)  # fmt: skip
_FIN, _SYN, _PSH, _ACK = 1, 2, 8, 16
_SECOND = 1_000_000
LARGEST = RECORD_HEADER + SNAPLEN
"""Most bytes of a record."""


@njit(forceinline=True)
def _sum(buffer: Any, begin: int, end: int) -> int:
    """Returns the sum of big-endian 16-bit words; the byte after an odd end must be 0."""
    total = 0
    for at in range(begin, end, 2):
        total += big16(buffer, at)
    return total


@njit(forceinline=True)
def _fold(total: int) -> int:
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@njit(forceinline=True)
def _addresses(out: Any, at: int, v6: int, client: int, server: int, up: bool) -> None:
    """Writes source and destination addresses: client to server if `up`."""
    first, second = (client, server) if up else (server, client)
    if v6:
        put_big64(out, at, 0x20010DB8_00000001 if up else 0x20010DB8_00000002)
        put_big64(out, at + 8, first + 1)
        put_big64(out, at + 16, 0x20010DB8_00000002 if up else 0x20010DB8_00000001)
        put_big64(out, at + 24, second + 1)
    else:
        put_big32(out, at, (0x0A000001 if up else 0xC6120001) + first)  # 10.0.0.0/8, 198.18.0.0/15
        put_big32(out, at + 4, (0xC6120001 if up else 0x0A000001) + second)


@njit(forceinline=True)
def _tcp(packet: Any) -> tuple[bool, int, int, int, int, int]:
    """Returns direction (up), shape, payload on the wire, flags, sequence and acknowledgment number of a TCP packet."""
    number, last = packet.number, packet.count - 1
    request = 42 if packet.kind == HTTP else packet.size
    data = (number - 3) // 2  # answers sent before this packet
    client, server = packet.client_seq, packet.server_seq
    if number == 0:
        return True, _BARE, 0, _SYN, client, 0
    if number == 1:
        return False, _BARE, 0, _SYN | _ACK, server, client + 1
    if number == 2:
        return True, _BARE, 0, _ACK, client + 1, server + 1
    if number == 3:
        return True, _REQUEST if packet.kind == HTTP else _TLS, request, _PSH | _ACK, client + 1, server + 1
    client += 1 + request
    server += 1
    if number >= last - 1:
        answered = (last - 4) // 2
        server += answered * packet.size
        if number == last:
            return False, _BARE, 0, _FIN | _ACK, server, client + 1
        return True, _BARE, 0, _FIN | _ACK, client, server
    if number % 2 == 0:
        first = number == 4
        shape = _ANSWER if packet.kind == HTTP and first else _TLS if packet.kind == TCP else _BARE
        return False, shape, packet.size, _PSH | _ACK, server + data * packet.size, client
    return True, _BARE, 0, _ACK, client, server + data * packet.size


@njit(forceinline=True)
def _digits(out: Any, at: int, host: int) -> None:
    out[at] = 48 + host // 10
    out[at + 1] = 48 + host % 10


@njit(forceinline=True)
def _fill_tcp(out: Any, at: int, packet: Any, up: bool, flags: int, seq: int, ack: int) -> None:
    put_big16(out, at, packet.sport if up else packet.dport)
    put_big16(out, at + 2, packet.dport if up else packet.sport)
    put_big32(out, at + 4, seq)
    put_big32(out, at + 8, ack)
    out[at + 13] = flags
    if packet.kind == HTTP and packet.number == 3:
        _digits(out, at + 20 + HTTP_HOST_AT, packet.host)


@njit(forceinline=True)
def _fill_other(out: Any, at: int, packet: Any, up: bool, length: int) -> None:
    """Writes UDP, DNS and echo headers; `length` counts header and payload on the wire."""
    if packet.kind == ECHO:
        if not up:
            out[at] = 129 if packet.v6 else 0
        put_big16(out, at + 4, packet.ident)
        put_big16(out, at + 6, packet.number // 2 + 1)
        return
    put_big16(out, at, packet.sport if up else packet.dport)
    put_big16(out, at + 2, packet.dport if up else packet.sport)
    put_big16(out, at + 4, length)
    if packet.kind == DNS:
        put_big16(out, at + 8, packet.ident)
        _digits(out, at + 8 + DNS_HOST_AT, packet.host)


@njit(forceinline=True)
def _fill_arp(out: Any, at: int, packet: Any, up: bool) -> None:
    put_big16(out, at + 6, 1 if up else 2)
    put_big16(out, at + 8, 0x0200)
    put_big32(out, at + 10, packet.client if up else packet.server)
    put_big32(out, at + 14, 0x0A000001 + (packet.client if up else packet.server))
    put_big32(out, at + 24, 0x0A000001 + (packet.server if up else packet.client))


@cached_njit(nogil=True)
def render(out: Any, packets: Any, order: Any, shapes: Any, sizes: Any) -> int:
    """Writes the records of packets. Returns the number of bytes written.

    Args:
        out: uint8 array of at least len(order) * LARGEST + 1 bytes, filled.
        packets: array of PACKET.
        order: int64 array, the packets to write, in order.
        shapes: `templates.frames()`.
        sizes: `templates.payload_sizes()`.
    """
    at = 0
    for index in order:
        packet = packets[index]
        up = packet.number % 2 == 0
        flags, seq, ack = 0, 0, 0
        if packet.kind <= TCP:
            up, shape, payload, flags, seq, ack = _tcp(packet)
            header = 20
        elif packet.kind == DNS:
            shape = _QUERY if up else _REPLY
            payload, header = sizes[shape], 8
        elif packet.kind == UDP:
            shape, payload, header = _DATAGRAM, packet.size, 8
        elif packet.kind == ECHO:
            shape, payload, header = _ECHO, 56, 8
        else:
            shape, payload, header = _ARP, 0, 28
        network = 0 if packet.kind == ARP else 40 if packet.v6 else 20
        wire = 14 + network + header + payload
        captured = min(wire, SNAPLEN)
        put_little32(out, at, packet.stamp // _SECOND)
        put_little32(out, at + 4, packet.stamp % _SECOND)
        put_little32(out, at + 8, captured)
        put_little32(out, at + 12, wire)
        begin = at + RECORD_HEADER
        out[begin : begin + SNAPLEN] = shapes[2 * shape + packet.v6]
        out[begin + SNAPLEN] = 0
        source, destination = (packet.client, packet.server) if up else (packet.server, packet.client)
        put_big16(out, begin, 0x0200)
        put_big32(out, begin + 2, destination + (0x10000 if up else 0))
        put_big16(out, begin + 6, 0x0200)
        put_big32(out, begin + 8, source + (0 if up else 0x10000))
        layer = begin + 14
        if packet.kind == ARP:
            _fill_arp(out, layer, packet, up)
        else:
            above = layer + network
            length = header + payload
            words = layer + (8 if packet.v6 else 12)
            _addresses(out, words, packet.v6, packet.client, packet.server, up)
            if packet.v6:
                put_big16(out, layer + 4, length)
                protocol = out[layer + 6]
            else:
                put_big16(out, layer + 2, 20 + length)
                put_big16(out, layer + 4, packet.ident + packet.number)
                put_big16(out, layer + 10, _fold(_sum(out, layer, layer + 20)))
                protocol = out[layer + 9]
            if packet.kind <= TCP:
                _fill_tcp(out, above, packet, up, flags, seq, ack)
            else:
                _fill_other(out, above, packet, up, length)
            # Payload beyond the snaplen is zeros, so the sum over the captured bytes is the sum over all.
            total = _sum(out, above, begin + captured)
            if packet.kind != ECHO or packet.v6:
                total += _sum(out, words, above) + protocol + length
            check = above + (16 if header == 20 else 2 if packet.kind == ECHO else 6)
            checksum = _fold(total)
            put_big16(out, check, checksum if checksum or packet.kind == ECHO or header == 20 else 0xFFFF)
        at = begin + captured
    return at
