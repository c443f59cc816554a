"""The types of values.

Below expressions and functions, which both use them.
"""

from __future__ import annotations

from enum import StrEnum


class Type(StrEnum):
    """The type of a value.

    Integers are signed with 64 bits (V2). IP is an IPv4 or IPv6 address; IPv4 sorts before IPv6.
    """

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    IP = "ip"
    MAC = "mac"
    STRING = "string"
