"""Functions of numbers and of flows, with what all families share: 64-bit ranges, subjects and flags."""

from __future__ import annotations

import base64
import hashlib
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from lowwater.catalog import periods
from lowwater.catalog.expr import SUMMABLE, Type
from lowwater.catalog.functions import ZONE, Cost, Function, between
from lowwater.catalog.localdays import of_instant, of_instants
from lowwater.errors import ValueOverflowError

# Helpers

EVERY = tuple(Type)
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


class Stateless:
    """Base of the built-in aggregates. Their states hold only memory, so `destroy` has nothing to free."""

    def destroy(self, state: Any) -> None:
        """Does nothing."""


def summable(value: float) -> float:
    """Returns a float in the range of sums; NaN outside it (`catalog.expr.SUMMED`)."""
    return value if abs(value) <= SUMMABLE else math.nan


def finite(value: float) -> float | None:
    """Returns a finite value; None for infinity or NaN (V2)."""
    return value if math.isfinite(value) else None


def in_range(value: int) -> int | None:
    """Returns an integer; None if it exceeds 64 bits (V2)."""
    return value if INT64_MIN <= value <= INT64_MAX else None


def exact(value: int, name: str) -> int:
    """Returns an exact sum. Raises ValueOverflowError if the sum exceeds 64 bits (O3)."""
    if in_range(value) is None:
        raise ValueOverflowError(
            f"{name}: the sum {value} does not fit 64 bits", "sum a smaller unit or shorter epochs"
        )
    return value


def octets(text: str) -> bytes:
    """Returns the bytes of a string: one byte per character if all are below 256, as in payloads; else UTF-8.

    Example:
        >>> octets("a\\xff").hex()
        '61ff'
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


# Functions of numbers. Integers are 64-bit and signed, so one function serves int, uint, llong and ullong of GSQL. A
# function fails if its result has no value or exceeds 64 bits (V2).

_INTEGER_CASTS = ("INT", "UINT", "LLONG", "ULLONG")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "GEQ": operator.ge,
    "GE": operator.gt,
    "LEQ": operator.le,
    "LE": operator.lt,
}
_MATHEMATICS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "ceil": math.ceil,
    "floor": math.floor,
    "trunc": math.trunc,
}
_MONOTONE = ("ceil", "floor", "trunc")


def smaller(left: Any, right: Any) -> Any:
    """Returns the smaller value; the second one if the values are equal or one is NaN."""
    return left if left < right else right


def larger(left: Any, right: Any) -> Any:
    """Returns the larger value; the first one if the values are equal or one is NaN."""
    return right if left < right else left


def truncated(value: float) -> int | None:
    """Returns the integer part of a float; None if it exceeds 64 bits or the float is not finite.

    Example:
        >>> truncated(-2.7), truncated(1e30)
        (-2, None)
    """
    return in_range(int(value)) if math.isfinite(value) else None


def same(value: Any) -> Any:
    """Returns the value unchanged."""
    return value


def choose(condition: int | bool, then: Any, otherwise: Any) -> Any:
    """Returns the second argument if the first is true or not 0, else the third."""
    return then if condition else otherwise


def address_number(address: bytes) -> int | None:
    """Returns an IPv4 address as a 32-bit number; None for an IPv6 address, which exceeds 64 bits."""
    return int.from_bytes(address[1:], "big") if address[0] == 4 else None


def endian_swap(value: int) -> int:
    """Reverses the four bytes of the low 32 bits.

    Example:
        >>> hex(endian_swap(0x01020304))
        '0x4030201'
    """
    return int.from_bytes((value & 0xFFFFFFFF).to_bytes(4, "little"), "big")


def _as_integer(function: Callable[..., Any], *arguments: Any) -> int | None:
    return truncated(function(*arguments))


def _as_flag(function: Callable[..., bool], *arguments: Any) -> int:
    return int(function(*arguments))


def rounded(value: float, digits: int = 0) -> float:
    """Returns the nearest number of so many decimal digits; halves go away from zero, as in SQL.

    Example:
        >>> rounded(2.5), rounded(-2.5), rounded(1.234, 2)
        (3.0, -3.0, 1.23)
    """
    scale = 10.0**digits
    return math.copysign(math.floor(abs(value) * scale + 0.5), value) / scale


def _guarded(function: Callable[..., float], *arguments: float) -> float | None:
    try:
        return float(function(*arguments))
    except (ValueError, OverflowError):
        return None


def _free(name: str, parameters: tuple[Type, ...], returns: Type, value: Callable[..., Any]) -> Function:
    return Function(name, parameters, returns, value, Cost.FREE, lfta=True)


def _minima() -> list[Function]:
    functions = []
    for suffix, function in (("MIN", smaller), ("MAX", larger)):
        for prefix in ("ULL", "LL", "U", "L"):
            truncating = partial(_as_integer, function)
            functions.append(_free(prefix + suffix, (Type.INT, Type.INT), Type.INT, function))
            functions.append(
                Function(
                    prefix + suffix, (Type.FLOAT, Type.FLOAT), Type.INT, truncating, Cost.FREE, lfta=True, partial=True
                )
            )
        functions.append(_free(f"U{suffix}", (Type.IP, Type.IP), Type.IP, function))
        functions.append(_free(f"F{suffix}", (Type.FLOAT, Type.FLOAT), Type.FLOAT, function))
    return functions


def _conditions() -> list[Function]:
    functions = [
        _free(name, (kind, kind), Type.INT, partial(_as_flag, compare))
        for name, compare in _COMPARISONS.items()
        for kind in (Type.INT, Type.FLOAT)
    ]
    functions += [
        _free(name, (test, kind, kind), kind, choose)
        for name in ("IF", "if_else")
        for test in (Type.BOOL, Type.INT)
        for kind in EVERY
    ]
    for suffix, kind in (("i", Type.INT), ("u", Type.INT), ("ll", Type.INT), ("ul", Type.INT), ("f", Type.FLOAT)):
        functions.append(_free(f"if_else_{suffix}", (Type.INT, kind, kind), kind, choose))
    return functions


def _casts() -> list[Function]:
    functions = []
    for name in _INTEGER_CASTS:
        cast = partial(Function, name, returns=Type.INT, cost=Cost.FREE, lfta=True)
        functions.append(cast(parameters=(Type.INT,), value=same, monotone=True))
        functions.append(cast(parameters=(Type.FLOAT,), value=truncated, partial=True, monotone=True))
        functions.append(cast(parameters=(Type.BOOL,), value=int))
        functions.append(cast(parameters=(Type.INSTANT,), value=same, monotone=True))
        functions.append(cast(parameters=(Type.IP,), value=address_number, partial=True))
    for kind in (Type.INT, Type.FLOAT):
        functions.append(Function("FLOAT", (kind,), Type.FLOAT, float, Cost.FREE, lfta=True, monotone=True))
    functions += [_free("non_temporal", (kind,), kind, same) for kind in EVERY]
    return functions


def _mathematics() -> list[Function]:
    number, pair = (Type.FLOAT,), (Type.FLOAT, Type.FLOAT)
    functions = [
        Function(
            name,
            number,
            Type.FLOAT,
            partial(_guarded, function),
            lfta=True,
            partial=True,
            monotone=name in _MONOTONE,
        )
        for name, function in _MATHEMATICS.items()
    ]
    functions.append(Function("round", number, Type.FLOAT, partial(_guarded, rounded), lfta=True, partial=True))
    digits = ((1, between(0, 15)),)
    functions.append(
        Function(
            "round",
            (Type.FLOAT, Type.INT),
            Type.FLOAT,
            partial(_guarded, rounded),
            lfta=True,
            partial=True,
            limits=digits,
        )
    )
    for name, binary in (("pow", math.pow), ("fmod", math.fmod)):
        functions.append(Function(name, pair, Type.FLOAT, partial(_guarded, binary), lfta=True, partial=True))
    return functions


NUMBERS: tuple[Function, ...] = (
    *_minima(),
    *_conditions(),
    *_casts(),
    *_mathematics(),
    Function("endian_swap_ui", (Type.INT,), Type.INT, endian_swap, lfta=True),
)


# Functions of the calendar; `catalog.localdays` and `catalog.periods` compute them and, for the planner, their inverse.

LOCAL_DAY = Function(
    "local_day",
    (Type.INT, Type.STRING),
    Type.INT,
    of_instant,
    Cost.LOW,
    lfta=True,
    constant=(1,),
    step="day",
    batch=of_instants,
    limits=((1, ZONE),),
)
DATE_TRUNC = Function(
    "date_trunc",
    (Type.STRING, Type.INSTANT),
    Type.INSTANT,
    periods.period,
    lfta=True,
    constant=(0,),
    step="period",
)
DATE_PART = Function(
    "date_part",
    (Type.STRING, Type.INSTANT),
    Type.INT,
    periods.part,
    lfta=True,
    constant=(0,),
)
CALENDAR: tuple[Function, ...] = (LOCAL_DAY, DATE_TRUNC, DATE_PART)


# Community ID, version 1. Corelight publishes the specification (github.com/corelight/community-id-spec).

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
PORTED = frozenset((ICMP, TCP, UDP, ICMPV6, SCTP))
"""Protocols whose flows have ports; for ICMP, type and code replace the ports."""

_PAIRS = {
    ICMP: ((8, 0), (13, 14), (15, 16), (10, 9), (17, 18)),
    ICMPV6: ((128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)),
}
# A request and its reply are one flow: the type of the reply replaces the destination port. A type without a reply
# keeps its code as the destination port; such a flow has one direction.
_ANSWERS = {
    protocol: {sent: answer for pair in pairs for sent, answer in (pair, pair[::-1])}
    for protocol, pairs in _PAIRS.items()
}


def community_id(
    source: bytes, destination: bytes, protocol: int, source_port: int, destination_port: int, seed: int = 0
) -> str | None:
    """Returns the Community ID of a flow with ports, equal for both directions.

    Args:
        source: the source address, as a value of `catalog.values`.
        protocol: the number of the IP protocol; outside `PORTED`, the function ignores the ports.
        source_port: the source port; the type for ICMP and ICMPv6.
        destination_port: the destination port; the code for ICMP and ICMPv6.
        seed: the seed of the hash, 16 bits.

    Returns:
        `1:` and the SHA-1 in base64; None if the families differ or a number is too large for its field.

    Example:
        >>> from lowwater.catalog.values import pack_ip
        >>> community_id(pack_ip("128.232.110.120"), pack_ip("66.35.250.204"), 6, 34855, 80)
        '1:LQU9qZlK+B5F3KDmev6m5PMibrg='
    """
    if not (0 <= source_port <= 0xFFFF and 0 <= destination_port <= 0xFFFF):
        return None
    if protocol not in PORTED:
        return community_id_without_ports(source, destination, protocol, seed)
    one_way = False
    if protocol in _ANSWERS:
        answer = _ANSWERS[protocol].get(source_port)
        one_way = answer is None
        destination_port = destination_port if answer is None else answer
    ends = [(source[1:], source_port.to_bytes(2, "big")), (destination[1:], destination_port.to_bytes(2, "big"))]
    if not one_way:
        ends.sort()
    ports = b"".join(port for _, port in ends)
    return _hashed([address for address, _ in ends], protocol, ports, seed)


def community_id_without_ports(source: bytes, destination: bytes, protocol: int, seed: int = 0) -> str | None:
    """Returns the Community ID of a flow of a protocol without ports, such as GRE.

    Arguments as of `community_id`.

    Returns:
        The Community ID; None for a protocol with ports, whose flows differ in their ports.
    """
    if protocol in PORTED:
        return None
    return _hashed(sorted((source[1:], destination[1:])), protocol, b"", seed)


def _hashed(addresses: list[bytes], protocol: int, ports: bytes, seed: int) -> str | None:
    if len(addresses[0]) != len(addresses[1]) or not 0 <= protocol <= 0xFF:
        return None
    text = seed.to_bytes(2, "big") + b"".join(addresses) + bytes((protocol, 0)) + ports
    return "1:" + base64.b64encode(hashlib.sha1(text, usedforsecurity=False).digest()).decode("ascii")


_ENDS = (Type.IP, Type.IP, Type.INT)
_PORTS = (Type.INT, Type.INT)
_PROTOCOL = ((2, between(0, 0xFF)),)
_NUMBERS = (*_PROTOCOL, (3, between(0, 0xFFFF)), (4, between(0, 0xFFFF)))
FLOWS: tuple[Function, ...] = (
    Function("community_id", (*_ENDS, *_PORTS), Type.STRING, community_id, Cost.HIGH, partial=True, limits=_NUMBERS),
    Function(
        "community_id",
        (*_ENDS, *_PORTS, Type.INT),
        Type.STRING,
        community_id,
        Cost.HIGH,
        partial=True,
        constant=(5,),
        limits=(*_NUMBERS, (5, between(0, 0xFFFF))),
    ),
    Function("community_id", _ENDS, Type.STRING, community_id_without_ports, Cost.HIGH, partial=True, limits=_PROTOCOL),
)
