"""Decodes the tunnel of a packet and its innermost IP header.

The third kernel of the reader calls it. It follows tunnels inside tunnels, by the rules of the package `tunnels`.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.columns import (
    INNER_DEST_BITS,
    INNER_DEST_HI,
    INNER_DEST_PORT,
    INNER_FLAGS,
    INNER_PROTOCOL,
    INNER_SRC_BITS,
    INNER_SRC_HI,
    INNER_SRC_PORT,
    INNER_VERSION,
    TUNNEL,
    TUNNEL_ID,
    put_narrow,
    put_wide,
)
from lowwater.capture.headers.fields import u8, u16
from lowwater.capture.headers.links.ether_types import IPV4
from lowwater.capture.headers.network import LATER, above4, above6, is_header, put_address4, put_address6
from lowwater.capture.headers.registry import TunnelReader
from lowwater.capture.headers.transport import TCP, UDP, has_ports
from lowwater.capture.headers.tunnels import ALL, PORTS, PROTOCOLS
from lowwater.capture.inlining import part, rare

_DEPTH = 4


@part
def carries(buffer: Any, protocol: int, at: int, end: int) -> bool:
    """Whether the header of an IP protocol can be the header of a tunnel.

    Args:
        buffer: uint8 array that holds the frame.
        protocol: number of the IP protocol; negative if unknown.
        at: index behind the IP header.
        end: index behind the last captured byte of the IP packet.
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
        buffer: uint8 array that holds the frame.
        protocol: number of the outer IP protocol, for which `carries` holds.
        at: index behind the outer IP header.
        end: index behind the last captured byte of the outer IP packet.
        out: `Columns`; only its wanted columns are written.
        row: row of the record in `out`.
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
