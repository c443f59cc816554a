"""Decoding packet headers into columns.

Second and third kernel of the reader. The second reads link (`links`), network and transport header of each record;
there is one for each link layer, made when the first record of that layer comes. It lists the few records that carry
ARP or a tunnel, which the third reads on (`arp`, `tunnels`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from lowwater.capture.formats.header import ETHERNET, RECORD_HEADER
from lowwater.capture.formats.scan import CAPTURED, OFFSET, STAMP, WIRE
from lowwater.capture.headers.arp import ARP, arp
from lowwater.capture.headers.columns import (
    ARRIVAL,
    BATCH,
    CAPLEN,
    DEST_MAC,
    ETHER_TYPE,
    EVERY,
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
    Columns,
    bits_of,
    put_narrow,
    put_wide,
    set_narrow,
    set_wide,
)
from lowwater.capture.headers.inner import carries, tunnels
from lowwater.capture.headers.links import LINK_TYPES
from lowwater.capture.headers.links.types import IPV4
from lowwater.capture.headers.loads import with_bits
from lowwater.capture.headers.network import LATER, is_header, version4, version6
from lowwater.capture.headers.plain import plain
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.headers.transport import ICMP, ICMPV6, transport
from lowwater.capture.inlining import kernel, part, rare

__all__ = ["BATCH", "EVERY", "NARROW", "NULLABLE", "WIDE", "Columns", "bitmaps", "decode"]


@rare
def _unread(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """No header that is known; returns as every reader of `links`."""
    return -1, -1, -1, -1, -1, at, end


UNKNOWN = LinkLayer("unknown", {}, _unread)
"""Of link types that no module knows: their records keep timestamp and lengths."""

read_link = _unread
"""The reader of the link layer; each kernel has its own in the place of this one."""

_CARRIED = bits_of(*(name for name in NULLABLE if name.startswith(("arp_", "inner_", "tunnel"))))


@part
def _payload(begin: int, at: int, stop: int, out: Any, row: int) -> int:
    """Place and length of the payload that begins at `at` (-1 unknown) and ends at `stop`; presence bits."""
    known = 0 <= at <= stop
    bits = put_narrow(out, PAYLOAD_OFFSET, row, at - begin if known else -1)
    return bits | put_narrow(out, PAYLOAD_LENGTH, row, stop - at if known else -1)


@part
def _above(
    buffer: Any, network: int, begin: int, at: int, end: int, stop: int, out: Any, row: int
) -> tuple[int, int, int, int]:
    """Network and transport headers; presence bits, and protocol, begin and end of what else is to be read, or -1."""
    protocol, icmp, bits, payload = -1, -1, 0, -1
    if is_header(buffer, network, at, end):
        if network == IPV4:
            bits, protocol, at, end, stop = version4(buffer, at, end, stop, out, row)
            icmp = ICMP
        else:
            bits, protocol, at, end, stop = version6(buffer, at, end, stop, out, row)
            icmp = ICMPV6
        if protocol >= 0:
            found, length = transport(buffer, at, end, protocol, icmp, out, row)
            bits |= found
            if length >= 0:
                payload = at + length
        elif protocol == LATER:
            payload = at
    elif network == ARP:
        protocol = ARP
    bits |= _payload(begin, payload, stop, out, row)
    return bits, protocol if protocol == ARP or carries(buffer, protocol, at, end) else -1, at, end


@cache
def _kernel(layer: LinkLayer, whole: bool, quick: bool = True) -> Callable[..., tuple[int, int, int, int]]:
    """The kernel of a link layer, which writes the `whole` of its columns or those that are wanted.

    Where it is not `quick`, for tests, all packets take the general way. `whole` and `straight` are constants of it:
    Numba drops the branches not taken.
    """
    straight = quick and layer is LINK_TYPES[ETHERNET]

    def rows(
        buffer: Any,
        records: Any,
        count: int,
        positions: Any,
        clock: int,
        out: Any,
        present: Any,
        carriers: Any,
    ) -> tuple[int, int, int, int]:
        if whole:
            out = Columns(out.wide, out.narrow, EVERY)
        everywhere, anywhere, listed = -1, 0, 0
        for row in range(count):
            stamp = records[STAMP, row]
            clock = max(clock, stamp)
            set_wide(out, POSITION, row, positions[row])
            set_wide(out, TIMESTAMP, row, stamp)
            set_wide(out, ARRIVAL, row, clock)
            set_narrow(out, LEN, row, records[WIRE, row])
            set_narrow(out, CAPLEN, row, records[CAPTURED, row])
            begin = records[OFFSET, row] + RECORD_HEADER
            stop = begin + records[CAPTURED, row]
            wire = begin + max(records[WIRE, row], records[CAPTURED, row])
            bits = plain(buffer, begin, stop, wire, out, row) if straight else 0
            if bits:
                present[row] = bits
                everywhere &= bits
                anywhere |= bits
                continue
            destination, source, ether_type, vlan, network, at, end = read_link(buffer, begin, stop)
            bits = put_wide(out, DEST_MAC, row, destination) | put_wide(out, SRC_MAC, row, source)
            bits |= put_narrow(out, ETHER_TYPE, row, ether_type) | put_narrow(out, VLAN, row, vlan)
            above, carrier, at, end = _above(buffer, network, begin, at, end, wire, out, row)
            bits |= above
            present[row] = bits
            everywhere &= bits
            anywhere |= bits
            if carrier >= 0:
                carriers[listed, 0], carriers[listed, 1] = row, carrier
                carriers[listed, 2], carriers[listed, 3] = at, end
                listed += 1
        return clock, everywhere, anywhere, listed

    # A global, since numba finds no kernel on disk whose closure holds a function: that has another identity in each
    # process.
    made = FunctionType(rows.__code__, {**globals(), "read_link": layer.read}, "rows", None, rows.__closure__)
    made.__qualname__ = (
        f"rows_{layer.name}_{whole}_{quick}"  # no two kernels share a file, which two processes could mix up
    )
    return kernel(made)


@cache
def _carried() -> Callable[..., int]:
    """The kernel of records that carry ARP or a tunnel."""

    def carried(buffer: Any, carriers: Any, listed: int, out: Any, present: Any) -> int:
        anywhere = 0
        for index in range(listed):
            row, carrier, at, end = carriers[index, 0], carriers[index, 1], carriers[index, 2], carriers[index, 3]
            of_arp = carrier == ARP
            bits = arp(buffer, at, end, out, row) if of_arp else tunnels(buffer, carrier, at, end, out, row)
            present[row] |= bits
            anywhere |= bits
        return anywhere

    return kernel(carried)


def decode(
    buffer: Any, records: Any, count: int, positions: Any, clock: int, link: int, out: Columns, present: Any
) -> tuple[int, int, int]:
    """Decodes sane records into columns.

    Args:
        buffer: uint8 array that holds them.
        records: int64 array (4, at least count), as `scan` fills it.
        count: number of records.
        positions: int64 array (count), their numbers in the capture.
        clock: largest sane timestamp of the capture before them, ns.
        link: link type of the capture.
        out: int64 array (len(WIDE), at least count) and int32 array (len(NARROW), at least count), filled in the
            columns that are wanted, where there is a value; anything may be left elsewhere.
        present: int64 array (at least count), filled: bit i tells that NULLABLE[i] is not NULL.

    Returns:
        The clock after them, ns; the bits that all of `present` have, and those that any of it has.
    """
    rows = _kernel(LINK_TYPES.get(link, UNKNOWN), out.wanted == EVERY)
    carriers = np.empty((count, 4), np.int64)  # memory that is not written takes none
    clock, everywhere, anywhere, listed = rows(buffer, records, count, positions, clock, out, present, carriers)
    if listed and out.wanted & _CARRIED:
        anywhere |= _carried()(buffer, carriers, listed, out, present)
    return clock, everywhere, anywhere


@kernel
def bitmaps(present: Any, count: int, wanted: int, out: Any) -> None:
    """Turns presence masks into Arrow validity bitmaps.

    Args:
        present: int64 array, its first `count` entries as the kernels fill them, and any up to a multiple of 8.
        count: number of rows.
        wanted: bits of which a bitmap is wanted.
        out: uint8 array (len(NULLABLE), at least ceil(count / 8)); row i belongs to NULLABLE[i], filled if wanted.
    """
    for bit in range(len(NULLABLE)):
        if wanted >> bit & 1:
            for block in range((count + 7) // 8):
                out[bit, block] = with_bits(present, 8 * block, 1 << bit)
