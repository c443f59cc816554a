"""Decodes packet headers into columns: the second and third kernel of the reader.

The second kernel reads the link, network and transport headers of each record. There is one for each link layer,
compiled at its first record. It lists the few records with ARP or a tunnel, which the third kernel decodes (`arp`,
`inner`).
"""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import types

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
from lowwater.capture.headers.links.ether_types import IPV4
from lowwater.capture.headers.loads import with_bits
from lowwater.capture.headers.network import LATER, is_header, version4, version6
from lowwater.capture.headers.plain import plain
from lowwater.capture.headers.registry import LinkLayer
from lowwater.capture.headers.transport import ICMP, ICMPV6, transport
from lowwater.capture.inlining import kernel, part, rare
from lowwater.capture.interpretation import Kernel

__all__ = ["BATCH", "EVERY", "NARROW", "NULLABLE", "WIDE", "Columns", "bitmaps", "decode"]


@rare
def _unread(buffer: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int]:
    """Reader of unknown link types."""
    return -1, -1, -1, -1, -1, at, end


UNKNOWN_LINK = 147
"""A link type without a decoder: the first of the numbers reserved for private use."""

UNKNOWN = LinkLayer("unknown", {}, _unread)
"""Link layer of unknown link types: their records have only timestamp and lengths."""

read_link = _unread
"""Placeholder for the reader of the link layer; each kernel replaces it with its own."""

_ARGUMENTS = (
    types.Array(types.uint8, 1, "C", readonly=True),
    types.int64[:, :],
    types.int64,
    types.int64[::1],
    types.int64,
    types.NamedTuple((types.int64[:, ::1], types.int32[:, ::1], types.int64), Columns),  # type: ignore[no-untyped-call]
    types.int64[::1],
    types.int64[:, ::1],
)
"""Types of the arguments of a kernel. Records have any layout: part of a larger array has another one than a whole
array, and the kernel would be compiled for both, for seconds."""

_CARRIER_COLUMNS = bits_of(*(name for name in NULLABLE if name.startswith(("arp_", "inner_", "tunnel"))))


@part
def _payload(begin: int, at: int, stop: int, out: Any, row: int) -> int:
    """Writes offset and length of the payload from `at` (-1 unknown) to `stop`; returns presence bits."""
    valid = 0 <= at <= stop
    bits = put_narrow(out, PAYLOAD_OFFSET, row, at - begin if valid else -1)
    return bits | put_narrow(out, PAYLOAD_LENGTH, row, stop - at if valid else -1)


@part
def _above(
    buffer: Any, network: int, begin: int, at: int, end: int, stop: int, out: Any, row: int
) -> tuple[int, int, int, int]:
    """Reads network and transport headers.

    Returns:
        Presence bits; then protocol (-1 without), begin and end of an ARP or tunnel header for the third kernel.
    """
    protocol, icmp, bits, payload = -1, -1, 0, -1
    if is_header(buffer, network, at, end):
        if network == IPV4:
            bits, protocol, at, end, stop = version4(buffer, at, end, stop, out, row)
            icmp = ICMP
        else:
            bits, protocol, at, end, stop = version6(buffer, at, end, stop, out, row)
            icmp = ICMPV6
        if protocol >= 0:
            transport_bits, length = transport(buffer, at, end, protocol, icmp, out, row)
            bits |= transport_bits
            if length >= 0:
                payload = at + length
        elif protocol == LATER:
            payload = at
    elif network == ARP:
        protocol = ARP
    bits |= _payload(begin, payload, stop, out, row)
    return bits, protocol if protocol == ARP or carries(buffer, protocol, at, end) else -1, at, end


@cache
def _kernel(layer: LinkLayer, whole: bool, quick: bool = True) -> Kernel:
    """Makes the kernel of a link layer.

    `whole` and `straight` are constants inside the kernel, so that numba removes unused branches.

    Args:
        layer: the link layer.
        whole: whether the kernel writes all columns rather than the wanted ones.
        quick: whether common packets use `plain`; tests turn it off to compare both paths.
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

    # The reader is a global, because numba does not find cached kernels whose closure holds a function: its identity
    # differs in each process.
    bound_rows = FunctionType(rows.__code__, {**globals(), "read_link": layer.read}, "rows", None, rows.__closure__)
    bound_rows.__qualname__ = (
        f"rows_{layer.name}_{whole}_{quick}"  # kernels with a cache file in common could be mixed up by two processes
    )
    link = next(iter(layer.link_types), UNKNOWN_LINK)
    return Kernel(bound_rows, f"read headers of {layer.name}", link, _ARGUMENTS)


@cache
def _carrier_kernel() -> Kernel:
    """Makes the kernel of records with ARP or a tunnel."""

    def decode_carriers(buffer: Any, carriers: Any, listed: int, out: Any, present: Any) -> int:
        anywhere = 0
        for index in range(listed):
            row, carrier, at, end = carriers[index, 0], carriers[index, 1], carriers[index, 2], carriers[index, 3]
            of_arp = carrier == ARP
            bits = arp(buffer, at, end, out, row) if of_arp else tunnels(buffer, carrier, at, end, out, row)
            present[row] |= bits
            anywhere |= bits
        return anywhere

    return Kernel(decode_carriers, "read ARP and tunnels", ETHERNET)


def compiled(link: int) -> bool:
    """Whether machine code for the headers of a link type is on disk."""
    return _kernel(LINK_TYPES.get(link, UNKNOWN), False).compiled


def decode(
    buffer: Any, records: Any, count: int, positions: Any, clock: int, link: int, out: Columns, present: Any
) -> tuple[int, int, int]:
    """Decodes sane records into columns.

    Args:
        buffer: uint8 array that holds the records.
        records: int64 array (4, at least count), as `scan` fills it.
        count: number of records.
        positions: int64 array (count), numbers of the records in the capture.
        clock: largest sane timestamp of the capture before the records, ns.
        link: link type of the capture.
        out: int64 array (len(WIDE), at least count) and int32 array (len(NARROW), at least count). Values that are
            present are written in wanted columns; other cells are undefined.
        present: int64 array (at least count), written: bit i means that NULLABLE[i] is not NULL.

    Returns:
        The clock after the records, ns; the bits that all masks of `present` have, and the bits that any has.
    """
    rows = _kernel(LINK_TYPES.get(link, UNKNOWN), out.wanted == EVERY).of(count)
    carriers = np.empty((count, 4), np.int64)  # pages that are never written use no memory
    clock, everywhere, anywhere, listed = rows(buffer, records, count, positions, clock, out, present, carriers)
    if listed and out.wanted & _CARRIER_COLUMNS:
        anywhere |= _carrier_kernel().of(listed)(buffer, carriers, listed, out, present)
    return clock, everywhere, anywhere


@kernel
def bitmaps(present: Any, count: int, wanted: int, out: Any) -> None:
    """Turns presence masks into Arrow validity bitmaps.

    Args:
        present: int64 array with `count` masks, padded to a multiple of 8 entries.
        count: number of rows.
        wanted: mask of the columns whose bitmaps to write.
        out: uint8 array (len(NULLABLE), at least ceil(count / 8)); row i is the bitmap of NULLABLE[i].
    """
    for bit in range(len(NULLABLE)):
        if wanted >> bit & 1:
            for block in range((count + 7) // 8):
                out[bit, block] = with_bits(present, 8 * block, 1 << bit)
