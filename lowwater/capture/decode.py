"""Decoding packet headers into columns.

Second kernel of the reader: link (`links`), network and transport header of each record. There is one kernel for each
kind of link, made when the first record of that kind comes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from lowwater.capture.columns import (
    ARRIVAL,
    BATCH,
    CAPLEN,
    DEST_MAC,
    ETHER_TYPE,
    LEN,
    NARROW,
    NULLABLE,
    POSITION,
    SRC_MAC,
    TIMESTAMP,
    VLAN,
    WIDE,
    put_narrow,
    put_wide,
)
from lowwater.capture.fields import u8
from lowwater.capture.header import RECORD_HEADER
from lowwater.capture.inlining import kernel, part
from lowwater.capture.links import COOKED, COOKED2, ETHERNET, KINDS, NULL, PPP, RADIOTAP, RAW, UNKNOWN, WIFI
from lowwater.capture.links.cooked import cooked, cooked2
from lowwater.capture.links.ethernet import ethernet
from lowwater.capture.links.null import null
from lowwater.capture.links.ppp import ppp_link
from lowwater.capture.links.radiotap import radiotap
from lowwater.capture.links.raw import raw
from lowwater.capture.links.types import IPV4, IPV6
from lowwater.capture.links.wifi import wifi
from lowwater.capture.network import version4, version6
from lowwater.capture.scan import CAPTURED, OFFSET, STAMP, WIRE
from lowwater.capture.transport import ICMP, ICMPV6, transport

__all__ = ["BATCH", "NARROW", "NULLABLE", "WIDE", "bitmaps", "decode"]

_INLINED = ("columns.py", "fields.py", "header.py", "inlining.py", "loads.py", "network.py", "scan.py", "transport.py")


@cache
def _sources() -> str:
    """A digest of the code that becomes part of the kernels, apart from this module."""
    here = resources.files("lowwater.capture")
    files = [here / name for name in _INLINED]
    files += sorted((one for one in (here / "links").iterdir() if one.name.endswith(".py")), key=lambda one: one.name)
    files.append(resources.files("lowwater.catalog") / "packets.py")
    return hashlib.sha256(b"\0".join(one.read_bytes() for one in files)).hexdigest()[:16]


@part
def _above(buffer: Any, network: int, at: int, end: int, wide: Any, narrow: Any, row: int) -> int:
    """Network and transport headers; presence bits."""
    lead = u8(buffer, at, end)
    protocol, icmp, bits = -1, -1, 0
    if network == IPV4 and lead >> 4 == 4 and lead & 0x0F >= 5:
        bits, protocol, at, end = version4(buffer, at, end, wide, narrow, row)
        icmp = ICMP
    elif network == IPV6 and lead >> 4 == 6:
        bits, protocol, at, end = version6(buffer, at, end, wide, narrow, row)
        icmp = ICMPV6
    if protocol >= 0:
        bits |= transport(buffer, at, end, protocol, icmp, wide, narrow, row)
    return bits


@cache
def _kernel(kind: int) -> Callable[..., int]:
    """The kernel of one kind of link.

    `kind` is a constant of it, and so are the names that it is held against: Numba drops the branches not taken.
    """

    def rows(
        buffer: Any, records: Any, count: int, positions: Any, clock: int, wide: Any, narrow: Any, present: Any
    ) -> int:
        for row in range(count):
            stamp = records[STAMP, row]
            clock = max(clock, stamp)
            wide[POSITION, row], wide[TIMESTAMP, row], wide[ARRIVAL, row] = positions[row], stamp, clock
            narrow[LEN, row], narrow[CAPLEN, row] = records[WIRE, row], records[CAPTURED, row]
            begin = records[OFFSET, row] + RECORD_HEADER
            stop = begin + records[CAPTURED, row]
            if kind == ETHERNET:
                destination, source, ether_type, vlan, network, at, end = ethernet(buffer, begin, stop)
            elif kind == COOKED:
                destination, source, ether_type, vlan, network, at, end = cooked(buffer, begin, stop)
            elif kind == COOKED2:
                destination, source, ether_type, vlan, network, at, end = cooked2(buffer, begin, stop)
            elif kind == NULL:
                destination, source, ether_type, vlan, network, at, end = null(buffer, begin, stop)
            elif kind == RAW:
                destination, source, ether_type, vlan, network, at, end = raw(buffer, begin, stop)
            elif kind == PPP:
                destination, source, ether_type, vlan, network, at, end = ppp_link(buffer, begin, stop)
            elif kind == WIFI:
                destination, source, ether_type, vlan, network, at, end = wifi(buffer, begin, stop, False)
            elif kind == RADIOTAP:
                destination, source, ether_type, vlan, network, at, end = radiotap(buffer, begin, stop)
            else:
                destination, source, ether_type, vlan, network, at, end = -1, -1, -1, -1, -1, begin, stop
            bits = put_wide(wide, DEST_MAC, row, destination) | put_wide(wide, SRC_MAC, row, source)
            bits |= put_narrow(narrow, ETHER_TYPE, row, ether_type) | put_narrow(narrow, VLAN, row, vlan)
            present[row] = bits | _above(buffer, network, at, end, wide, narrow, row)
        return clock

    # Numba keeps compiled kernels in files by this name and compiles anew only when this very module has changed:
    # so the name tells what else went in, and no two kernels share a file, which two processes could mix up.
    rows.__qualname__ = f"rows_{kind}_{_sources()}"
    return kernel(rows)


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
    rows = _kernel(KINDS.get(link, UNKNOWN))
    return rows(buffer, records, count, positions, clock, wide, narrow, present)


@kernel
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
