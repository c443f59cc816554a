"""Decoding packet headers into columns.

Second kernel of the reader: link, network and transport header of each record. A captured field is never negative
(IPv6 words apart, which have a presence of their own), so the helpers say "not captured" with -1.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from numba import njit

from lowwater.capture.header import ETHERNET, LINUX_SLL, RECORD_HEADER
from lowwater.capture.loads import big16, big32, big64
from lowwater.capture.scan import CAPTURED, OFFSET, STAMP, WIRE
from lowwater.catalog.packets import RECORD

BATCH = pa.schema([field for field in RECORD if field.name != "capture"])
WIDE = tuple(field.name for field in BATCH if field.type == pa.int64())
NARROW = tuple(field.name for field in BATCH if field.type == pa.int32())
_WIDE_FIXED = 3  # position, arrival, timestamp
_NARROW_FIXED = 2  # len, caplen
NULLABLE = WIDE[_WIDE_FIXED:] + NARROW[_NARROW_FIXED:]
"""Column names: the rows of the 64-bit block, of the 32-bit block, and the bits of the presence mask."""

_POSITION, _ARRIVAL, _TIMESTAMP, _SRC_MAC, _DEST_MAC, _SRC_HI, _SRC_LO, _DEST_HI, _DEST_LO, _ID, _SEQ, _ACK = map(
    WIDE.index,
    ("position", "arrival", "timestamp", "srcMAC", "destMAC", "srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo", "id",
     "sequence_number", "ack_number"),
)  # fmt: skip
_LEN, _CAPLEN, _ETHER_TYPE, _VLAN, _VERSION, _PROTOCOL, _SRC_PORT, _DEST_PORT = map(
    NARROW.index, ("len", "caplen", "ether_type", "vlan_id", "ipversion", "protocol", "srcPort", "destPort")
)
_TOTAL, _TTL, _TOS, _FRAGMENT, _FLAGS, _WINDOW, _ICMP_TYPE, _ICMP_CODE = map(
    NARROW.index, ("total_length", "ttl", "tos", "offset", "flags", "window", "icmp_type", "icmp_code")
)
_FIRST_NARROW = len(WIDE) - _WIDE_FIXED - _NARROW_FIXED  # what turns a narrow column into its bit
_SRC_BITS = (1 << NULLABLE.index("srcIP_hi")) | (1 << NULLABLE.index("srcIP_lo"))
_DEST_BITS = (1 << NULLABLE.index("destIP_hi")) | (1 << NULLABLE.index("destIP_lo"))

_IPV4, _IPV6, _FIRST_TYPE = 0x0800, 0x86DD, 0x0600
_TCP, _UDP, _ICMP, _ICMPV6 = 6, 17, 1, 58
_HOP_BY_HOP, _ROUTING, _FRAGMENT_HEADER, _AUTHENTICATION, _DESTINATION, _MOBILITY = 0, 43, 44, 51, 60, 135


@njit(forceinline=True)
def _u8(buffer: Any, at: int, end: int) -> int:
    return buffer[at] if at < end else -1


@njit(forceinline=True)
def _u16(buffer: Any, at: int, end: int) -> int:
    return big16(buffer, at) if at + 2 <= end else -1


@njit(forceinline=True)
def _u32(buffer: Any, at: int, end: int) -> int:
    return big32(buffer, at) if at + 4 <= end else -1


@njit(forceinline=True)
def _u48(buffer: Any, at: int, end: int) -> int:
    return (big16(buffer, at) << 32) | big32(buffer, at + 2) if at + 6 <= end else -1


@njit(forceinline=True)
def _narrow(narrow: Any, column: int, row: int, value: int) -> int:
    narrow[column, row] = max(value, 0)
    return (1 << (column + _FIRST_NARROW)) if value >= 0 else 0


@njit(forceinline=True)
def _wide(wide: Any, column: int, row: int, value: int) -> int:
    wide[column, row] = max(value, 0)
    return (1 << (column - _WIDE_FIXED)) if value >= 0 else 0


@njit(forceinline=True)
def _link(buffer: Any, at: int, end: int, link: int, wide: Any, narrow: Any, row: int) -> tuple[int, int, int]:
    """Link header; presence bits, type of what it carries (-1 unknown), where that begins."""
    destination, source, kind = -1, -1, -1
    if link == ETHERNET:
        destination, source = _u48(buffer, at, end), _u48(buffer, at + 6, end)
        kind = _u16(buffer, at + 12, end)
        if kind < _FIRST_TYPE:  # IEEE 802.3: a length, not a type
            kind = -1
        at += 14
    elif link == LINUX_SLL:
        if _u16(buffer, at + 4, end) == 6:
            source = _u48(buffer, at + 6, end)
        kind = _u16(buffer, at + 14, end)
        at += 16
    vlan = -1
    while kind == 0x8100 or kind == 0x88A8 or kind == 0x9100:
        tag = _u16(buffer, at, end)
        if vlan < 0 and tag >= 0:  # the outermost tag
            vlan = tag & 0x0FFF
        kind = _u16(buffer, at + 2, end)
        at += 4
    bits = _wide(wide, _DEST_MAC, row, destination) | _wide(wide, _SRC_MAC, row, source)
    bits |= _narrow(narrow, _ETHER_TYPE, row, kind) | _narrow(narrow, _VLAN, row, vlan)
    return bits, kind, at


@njit(forceinline=True)
def _version4(buffer: Any, at: int, end: int, wide: Any, narrow: Any, row: int) -> tuple[int, int, int, int]:
    """IPv4 header; presence bits, protocol (-1 where nothing of it can be read), where its header is, its end."""
    total = _u16(buffer, at + 2, end)
    field = _u16(buffer, at + 6, end)
    offset = (field & 0x1FFF) << 3 if field >= 0 else -1
    protocol = _u8(buffer, at + 9, end)
    source, destination = _u32(buffer, at + 12, end), _u32(buffer, at + 16, end)
    bits = _narrow(narrow, _VERSION, row, 4) | _narrow(narrow, _TOS, row, _u8(buffer, at + 1, end))
    bits |= _narrow(narrow, _TOTAL, row, total) | _wide(wide, _ID, row, _u16(buffer, at + 4, end))
    bits |= _narrow(narrow, _FRAGMENT, row, offset) | _narrow(narrow, _TTL, row, _u8(buffer, at + 8, end))
    bits |= _narrow(narrow, _PROTOCOL, row, protocol)
    if _wide(wide, _SRC_LO, row, source):
        bits |= _SRC_BITS
    if _wide(wide, _DEST_LO, row, destination):
        bits |= _DEST_BITS
    if total > 0:  # 0 is left by segmentation offload
        end = min(end, at + total)
    return bits, protocol if offset == 0 else -1, at + 4 * (buffer[at] & 0x0F), end


@njit(forceinline=True)
def _extensions(buffer: Any, kind: int, at: int, end: int) -> tuple[int, int, int, int]:
    """Walks IPv6 extension headers; protocol (-1 unknown), where it begins, fragment offset and id (-1 none)."""
    offset, identity = -1, -1
    while True:
        if kind == _FRAGMENT_HEADER:
            field = _u16(buffer, at + 2, end)
            offset = field & 0xFFF8 if field >= 0 else -1
            identity = _u32(buffer, at + 4, end)
            kind = _u8(buffer, at, end)
            at += 8
            if offset != 0:
                walked = kind in (_HOP_BY_HOP, _ROUTING, _FRAGMENT_HEADER, _AUTHENTICATION, _DESTINATION, _MOBILITY)
                return -1 if walked else kind, at, offset, identity
        elif kind in (_HOP_BY_HOP, _ROUTING, _DESTINATION, _MOBILITY):
            kind, length = _u8(buffer, at, end), _u8(buffer, at + 1, end)
            if length < 0:  # its length is not captured: there is no way on, and to stay here would be for ever
                return -1, at, offset, identity
            at += 8 * (length + 1)
        elif kind == _AUTHENTICATION:
            kind, length = _u8(buffer, at, end), _u8(buffer, at + 1, end)
            at += 4 * (length + 2)
        else:
            return kind, at, offset, identity
        if at > end:  # the header itself is cut: what follows is not known to be what it says
            return -1, at, offset, identity


@njit(forceinline=True)
def _version6(buffer: Any, at: int, end: int, wide: Any, narrow: Any, row: int) -> tuple[int, int, int, int]:
    """IPv6 header and its extensions; returns as `_version4`."""
    payload = _u16(buffer, at + 4, end)
    first = _u16(buffer, at, end)
    kind = _u8(buffer, at + 6, end)
    bits = _narrow(narrow, _VERSION, row, 6)
    bits |= _narrow(narrow, _TOS, row, (first >> 4) & 0xFF if first >= 0 else -1)
    bits |= _narrow(narrow, _TOTAL, row, payload + 40 if payload >= 0 else -1)
    bits |= _narrow(narrow, _TTL, row, _u8(buffer, at + 7, end))
    if at + 24 <= end:
        wide[_SRC_HI, row] = big64(buffer, at + 8)
        wide[_SRC_LO, row] = big64(buffer, at + 16)
        bits |= _SRC_BITS
    if at + 40 <= end:
        wide[_DEST_HI, row] = big64(buffer, at + 24)
        wide[_DEST_LO, row] = big64(buffer, at + 32)
        bits |= _DEST_BITS
    if payload > 0:  # 0 is left by segmentation offload and by jumbograms
        end = min(end, at + 40 + payload)
    protocol, above, offset, identity = _extensions(buffer, kind, at + 40, end)
    bits |= _narrow(narrow, _PROTOCOL, row, protocol)
    bits |= _narrow(narrow, _FRAGMENT, row, offset) | _wide(wide, _ID, row, identity)
    return bits, protocol if offset <= 0 else -1, above, end


@njit(forceinline=True)
def _transport(buffer: Any, at: int, end: int, protocol: int, icmp: int, wide: Any, narrow: Any, row: int) -> int:
    """TCP, UDP or ICMP header; presence bits."""
    bits = 0
    if protocol in (_TCP, _UDP):
        bits |= _narrow(narrow, _SRC_PORT, row, _u16(buffer, at, end))
        bits |= _narrow(narrow, _DEST_PORT, row, _u16(buffer, at + 2, end))
        if protocol == _TCP:
            bits |= _wide(wide, _SEQ, row, _u32(buffer, at + 4, end))
            bits |= _wide(wide, _ACK, row, _u32(buffer, at + 8, end))
            bits |= _narrow(narrow, _FLAGS, row, _u8(buffer, at + 13, end))
            bits |= _narrow(narrow, _WINDOW, row, _u16(buffer, at + 14, end))
    elif protocol == icmp:
        bits |= _narrow(narrow, _ICMP_TYPE, row, _u8(buffer, at, end))
        bits |= _narrow(narrow, _ICMP_CODE, row, _u8(buffer, at + 1, end))
    return bits


@njit(nogil=True, cache=True)
def decode(
    buffer: Any, records: Any, count: int, positions: Any, clock: int, link: int, wide: Any, narrow: Any, present: Any
) -> int:
    """Decodes sane records into columns.

    Args:
        buffer: uint8 array that holds them.
        records: int64 array (4, at least count), as `scan` fills it.
        count: number of records.
        positions: int64 array (count), their numbers in the capture.
        clock: largest sane timestamp of the capture before them, ns.
        link: link type of the capture.
        wide: int64 array (len(WIDE), at least count) of zeros, filled.
        narrow: int32 array (len(NARROW), at least count) of zeros, filled.
        present: uint32 array (at least count), filled: bit i tells that NULLABLE[i] is not NULL.

    Returns:
        The clock after them, ns.
    """
    for row in range(count):
        stamp = records[STAMP, row]
        clock = max(clock, stamp)
        wide[_POSITION, row], wide[_TIMESTAMP, row], wide[_ARRIVAL, row] = positions[row], stamp, clock
        narrow[_LEN, row], narrow[_CAPLEN, row] = records[WIRE, row], records[CAPTURED, row]
        begin = records[OFFSET, row] + RECORD_HEADER
        end = begin + records[CAPTURED, row]
        bits, kind, at = _link(buffer, begin, end, link, wide, narrow, row)
        lead = _u8(buffer, at, end)
        protocol, icmp = -1, -1
        more = 0
        if kind == _IPV4 and lead >> 4 == 4 and lead & 0x0F >= 5:
            more, protocol, at, end = _version4(buffer, at, end, wide, narrow, row)
            icmp = _ICMP
        elif kind == _IPV6 and lead >> 4 == 6:
            more, protocol, at, end = _version6(buffer, at, end, wide, narrow, row)
            icmp = _ICMPV6
        bits |= more
        if protocol >= 0:
            bits |= _transport(buffer, at, end, protocol, icmp, wide, narrow, row)
        present[row] = bits
    return clock


@njit(nogil=True, cache=True)
def bitmaps(present: Any, count: int, out: Any) -> None:
    """Turns presence masks into Arrow validity bitmaps, by 8 x 8 bit transposition (Hacker's Delight, 7-3).

    Args:
        present: uint32 array, its first `count` entries as `decode` fills them, zeros up to a multiple of 8.
        count: number of rows.
        out: uint8 array (24 or more, at least ceil(count / 8)), filled; row i belongs to NULLABLE[i].
    """
    for block in range((count + 7) // 8):
        for plane in range(3):
            word = 0
            for row in range(8):
                word |= ((present[8 * block + row] >> (8 * plane)) & 0xFF) << (8 * row)
            swap = (word ^ (word >> 7)) & 0x00AA00AA00AA00AA
            word = word ^ swap ^ (swap << 7)
            swap = (word ^ (word >> 14)) & 0x0000CCCC0000CCCC
            word = word ^ swap ^ (swap << 14)
            swap = (word ^ (word >> 28)) & 0x00000000F0F0F0F0
            word = word ^ swap ^ (swap << 28)
            for bit in range(8):
                out[8 * plane + bit, block] = (word >> (8 * bit)) & 0xFF
