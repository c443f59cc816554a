"""Literals of the text as literals of the tree, and the errors of the tree's makers.

Below `build`. Errors leave here with line and column only; `parser` adds the file and its text.
"""

from __future__ import annotations

import math
from ipaddress import IPv4Address, IPv6Address

from lark import Token

from lowwater.errors import QueryError, UnsupportedError
from lowwater.gsql.nodes import Literal, Place

_LARGEST = 2**63 - 1


def place_of(token: Token) -> Place:
    """Where a token begins."""
    return Place(token.line or 0, token.column or 0)


def fault(message: str, hint: str, place: Place) -> QueryError:
    """A QueryError at a place; `parser.parse` adds the file and its text."""
    return QueryError(message, hint, line=place.line, column=place.column)


def refusal(construct: str, hint: str, place: Place) -> UnsupportedError:
    """An UnsupportedError that names the construct; `parser.parse` adds the file and its text."""
    return UnsupportedError(f"Lowwater does not run {construct}", hint, line=place.line, column=place.column)


def unquoted(token: Token) -> str:
    """What stands between the quotes of a token."""
    text = str(token.value)
    return text[text.index("'") + 1 : -1].replace("''", "'")


def integer(token: Token, digits: str, base: int) -> Literal:
    """An integer literal.

    Raises:
        QueryError: it does not fit 64 bits.
    """
    # Python refuses to read thousands of digits: the length is checked first.
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19 or (value := int(digits, base)) > _LARGEST:
        raise fault(
            f"the number {digits[:24]}{'...' if len(digits) > 24 else ''} does not fit a 64-bit integer",
            f"write {_LARGEST} at most",
            place_of(token),
        )
    return Literal("int", value, place_of(token))


def hexadecimal(token: Token) -> Literal:
    """The integer of HEX'ff'."""
    digits = unquoted(token)
    if not digits or digits.strip("0123456789abcdefABCDEF"):
        raise fault(f"`{token.value}` holds no hexadecimal number", "write it as HEX'ff'", place_of(token))
    return integer(token, digits, 16)


def real(token: Token) -> Literal:
    """A float literal."""
    value = float(token.value)
    if math.isinf(value):
        raise fault(f"the number {token.value[:24]} is too large", "write 1.7e308 at most", place_of(token))
    return Literal("float", value, place_of(token))


def number_of(token: Token) -> int | float:
    """The value of a number before a unit, an INT or a FLOAT.

    Raises:
        QueryError: it does not fit.
    """
    read = integer(token, token.value.rstrip("UL"), 10) if token.type == "INT" else real(token)
    assert isinstance(read.value, int | float)
    return read.value


def address(token: Token) -> Literal:
    """The address of IP_VAL'...' or IPV6_VAL'...'."""
    text = unquoted(token)
    version, example = (4, "IP_VAL'192.0.2.1'") if token.type == "IP" else (6, "IPV6_VAL'2001:db8::1'")
    try:
        if "%" in text:
            raise ValueError("zone")
        IPv4Address(text) if version == 4 else IPv6Address(text)
    except ValueError:
        raise fault(f"`{text}` is not an IPv{version} address", f"write it as {example}", place_of(token)) from None
    return Literal("ip", text, place_of(token))
