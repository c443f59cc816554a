"""Implements functions of IP addresses: longest prefix match, and addresses in strings.

A family of the built-in catalog.
"""

from __future__ import annotations

from lowwater.catalog.builtin.files import prefix_id
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Function
from lowwater.catalog.values import pack_ip


def parse_address(text: str) -> bytes | None:
    """Converts a string to an IPv4 or IPv6 address, without surrounding blanks; None if the string is no address."""
    try:
        return pack_ip(text.strip())
    except ValueError:
        return None


# One table holds prefixes of IPv4 and IPv6, so both names share one function.
FUNCTIONS: tuple[Function, ...] = tuple(
    Function(
        name,
        (Type.IP, Type.STRING),
        Type.INT,
        prefix_id,
        lfta=True,
        constant=(1,),
        files=(1,),
    )
    for name in ("getlpmid", "getv6lpmid")
)
