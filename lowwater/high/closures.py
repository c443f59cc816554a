"""Bound expressions as Python closures, for operators whose state is Python: values as SEMANTICS V1 and V2 say.

Below the stateful operators of the lowering, beside `expressions`, which makes Spark columns of the same trees.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lowwater.catalog.builtin.base import in_range
from lowwater.catalog.calls import checked
from lowwater.catalog.expr import BITWISE, COMPARISON, Binary, Call, Case, Column, Const, Expr, Type, Unary

Closure = Callable[[Sequence[Any]], Any]


def closure(expr: Expr, names: Sequence[str]) -> Closure:
    """The value of an expression over rows with columns of these names; what has no value is None."""
    if isinstance(expr, Const):
        value = float(expr.value) if expr.type is Type.FLOAT and isinstance(expr.value, int) else expr.value
        return lambda row: value
    if isinstance(expr, Column):
        return operator.itemgetter(list(names).index(expr.name))
    parts = [closure(child, names) for child in expr.children()]
    if isinstance(expr, Case):
        return _case(parts)
    if isinstance(expr, Unary) and expr.op == "IS NULL":
        return lambda row: parts[0](row) is None
    if isinstance(expr, Binary) and expr.op in ("AND", "OR"):
        return _logical(expr.op == "OR", parts[0], parts[1])
    return _strict(_function(expr), parts)


def condition(expr: Expr | None, names: Sequence[str]) -> Callable[[Sequence[Any]], bool]:
    """Whether an expression is true; one that is absent always is."""
    if expr is None:
        return lambda row: True
    value = closure(expr, names)
    return lambda row: value(row) is True


def _case(parts: Sequence[Closure]) -> Closure:
    branches = list(zip(parts[:-1:2], parts[1::2], strict=True))

    def value(row: Sequence[Any]) -> Any:
        return next((then for when, then in branches if when(row) is True), parts[-1])(row)

    return value


def _logical(decides: bool, left: Closure, right: Closure) -> Closure:
    def value(row: Sequence[Any]) -> bool | None:
        a, b = left(row), right(row)
        return decides if a is decides or b is decides else None if a is None or b is None else not decides

    return value


def _strict(function: Callable[..., Any], parts: Sequence[Closure]) -> Closure:
    def value(row: Sequence[Any]) -> Any:
        given = [part(row) for part in parts]
        return None if None in given else function(*given)

    return value


def _function(expr: Expr) -> Callable[..., Any]:
    if isinstance(expr, Call):
        return checked(expr.function)
    if isinstance(expr, Unary):
        negative: Callable[[Any], Any] = operator.neg if expr.type is Type.FLOAT else lambda a: in_range(-a)
        return {"NOT": operator.not_, "~": operator.invert}.get(expr.op, negative)
    if not isinstance(expr, Binary):
        raise TypeError(type(expr).__name__)
    if expr.op in BITWISE:
        return _BITS[expr.op]
    real = Type.FLOAT in (expr.left.type, expr.right.type, expr.type)
    found: Callable[..., Any] = _COMPARE[expr.op] if expr.op in COMPARISON else (_REAL if real else _WHOLE)[expr.op]
    if real:
        return lambda a, b: found(float(a), float(b))
    return found if expr.op in COMPARISON else lambda a, b: in_range_or_none(found(a, b))


def in_range_or_none(value: int | None) -> int | None:
    """The value; None where there is none, or 64 bits do not hold it."""
    return None if value is None else in_range(value)


def _quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int | None:
    # As the quotient of the smallest integer and -1 has no value, neither has its remainder.
    quotient = in_range_or_none(_quotient(a, b))
    return None if quotient is None else a - quotient * b


def _shifted(value: int, count: int) -> int | None:
    return ((value << count) + (1 << 63)) % (1 << 64) - (1 << 63) if 0 <= count < 64 else None


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WHOLE: dict[str, Callable[[int, int], int | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}
_REAL: dict[str, Callable[[float, float], float | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: None if b == 0.0 else a / b,
    "%": lambda a, b: None if b == 0.0 else math.nan if math.isinf(a) else math.fmod(a, b),
}
_BITS: dict[str, Callable[[int, int], int | None]] = {
    "&": operator.and_,
    "|": operator.or_,
    "<<": _shifted,
    ">>": lambda a, b: a >> b if 0 <= b < 64 else None,
}
