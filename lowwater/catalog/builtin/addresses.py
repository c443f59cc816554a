"""Functions of addresses: the longest prefix that holds one, and addresses in text.

A family of the shipped catalog.
"""

from __future__ import annotations

from lowwater.catalog.builtin.files import prefix_id
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Function
from lowwater.catalog.values import pack_ip


def parse_address(text: str) -> bytes | None:
    """The IPv4 or IPv6 address that the text is, blanks around it left out; None where it is none."""
    try:
        return pack_ip(text.strip())
    except ValueError:
        return None


# One table holds prefixes of both families, so both names do the same.
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
