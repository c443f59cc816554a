"""Reads TCP, UDP, ICMP and ICMPv6 headers, and the ports of SCTP, DCCP and UDP-Lite.

The decoding kernels call it after `network`.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.headers.columns import (
    ACK,
    DEST_PORT,
    FLAGS,
    ICMP_CODE,
    ICMP_TYPE,
    SEQ,
    SRC_PORT,
    WINDOW,
    put_narrow,
    put_wide,
)
from lowwater.capture.headers.fields import u8, u16, u32
from lowwater.capture.inlining import part

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
