"""Turns literal tokens into nodes, and makes errors with a place.

Below `build`. Errors carry only a line and a column here; `parser` adds the file name and the text.
"""

from __future__ import annotations

import math
from ipaddress import IPv4Address, IPv6Address

from lark import Token

from lowwater.errors import QueryError, UnsupportedError
from lowwater.gsql.nodes import Literal, Place

_LARGEST = 2**63 - 1


def place_of(token: Token) -> Place:
    """Returns the place at which a token begins."""
    return Place(token.line or 0, token.column or 0)


def fault(message: str, hint: str, place: Place) -> QueryError:
    """Returns a QueryError with a place. `parser.parse` adds the file name and the text.

    Args:
        message: the mistake.
        hint: the remedy; empty for none.
        place: the place of the mistake.
    """
    return QueryError(message, hint, line=place.line, column=place.column)


def refusal(construct: str, hint: str, place: Place) -> UnsupportedError:
    """Returns an UnsupportedError that names a construct. `parser.parse` adds the file name and the text.

    Args:
        construct: the construct, as it ends the sentence "Lowwater does not run ...".
        hint: the remedy; empty for none.
        place: the place of the construct.
    """
    return UnsupportedError(f"Lowwater does not run {construct}", hint, line=place.line, column=place.column)


def unquoted(token: Token) -> str:
    """Returns the text between the quotes of a token."""
    text = str(token.value)
    return text[text.index("'") + 1 : -1].replace("''", "'")


def integer(token: Token, digits: str, base: int) -> Literal:
    """Returns an integer literal.

    Args:
        token: the token, for its place.
        digits: the digits of the number.
        base: the base of the digits, 10 or 16.

    Raises:
        QueryError: the number does not fit 64 bits.
    """
    # `int` refuses thousands of digits, so the length is checked first.
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19 or (value := int(digits, base)) > _LARGEST:
        raise fault(
            f"the number {digits[:24]}{'...' if len(digits) > 24 else ''} does not fit a 64-bit integer",
            f"write {_LARGEST} at most",
            place_of(token),
        )
    return Literal("int", value, place_of(token))


def hexadecimal(token: Token) -> Literal:
    """Returns the integer literal of HEX'ff'."""
    digits = unquoted(token)
    if not digits or digits.strip("0123456789abcdefABCDEF"):
        raise fault(f"`{token.value}` holds no hexadecimal number", "write it as HEX'ff'", place_of(token))
    return integer(token, digits, 16)


def real(token: Token) -> Literal:
    """Returns a float literal.

    Raises:
        QueryError: the number is larger than a float.
    """
    value = float(token.value)
    if math.isinf(value):
        raise fault(f"the number {token.value[:24]} is too large", "write 1.7e308 at most", place_of(token))
    return Literal("float", value, place_of(token))


def number_of(token: Token) -> int | float:
    """Returns the value of a number before a unit; the token is an INT or a FLOAT.

    Raises:
        QueryError: the number does not fit 64 bits.
    """
    literal = integer(token, token.value.rstrip("UL"), 10) if token.type == "INT" else real(token)
    assert isinstance(literal.value, int | float)
    return literal.value


def address(token: Token) -> Literal:
    """Returns the literal of IP_VAL'...' or IPV6_VAL'...'.

    Raises:
        QueryError: the text is not an address of this family.
    """
    text = unquoted(token)
    version, example = (4, "IP_VAL'192.0.2.1'") if token.type == "IP" else (6, "IPV6_VAL'2001:db8::1'")
    try:
        if "%" in text:
            raise ValueError("zone")
        IPv4Address(text) if version == 4 else IPv6Address(text)
    except ValueError:
        raise fault(f"`{text}` is not an IPv{version} address", f"write it as {example}", place_of(token)) from None
    return Literal("ip", text, place_of(token))
