"""Evaluates bound expressions over one row: closures built once from the tree.

Values follow SEMANTICS V1 and V2. Nothing raises at run time: an operation without a value gives None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lowwater.catalog import calls, expr as ex, functions

Value = int | float | bool | str | bytes | None
Values = tuple[Value, ...]
Evaluate = Callable[[Values], Any]
OnState = Callable[[functions.StateFunction, Values], Value]
"""Calls a stateful function of the supergroup of a row."""

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


@dataclass
class Faults:
    """Counts V2 failures: operations with NULL as result although no operand was NULL."""

    count: int = 0

    def fault(self) -> None:
        self.count += 1


def compile_expr(expr: ex.Expr, names: Sequence[str], faults: Faults, on_state: OnState | None = None) -> Evaluate:
    """Compiles an expression to a closure. All operands are evaluated, so faults do not depend on their order.

    Args:
        on_state: evaluates stateful functions; None where they are not allowed.

    Example:
        >>> from lowwater.catalog.expr import Binary, Column, Const, Type
        >>> half = Binary(Type.INT, "/", Column(Type.INT, "x"), Const(Type.INT, 2))
        >>> compile_expr(half, ["x"], Faults())((-7,))
        -3
    """
    if isinstance(expr, ex.Const):
        value = float(expr.value) if expr.type is ex.Type.FLOAT and isinstance(expr.value, int) else expr.value
        return lambda row: value
    if isinstance(expr, ex.Column):
        return operator.itemgetter(names.index(expr.name))
    parts = [compile_expr(child, names, faults, on_state) for child in expr.children()]
    if isinstance(expr, ex.Unary) and expr.op == "IS NULL":
        return lambda row: parts[0](row) is None
    if isinstance(expr, ex.Case):
        return _case(list(zip(parts[:-1:2], parts[1::2], strict=True)), parts[-1])
    if isinstance(expr, ex.StateCall):
        return _on_state(expr.function, parts, on_state)
    if isinstance(expr, ex.Binary) and expr.op in ex.LOGICAL:
        return _and(*parts) if expr.op == "AND" else _or(*parts)
    if isinstance(expr, ex.Call | ex.Unary | ex.Binary | ex.OneOf):
        function = calls.checked_function(expr.function) if isinstance(expr, ex.Call) else operation(expr)
        return _strict(function, parts, faults)
    raise TypeError(type(expr).__name__)


def compile_predicate(
    expr: ex.Expr | None, names: Sequence[str], faults: Faults, on_state: OnState | None = None
) -> Callable[[Values], bool]:
    """Compiles a predicate to a test; an absent predicate is always true, and NULL is not true. `on_state`: gives the
    values of stateful functions; None where there are none."""
    if expr is None:
        return lambda row: True
    evaluate = compile_expr(expr, names, faults, on_state)
    return lambda row: evaluate(row) is True


def _on_state(function: functions.StateFunction, parts: Sequence[Evaluate], on_state: OnState | None) -> Evaluate:
    """A call with a NULL argument gives NULL, and the state does not see it."""
    if on_state is None:
        raise TypeError(f"{function.name} stands where no supergroup is")

    def evaluate(row: Values) -> Value:
        values = tuple([part(row) for part in parts])
        return None if None in values else on_state(function, values)

    return evaluate


def _case(branches: Sequence[tuple[Evaluate, ...]], otherwise: Evaluate) -> Evaluate:
    """Evaluates conditions up to the first true one, and only the value beside it."""

    def evaluate(row: Values) -> Value:
        chosen = next((value for condition, value in branches if condition(row) is True), otherwise)
        result: Value = chosen(row)
        return result

    return evaluate


def _strict(function: Callable[..., Value], operands: list[Evaluate], faults: Faults) -> Evaluate:
    """NULL operands give NULL; a result of None without a NULL operand is a fault."""

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


def operation(expr: ex.Expr) -> Callable[..., Value]:
    """The function of an operator over values that are not NULL; AND, OR and IS NULL are handled elsewhere."""
    if isinstance(expr, ex.OneOf):
        return expr.holds()
    assert isinstance(expr, ex.Unary | ex.Binary)
    return _unary(expr) if isinstance(expr, ex.Unary) else _binary(expr)


def _unary(expr: ex.Unary) -> Callable[..., Value]:
    if expr.op == "NOT":
        return operator.not_
    if expr.op == "~":
        return operator.invert
    if expr.op == ex.SUMMED:
        return _summable
    return operator.neg if expr.type is ex.Type.FLOAT else lambda a: _fitting(-a)


def _binary(expr: ex.Binary) -> Callable[..., Value]:
    if expr.op in ex.COMPARISON:
        compare = ex.COMPARE[expr.op]
        if ex.Type.FLOAT in (expr.left.type, expr.right.type):
            return lambda a, b: compare(float(a), float(b))
        return compare
    if expr.op in ex.BITWISE:
        if expr.type is ex.Type.IP:
            return _masked(_BITS[expr.op])
        bits = _BITWISE[expr.op]
        return lambda a, b: _fitting(bits(a, b))
    if expr.type is ex.Type.FLOAT:
        arithmetic = _FLOAT[expr.op]
        return lambda a, b: _finite(arithmetic(float(a), float(b)))
    exact = _INT[expr.op]
    return lambda a, b: _fitting(exact(a, b))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _summable(value: float) -> float:
    return value if abs(value) <= ex.SUMMABLE else math.nan


def _masked(merge: Callable[[int, int], int]) -> Callable[[bytes, bytes], bytes | None]:
    """A bitwise operation on two addresses of one family; None for different families."""

    def call(a: bytes, b: bytes) -> bytes | None:
        if a[0] != b[0]:
            return None
        return a[:1] + bytes(map(merge, a[1:], b[1:]))

    return call


def _fitting(value: int | None) -> int | None:
    return value if value is not None and INT64_MIN <= value <= INT64_MAX else None


def _quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    return abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))


def _remainder(a: int, b: int) -> int | None:
    quotient = _quotient(a, b)
    return None if quotient is None else a - quotient * b


def _shift_left(a: int, count: int) -> int | None:
    return a << count if 0 <= count < 64 else None


def _shift_right(a: int, count: int) -> int | None:
    return a >> count if 0 <= count < 64 else None


def _float_remainder(a: float, b: float) -> float | None:
    if b == 0.0:
        return None
    return None if math.isinf(a) else math.fmod(a, b)


_INT: dict[str, Callable[[int, int], int | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _remainder,
}
_BITS = {"&": operator.and_, "|": operator.or_}
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
