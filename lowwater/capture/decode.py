"""Decoding packet headers into columns.

Second and third kernel of the reader. The second reads link (`links`), network and transport header of each record;
there is one for each kind of link, made when the first record of that kind comes. It lists the few records that carry
ARP or a tunnel, which the third reads on (`arp`, `tunnels`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lowwater.capture.arp import ARP, arp
from lowwater.capture.columns import (
    ARRIVAL,
    BATCH,
    CAPLEN,
    DEST_MAC,
    ETHER_TYPE,
    LEN,
    NARROW,
    NULLABLE,
    PAYLOAD_LENGTH,
    PAYLOAD_OFFSET,
    POSITION,
    SRC_MAC,
    TIMESTAMP,
    VLAN,
    WIDE,
    put_narrow,
    put_wide,
)
from lowwater.capture.header import RECORD_HEADER
from lowwater.capture.inlining import kernel, part
from lowwater.capture.links import COOKED, COOKED2, ETHERNET, KINDS, NULL, PPP, RADIOTAP, RAW, UNKNOWN, WIFI
from lowwater.capture.links.cooked import cooked, cooked2
from lowwater.capture.links.ethernet import ethernet
from lowwater.capture.links.null import null
from lowwater.capture.links.ppp import ppp_link
from lowwater.capture.links.radiotap import radiotap
from lowwater.capture.links.raw import raw
from lowwater.capture.links.types import IPV4
from lowwater.capture.links.wifi import wifi
from lowwater.capture.network import LATER, is_header, version4, version6
from lowwater.capture.plain import plain
from lowwater.capture.scan import CAPTURED, OFFSET, STAMP, WIRE
from lowwater.capture.transport import ICMP, ICMPV6, transport
from lowwater.capture.tunnels.inner import carries, tunnels

__all__ = ["BATCH", "NARROW", "NULLABLE", "PLANES", "WIDE", "bitmaps", "decode"]

PLANES = -(-len(NULLABLE) // 8)
"""Bytes of the presence mask that are in use."""


@part
def _payload(begin: int, at: int, stop: int, narrow: Any, row: int) -> int:
    """Place and length of the payload that begins at `at` (-1 unknown) and ends at `stop`; presence bits."""
    known = 0 <= at <= stop
    bits = put_narrow(narrow, PAYLOAD_OFFSET, row, at - begin if known else -1)
    return bits | put_narrow(narrow, PAYLOAD_LENGTH, row, stop - at if known else -1)


@part
def _above(
    buffer: Any, network: int, begin: int, at: int, end: int, stop: int, wide: Any, narrow: Any, row: int
) -> tuple[int, int, int, int]:
    """Network and transport headers; presence bits, and protocol, begin and end of what else is to be read, or -1."""
    protocol, icmp, bits, payload = -1, -1, 0, -1
    if is_header(buffer, network, at, end):
        if network == IPV4:
            bits, protocol, at, end, stop = version4(buffer, at, end, stop, wide, narrow, row)
            icmp = ICMP
        else:
            bits, protocol, at, end, stop = version6(buffer, at, end, stop, wide, narrow, row)
            icmp = ICMPV6
        if protocol >= 0:
            found, length = transport(buffer, at, end, protocol, icmp, wide, narrow, row)
            bits |= found
            if length >= 0:
                payload = at + length
        elif protocol == LATER:
            payload = at
    elif network == ARP:
        protocol = ARP
    bits |= _payload(begin, payload, stop, narrow, row)
    return bits, protocol if protocol == ARP or carries(buffer, protocol, at, end) else -1, at, end


@cache
def _kernel(kind: int, quick: bool = True) -> Callable[..., tuple[int, int, int, int]]:
    """The kernel of one kind of link; all packets take the general way where it is not `quick`, for tests.

    `kind` is a constant of it, and so are the names that it is held against: Numba drops the branches not taken.
    """

    def rows(
        buffer: Any,
        records: Any,
        count: int,
        positions: Any,
        clock: int,
        wide: Any,
        narrow: Any,
        present: Any,
        carriers: Any,
    ) -> tuple[int, int, int, int]:
        everywhere, anywhere, listed = -1, 0, 0
        for row in range(count):
            stamp = records[STAMP, row]
            clock = max(clock, stamp)
            wide[POSITION, row], wide[TIMESTAMP, row], wide[ARRIVAL, row] = positions[row], stamp, clock
            narrow[LEN, row], narrow[CAPLEN, row] = records[WIRE, row], records[CAPTURED, row]
            begin = records[OFFSET, row] + RECORD_HEADER
            stop = begin + records[CAPTURED, row]
            wire = begin + max(records[WIRE, row], records[CAPTURED, row])
            bits = plain(buffer, begin, stop, wire, wide, narrow, row) if quick and kind == ETHERNET else 0
            if bits:
                present[row] = bits
                everywhere &= bits
                anywhere |= bits
                continue
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
            above, carrier, at, end = _above(buffer, network, begin, at, end, wire, wide, narrow, row)
            bits |= above
            present[row] = bits
            everywhere &= bits
            anywhere |= bits
            if carrier >= 0:
                carriers[listed, 0], carriers[listed, 1] = row, carrier
                carriers[listed, 2], carriers[listed, 3] = at, end
                listed += 1
        return clock, everywhere, anywhere, listed

    rows.__qualname__ = f"rows_{kind}_{quick}"  # no two kernels share a file, which two processes could mix up
    return kernel(rows)


@cache
def _carried() -> Callable[..., int]:
    """The kernel of records that carry ARP or a tunnel."""

    def carried(buffer: Any, carriers: Any, listed: int, wide: Any, narrow: Any, present: Any) -> int:
        anywhere = 0
        for index in range(listed):
            row, carrier, at, end = carriers[index, 0], carriers[index, 1], carriers[index, 2], carriers[index, 3]
            if carrier == ARP:
                bits = arp(buffer, at, end, wide, narrow, row)
            else:
                bits = tunnels(buffer, carrier, at, end, wide, narrow, row)
            present[row] |= bits
            anywhere |= bits
        return anywhere

    return kernel(carried)


def decode(
    buffer: Any, records: Any, count: int, positions: Any, clock: int, link: int, wide: Any, narrow: Any, present: Any
) -> tuple[int, int, int]:
    """Decodes sane records into columns.

    Args:
        buffer: uint8 array that holds them.
        records: int64 array (4, at least count), as `scan` fills it.
        count: number of records.
        positions: int64 array (count), their numbers in the capture.
        clock: largest sane timestamp of the capture before them, ns.
        link: link type of the capture.
        wide: int64 array (len(WIDE), at least count), filled where there is a value; anything may be left elsewhere.
        narrow: int32 array (len(NARROW), at least count), the same.
        present: int64 array (at least count), filled: bit i tells that NULLABLE[i] is not NULL.

    Returns:
        The clock after them, ns; the bits that all of `present` have, and those that any of it has.
    """
    rows = _kernel(KINDS.get(link, UNKNOWN))
    carriers = np.empty((count, 4), np.int64)  # memory that is not written takes none
    clock, everywhere, anywhere, listed = rows(
        buffer, records, count, positions, clock, wide, narrow, present, carriers
    )
    if listed:
        anywhere |= _carried()(buffer, carriers, listed, wide, narrow, present)
    return clock, everywhere, anywhere


@kernel
def bitmaps(present: Any, count: int, wanted: int, out: Any) -> None:
    """Turns presence masks into Arrow validity bitmaps, by 8 x 8 bit transposition (Hacker's Delight, 7-3).

    Args:
        present: int64 array, its first `count` entries as `decode` fills them, zeros up to a multiple of 8.
        count: number of rows.
        wanted: bits of which a bitmap is wanted; of others there may be none.
        out: uint8 array (PLANES * 8, at least ceil(count / 8)), filled; row i belongs to NULLABLE[i].
    """
    for plane in range(PLANES):
        if (wanted >> (8 * plane)) & 0xFF == 0:
            continue
        for block in range((count + 7) // 8):
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
