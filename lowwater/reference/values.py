"""Evaluates bound expressions over one row: closures built once from the tree.

Below `reference.operators`. The values are those of SEMANTICS V1 and V2; nothing raises at run time, because what has
no value is None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lowwater.catalog.calls import checked
from lowwater.catalog.expr import BITWISE, COMPARISON, LOGICAL, Binary, Call, Case, Column, Const, Expr, Type, Unary

Value = int | float | bool | str | bytes | None
Values = tuple[Value, ...]
Evaluate = Callable[[Values], Any]

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass
class Faults:
    """Counts the failures of V2: operations that gave NULL over values that were not NULL."""

    count: int = 0

    def fault(self) -> None:
        self.count += 1


def compile_expr(expr: Expr, names: Sequence[str], faults: Faults) -> Evaluate:
    """The closure that evaluates an expression; operands are all evaluated, so faults do not depend on their order.

    Args:
        expr: over the columns `names`.
        names: of the values of a row, in order.
        faults: counts the failures of every evaluation.

    Example:
        >>> half = Binary(Type.INT, "/", Column(Type.INT, "x"), Const(Type.INT, 2))
        >>> compile_expr(half, ["x"], Faults())((-7,))
        -3
    """
    if isinstance(expr, Const):
        value = float(expr.value) if expr.type is Type.FLOAT and isinstance(expr.value, int) else expr.value
        return lambda row: value
    if isinstance(expr, Column):
        return operator.itemgetter(names.index(expr.name))
    if isinstance(expr, Unary) and expr.op == "IS NULL":
        operand = compile_expr(expr.operand, names, faults)
        return lambda row: operand(row) is None
    if isinstance(expr, Case):
        branches = [tuple(compile_expr(part, names, faults) for part in branch) for branch in expr.branches]
        return _case(branches, compile_expr(expr.otherwise, names, faults))
    if isinstance(expr, Call):
        return _strict(checked(expr.function), [compile_expr(each, names, faults) for each in expr.arguments], faults)
    if isinstance(expr, Unary):
        return _strict(_unary(expr), [compile_expr(expr.operand, names, faults)], faults)
    if isinstance(expr, Binary):
        sides = [compile_expr(side, names, faults) for side in expr.children()]
        if expr.op in LOGICAL:
            return _and(*sides) if expr.op == "AND" else _or(*sides)
        return _strict(_binary(expr), sides, faults)
    raise TypeError(type(expr).__name__)


def compile_predicate(expr: Expr | None, names: Sequence[str], faults: Faults) -> Callable[[Values], bool]:
    """Whether the predicate is true; one that is absent always is, one that is NULL is not."""
    if expr is None:
        return lambda row: True
    evaluate = compile_expr(expr, names, faults)
    return lambda row: evaluate(row) is True


def _case(branches: Sequence[tuple[Evaluate, ...]], otherwise: Evaluate) -> Evaluate:
    """Only the conditions up to the first that is true and the value beside it are evaluated, and can fail."""

    def evaluate(row: Values) -> Value:
        chosen = next((value for condition, value in branches if condition(row) is True), otherwise)
        found: Value = chosen(row)
        return found

    return evaluate


def _strict(function: Callable[..., Value], operands: list[Evaluate], faults: Faults) -> Evaluate:
    """NULL over NULL; a result of None over values is a fault."""

    def evaluate(row: Values) -> Value:
        values = [operand(row) for operand in operands]
        if None in values:
            return None
        result = function(*values)
        if result is None:
            faults.fault()
        return result

    return evaluate


def _and(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(row: Values) -> bool | None:
        a, b = left(row), right(row)
        return False if a is False or b is False else None if a is None or b is None else True

    return evaluate


def _or(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(row: Values) -> bool | None:
        a, b = left(row), right(row)
        return True if a is True or b is True else None if a is None or b is None else False

    return evaluate


def _unary(expr: Unary) -> Callable[..., Value]:
    if expr.op == "NOT":
        return operator.not_
    if expr.op == "~":
        return operator.invert
    return operator.neg if expr.type is Type.FLOAT else lambda a: _fitting(-a)


def _binary(expr: Binary) -> Callable[..., Value]:
    if expr.op in COMPARISON:
        compare = _COMPARE[expr.op]
        if Type.FLOAT in (expr.left.type, expr.right.type):
            return lambda a, b: compare(float(a), float(b))
        return compare
    if expr.op in BITWISE:
        return _BITWISE[expr.op]
    if expr.type is Type.FLOAT:
        arithmetic = _FLOAT[expr.op]
        return lambda a, b: arithmetic(float(a), float(b))
    exact = _INT[expr.op]
    return lambda a, b: _fitting(exact(a, b))


def _fitting(value: int | None) -> int | None:
    return value if value is not None and INT64_MIN <= value <= INT64_MAX else None


def _quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def _remainder(a: int, b: int) -> int | None:
    quotient = _fitting(_quotient(a, b))
    return None if quotient is None else a - quotient * b


def _shift_left(a: int, count: int) -> int | None:
    if not 0 <= count < 64:
        return None
    low = (a << count) & ((1 << 64) - 1)
    return low - (1 << 64) if low > INT64_MAX else low


def _shift_right(a: int, count: int) -> int | None:
    return a >> count if 0 <= count < 64 else None


def _float_remainder(a: float, b: float) -> float | None:
    if b == 0.0:
        return None
    return math.nan if math.isinf(a) else math.fmod(a, b)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_INT: dict[str, Callable[[int, int], int | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}
_BITWISE: dict[str, Callable[[int, int], int | None]] = {
    "&": operator.and_,
    "|": operator.or_,
    "<<": _shift_left,
    ">>": _shift_right,
}
_FLOAT: dict[str, Callable[[float, float], float | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: None if b == 0.0 else a / b,
    "%": _float_remainder,
}
