"""The types of values.

Below expressions and functions, which both name them.
"""

from __future__ import annotations

from enum import StrEnum


class Type(StrEnum):
    """Types of values. Integers are 64-bit and signed (V2); IP is an address of either family, v4 below v6."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    IP = "ip"
    MAC = "mac"
    STRING = "string"
