"""IPv4 and IPv6 headers, extension headers included.

Called by the decoding kernels after the link's headers; `transport` reads what follows.
"""

from __future__ import annotations

from typing import Any

from lowwater.capture.columns import (
    DEST_BITS,
    DEST_HI,
    DEST_LO,
    FRAGMENT,
    ID,
    PROTOCOL,
    SRC_BITS,
    SRC_HI,
    SRC_LO,
    TOS,
    TOTAL,
    TTL,
    VERSION,
    put_narrow,
    put_wide,
)
from lowwater.capture.fields import u8, u16, u32
from lowwater.capture.inlining import part
from lowwater.capture.loads import big64

_HOP_BY_HOP, _ROUTING, _FRAGMENT_HEADER, _AUTHENTICATION, _DESTINATION, _MOBILITY = 0, 43, 44, 51, 60, 135


@part
def version4(buffer: Any, at: int, end: int, wide: Any, narrow: Any, row: int) -> tuple[int, int, int, int]:
    """IPv4 header; presence bits, protocol (-1 where nothing of it can be read), where its header is, its end."""
    total = u16(buffer, at + 2, end)
    field = u16(buffer, at + 6, end)
    offset = (field & 0x1FFF) << 3 if field >= 0 else -1
    protocol = u8(buffer, at + 9, end)
    source, destination = u32(buffer, at + 12, end), u32(buffer, at + 16, end)
    bits = put_narrow(narrow, VERSION, row, 4) | put_narrow(narrow, TOS, row, u8(buffer, at + 1, end))
    bits |= put_narrow(narrow, TOTAL, row, total) | put_wide(wide, ID, row, u16(buffer, at + 4, end))
    bits |= put_narrow(narrow, FRAGMENT, row, offset) | put_narrow(narrow, TTL, row, u8(buffer, at + 8, end))
    bits |= put_narrow(narrow, PROTOCOL, row, protocol)
    if put_wide(wide, SRC_LO, row, source):
        bits |= SRC_BITS
    if put_wide(wide, DEST_LO, row, destination):
        bits |= DEST_BITS
    if total > 0:  # 0 is left by segmentation offload
        end = min(end, at + total)
    return bits, protocol if offset == 0 else -1, at + 4 * (buffer[at] & 0x0F), end


@part
def _extensions(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int, int]:
    """Walks IPv6 extension headers; protocol (-1 unknown), where it begins, fragment offset and id (-1 none)."""
    offset, identity = -1, -1
    while True:
        if kind == _FRAGMENT_HEADER:
            field = u16(buffer, at + 2, end)
            offset = field & 0xFFF8 if field >= 0 else -1
            identity = u32(buffer, at + 4, end)
            kind = u8(buffer, at, end)
            at += 8
            if offset != 0:
                walked = kind in (_HOP_BY_HOP, _ROUTING, _FRAGMENT_HEADER, _AUTHENTICATION, _DESTINATION, _MOBILITY)
                return -1 if walked else kind, at, offset, identity
        elif kind in (_HOP_BY_HOP, _ROUTING, _DESTINATION, _MOBILITY):
            kind, length = u8(buffer, at, end), u8(buffer, at + 1, end)
            if length < 0:  # its length is not captured: there is no way on, and to stay here would be for ever
                return -1, at, offset, identity
            at += 8 * (length + 1)
        elif kind == _AUTHENTICATION:
            kind, length = u8(buffer, at, end), u8(buffer, at + 1, end)
            at += 4 * (length + 2)
        else:
            return kind, at, offset, identity
        if at > end:  # the header itself is cut: what follows is not known to be what it says
            return -1, at, offset, identity


@part
def version6(buffer: Any, at: int, end: int, wide: Any, narrow: Any, row: int) -> tuple[int, int, int, int]:
    """IPv6 header and its extensions; returns as `version4`."""
    payload = u16(buffer, at + 4, end)
    first = u16(buffer, at, end)
    kind = u8(buffer, at + 6, end)
    bits = put_narrow(narrow, VERSION, row, 6)
    bits |= put_narrow(narrow, TOS, row, (first >> 4) & 0xFF if first >= 0 else -1)
    bits |= put_narrow(narrow, TOTAL, row, payload + 40 if payload >= 0 else -1)
    bits |= put_narrow(narrow, TTL, row, u8(buffer, at + 7, end))
    if at + 24 <= end:
        wide[SRC_HI, row] = big64(buffer, at + 8)
        wide[SRC_LO, row] = big64(buffer, at + 16)
        bits |= SRC_BITS
    if at + 40 <= end:
        wide[DEST_HI, row] = big64(buffer, at + 24)
        wide[DEST_LO, row] = big64(buffer, at + 32)
        bits |= DEST_BITS
    if payload > 0:  # 0 is left by segmentation offload and by jumbograms
        end = min(end, at + 40 + payload)
    protocol, above, offset, identity = _extensions(buffer, kind, at + 40, end)
    bits |= put_narrow(narrow, PROTOCOL, row, protocol)
    bits |= put_narrow(narrow, FRAGMENT, row, offset) | put_wide(wide, ID, row, identity)
    return bits, protocol if offset <= 0 else -1, above, end
