"""ARP (RFC 826).

The decoding kernels call it for frames with the ether type of ARP; ARP inside a tunnel is not read.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.columns import (
    ARP_DEST_BITS,
    ARP_DEST_HI,
    ARP_OP,
    ARP_SRC_BITS,
    ARP_SRC_HI,
    ARP_VERSION,
    put_narrow,
)
from lowwater.capture.headers.fields import u16
from lowwater.capture.headers.links.ether_types import IPV4
from lowwater.capture.headers.network import put_address4
from lowwater.capture.inlining import rare

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
