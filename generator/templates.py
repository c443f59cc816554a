"""Templates of generated frames, without addresses and numbers.

Used by `frames`: a row of bytes for every shape and IP version.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from .flows import HOSTS

SNAPLEN = 128
BARE, TLS, REQUEST, ANSWER, DATAGRAM, QUERY, REPLY, ECHO, ARP = range(9)
"""Shapes of frames."""

SHAPES = 9

_ETHERNET = 14


def _http_request() -> bytes:
    return b"GET / HTTP/1.1\r\nHost: h00.example.org\r\n\r\n"


def _dns(answer: bool) -> bytes:
    name = b"\x03h00\x07example\x03org\x00"
    head = struct.pack("!HHHHHH", 0, 0x8180 if answer else 0x0100, 1, int(answer), 0, 0)
    record = struct.pack("!HHHIH", 0xC00C, 1, 1, 300, 4) + bytes([198, 51, 100, 1]) if answer else b""
    return head + name + struct.pack("!HH", 1, 1) + record


PAYLOADS = {
    BARE: b"",
    TLS: b"\x17\x03\x03\x40\x00",
    REQUEST: _http_request(),
    ANSWER: b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    DATAGRAM: b"",
    QUERY: _dns(False),
    REPLY: _dns(True),
    ECHO: b"",
    ARP: b"",
}
HTTP_HOST_AT = _http_request().index(b"h00") + 1
DNS_HOST_AT = 14
"""Offset of the two host digits in the payload."""

assert HOSTS <= 100, "a host name has two digits"


def _network(version: int, protocol: int) -> bytes:
    if version == 6:
        return struct.pack("!IHBB", 6 << 28, 0, 58 if protocol == 1 else protocol, 64) + bytes(32)
    return struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0x4000, 64, protocol, 0) + bytes(8)


def _frame(shape: int, version: int) -> bytes:
    head = bytes(12) + struct.pack("!H", 0x86DD if version == 6 else 0x0800)
    if shape == ARP:
        return bytes(12) + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1)
    if shape == ECHO:
        return head + _network(version, 1) + bytes([128 if version == 6 else 8]) + bytes(7)
    if shape in (DATAGRAM, QUERY, REPLY):
        return head + _network(version, 17) + bytes(8) + PAYLOADS[shape]
    return head + _network(version, 6) + struct.pack("!12xBBHHH", 0x50, 0, 64240, 0, 0) + PAYLOADS[shape]


def frames() -> NDArray[np.uint8]:
    """Returns all templates: row `2 * shape + (1 for IPv6)`, SNAPLEN bytes each, padded with zeros."""
    rows = np.zeros((2 * SHAPES, SNAPLEN), np.uint8)
    for shape in range(SHAPES):
        for index, version in enumerate((4, 6)):
            text = _frame(shape, version)
            rows[2 * shape + index, : len(text)] = np.frombuffer(text, np.uint8)
    return rows


def payload_sizes() -> NDArray[np.int64]:
    """Returns the payload length of every shape, bytes."""
    return np.array([len(PAYLOADS[shape]) for shape in range(SHAPES)], np.int64)
