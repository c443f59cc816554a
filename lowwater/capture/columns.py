"""The columns that decoding fills, and how a kernel writes one.

Below the decoding kernels: they write into two blocks (64-bit and 32-bit columns) and keep one presence mask a record.
The columns of ARP and of tunnels stand last in both, so that a batch without any never touches them.
What is NULL is left as it is.
"""

from __future__ import annotations

from typing import Any

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
"""Column names in the order of the bits of the presence mask: what most records have, first."""

_FIRST_NARROW = NULLABLE.index(NARROW[_NARROW_FIXED]) - _NARROW_FIXED  # what turns a narrow column into its bit
_FIRST_TUNNEL = NULLABLE.index("tunnel_id") - TUNNEL_ID  # and a wide one from the tunnel's on


def bits_of(*names: str) -> int:
    """The presence bits of some columns."""
    return sum(1 << NULLABLE.index(name) for name in names)


def _bits(name: str) -> int:
    return bits_of(f"{name}_hi", f"{name}_lo")


SRC_BITS, DEST_BITS = _bits("srcIP"), _bits("destIP")
INNER_SRC_BITS, INNER_DEST_BITS = _bits("inner_srcIP"), _bits("inner_destIP")
ARP_SRC_BITS, ARP_DEST_BITS = _bits("arp_srcIP"), _bits("arp_destIP")


@part
def put_narrow(narrow: Any, column: int, row: int, value: int) -> int:
    """Writes a 32-bit column, where `value` is not negative; its presence bit."""
    narrow[column, row] = max(value, 0)
    return (1 << (column + _FIRST_NARROW)) if value >= 0 else 0


@part
def put_wide(wide: Any, column: int, row: int, value: int) -> int:
    """Writes a 64-bit column, where `value` is not negative; its presence bit."""
    wide[column, row] = max(value, 0)
    if value < 0:
        return 0
    return 1 << (column - _WIDE_FIXED if column < TUNNEL_ID else column + _FIRST_TUNNEL)
