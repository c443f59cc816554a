"""Columns that the decoding kernels fill, and functions that write a value.

The kernels write into two blocks (64-bit and 32-bit columns), and keep a mask of present values for each record. The
columns of ARP and of tunnels are last in both blocks, so that a batch without them never touches their memory. Columns
that are not wanted, and NULLs, are not written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from lowwater.capture.inlining import part
from lowwater.catalog.packets import RECORD

BATCH = pa.schema([field for field in RECORD if field.name != "capture"])
WIDE = tuple(field.name for field in BATCH if field.type == pa.int64())
NARROW = tuple(field.name for field in BATCH if field.type == pa.int32())
_WIDE_FIXED = 3  # position, arrival, timestamp
_NARROW_FIXED = 2  # len, caplen

POSITION, ARRIVAL, TIMESTAMP, SRC_MAC, DEST_MAC, SRC_HI, DEST_HI, ID, SEQ, ACK = map(
    WIDE.index,
    ("position", "arrival", "timestamp", "srcMAC", "destMAC", "srcIP_hi", "destIP_hi", "id", "sequence_number",
     "ack_number"),
)  # fmt: skip
TUNNEL_ID, INNER_SRC_HI, INNER_DEST_HI, ARP_SRC_HI, ARP_DEST_HI = map(
    WIDE.index, ("tunnel_id", "inner_srcIP_hi", "inner_destIP_hi", "arp_srcIP_hi", "arp_destIP_hi")
)
LEN, CAPLEN, ETHER_TYPE, VLAN, VERSION, PROTOCOL, SRC_PORT, DEST_PORT = map(
    NARROW.index, ("len", "caplen", "ether_type", "vlan_id", "ipversion", "protocol", "srcPort", "destPort")
)
TOTAL, TTL, TOS, FRAGMENT, FLAGS, WINDOW, ICMP_TYPE, ICMP_CODE, PAYLOAD_OFFSET, PAYLOAD_LENGTH = map(
    NARROW.index,
    ("total_length", "ttl", "tos", "offset", "flags", "window", "icmp_type", "icmp_code", "payload_offset",
     "payload_length"),
)  # fmt: skip
TUNNEL, INNER_VERSION, INNER_PROTOCOL, INNER_SRC_PORT, INNER_DEST_PORT, INNER_FLAGS, ARP_OP, ARP_VERSION = map(
    NARROW.index,
    ("tunnel", "inner_ipversion", "inner_protocol", "inner_srcPort", "inner_destPort", "inner_flags", "arp_op",
     "arp_ipversion"),
)  # fmt: skip

NULLABLE = WIDE[_WIDE_FIXED:TUNNEL_ID] + NARROW[_NARROW_FIXED:] + WIDE[TUNNEL_ID:]
"""Column names in the order of the bits of the presence mask; columns that most records have are first."""

FIXED = WIDE[:_WIDE_FIXED] + NARROW[:_NARROW_FIXED]
"""Columns that every record has; their bits follow those of `NULLABLE` in a mask of columns."""

_FIRST_NARROW = NULLABLE.index(NARROW[_NARROW_FIXED]) - _NARROW_FIXED  # added to a narrow column gives its bit
_FIRST_TUNNEL = NULLABLE.index("tunnel_id") - TUNNEL_ID  # added to a wide column of tunnels or ARP gives its bit


class Columns(NamedTuple):
    """Output of a kernel: the 64-bit block, the 32-bit block, and the mask of wanted columns."""

    wide: Any
    narrow: Any
    wanted: int


def bits_of(*names: str) -> int:
    """Returns the mask of columns."""
    return sum(1 << (NULLABLE + FIXED).index(name) for name in names)


def _bits(name: str) -> int:
    return bits_of(f"{name}_hi", f"{name}_lo")


EVERY = bits_of(*NULLABLE, *FIXED)
SRC_BITS, DEST_BITS = _bits("srcIP"), _bits("destIP")
INNER_SRC_BITS, INNER_DEST_BITS = _bits("inner_srcIP"), _bits("inner_destIP")
ARP_SRC_BITS, ARP_DEST_BITS = _bits("arp_srcIP"), _bits("arp_destIP")


@part
def bit_of_narrow(column: int) -> int:
    """Returns the bit of a 32-bit column in a mask of columns."""
    return 1 << (column + (_FIRST_NARROW if column >= _NARROW_FIXED else len(NULLABLE) + _WIDE_FIXED))


@part
def bit_of_wide(column: int) -> int:
    """Returns the bit of a 64-bit column in a mask of columns."""
    if column < _WIDE_FIXED:
        return 1 << (column + len(NULLABLE))
    return 1 << (column - _WIDE_FIXED if column < TUNNEL_ID else column + _FIRST_TUNNEL)


@part
def set_narrow(out: Any, column: int, row: int, value: int) -> None:
    """Writes a 32-bit column, if it is wanted.

    Args:
        out: `Columns` of the batch.
        column: row of `out.narrow`, a constant of this module such as `FLAGS`.
        row: number of the record in the batch.
        value: a number of 32 bits.
    """
    if out.wanted & bit_of_narrow(column):
        out.narrow[column, row] = value


@part
def set_wide(out: Any, column: int, row: int, value: int) -> None:
    """Writes a 64-bit column, if it is wanted.

    Args:
        out: `Columns` of the batch.
        column: row of `out.wide`, a constant of this module such as `TIMESTAMP`.
        row: number of the record in the batch.
        value: a number of 64 bits.
    """
    if out.wanted & bit_of_wide(column):
        out.wide[column, row] = value


@part
def put_narrow(out: Any, column: int, row: int, value: int) -> int:
    """Writes a 32-bit column and returns its presence bit; a negative `value` means NULL and returns 0.

    Arguments as of `set_narrow`.
    """
    set_narrow(out, column, row, max(value, 0))
    return bit_of_narrow(column) if value >= 0 else 0


@part
def put_wide(out: Any, column: int, row: int, value: int) -> int:
    """Writes a 64-bit column and returns its presence bit; a negative `value` means NULL and returns 0.

    Arguments as of `set_wide`.
    """
    set_wide(out, column, row, max(value, 0))
    return bit_of_wide(column) if value >= 0 else 0
