"""Implements functions of numbers: minima, comparisons, conditions, casts, mathematics.

A family of the built-in catalog. Integers are 64-bit and signed, so one function serves int, uint, llong and ullong of
GSQL. A function fails if its result has no value or exceeds 64 bits (V2).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from lowwater.catalog.builtin.base import EVERY, in_range
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Cost, Function
from lowwater.catalog.limits import ZONE
from lowwater.catalog.localdays import of_instant, of_instants

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


# Functions of the calendar of a time zone. A family of the built-in catalog; `catalog.localdays` computes the values
# and, for the planner, their inverse.

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
CALENDAR: tuple[Function, ...] = (LOCAL_DAY,)
