"""The columns that decoding fills, and how a kernel writes one.

Below the decoding kernels: they write into two blocks (64-bit and 32-bit columns) and keep one presence mask a record.
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
NULLABLE = WIDE[_WIDE_FIXED:] + NARROW[_NARROW_FIXED:]
"""Column names: the rows of the 64-bit block, of the 32-bit block, and the bits of the presence mask."""

POSITION, ARRIVAL, TIMESTAMP, SRC_MAC, DEST_MAC, SRC_HI, SRC_LO, DEST_HI, DEST_LO, ID, SEQ, ACK = map(
    WIDE.index,
    ("position", "arrival", "timestamp", "srcMAC", "destMAC", "srcIP_hi", "srcIP_lo", "destIP_hi", "destIP_lo", "id",
     "sequence_number", "ack_number"),
)  # fmt: skip
LEN, CAPLEN, ETHER_TYPE, VLAN, VERSION, PROTOCOL, SRC_PORT, DEST_PORT = map(
    NARROW.index, ("len", "caplen", "ether_type", "vlan_id", "ipversion", "protocol", "srcPort", "destPort")
)
TOTAL, TTL, TOS, FRAGMENT, FLAGS, WINDOW, ICMP_TYPE, ICMP_CODE = map(
    NARROW.index, ("total_length", "ttl", "tos", "offset", "flags", "window", "icmp_type", "icmp_code")
)
_FIRST_NARROW = len(WIDE) - _WIDE_FIXED - _NARROW_FIXED  # what turns a narrow column into its bit
SRC_BITS = (1 << NULLABLE.index("srcIP_hi")) | (1 << NULLABLE.index("srcIP_lo"))
DEST_BITS = (1 << NULLABLE.index("destIP_hi")) | (1 << NULLABLE.index("destIP_lo"))


@part
def put_narrow(narrow: Any, column: int, row: int, value: int) -> int:
    """Writes a 32-bit column, where `value` is not negative; its presence bit."""
    narrow[column, row] = max(value, 0)
    return (1 << (column + _FIRST_NARROW)) if value >= 0 else 0


@part
def put_wide(wide: Any, column: int, row: int, value: int) -> int:
    """Writes a 64-bit column, where `value` is not negative; its presence bit."""
    wide[column, row] = max(value, 0)
    return (1 << (column - _WIDE_FIXED)) if value >= 0 else 0
