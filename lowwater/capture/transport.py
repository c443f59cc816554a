"""TCP, UDP, ICMP and ICMPv6 headers.

Called by the decoding kernels after `network`.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.columns import (
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
from lowwater.capture.fields import u8, u16, u32
from lowwater.capture.inlining import part

TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58


@part
def transport(buffer: Any, at: int, end: int, protocol: int, icmp: int, wide: Any, narrow: Any, row: int) -> int:
    """TCP, UDP or ICMP header; presence bits."""
    bits = 0
    if protocol in (TCP, UDP):
        bits |= put_narrow(narrow, SRC_PORT, row, u16(buffer, at, end))
        bits |= put_narrow(narrow, DEST_PORT, row, u16(buffer, at + 2, end))
        if protocol == TCP:
            bits |= put_wide(wide, SEQ, row, u32(buffer, at + 4, end))
            bits |= put_wide(wide, ACK, row, u32(buffer, at + 8, end))
            bits |= put_narrow(narrow, FLAGS, row, u8(buffer, at + 13, end))
            bits |= put_narrow(narrow, WINDOW, row, u16(buffer, at + 14, end))
    elif protocol == icmp:
        bits |= put_narrow(narrow, ICMP_TYPE, row, u8(buffer, at, end))
        bits |= put_narrow(narrow, ICMP_CODE, row, u8(buffer, at + 1, end))
    return bits
