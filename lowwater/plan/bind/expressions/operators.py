"""Types of operators: which bound expression two operands and an operator make.

Below `scope`. The rules are SQL's (SEMANTICS V1, V2); `dialect` turns them into those of the old compilers.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import (
    ARITHMETIC,
    BITWISE,
    COMPARISON,
    LOGICAL,
    Binary,
    Case,
    Const,
    Expr,
    OneOf,
    Type,
    Unary,
    joined,
)
from lowwater.catalog.values import pack_ip, parse_mac

NUMERIC = (Type.INT, Type.FLOAT)

SHORT = 16
"""Values of an IN list that are compared one by one: a kernel does so faster than it asks for a set."""

LONGEST = 10_000
"""Most values of an IN list; Spark is given each of them in a call of its own."""


def unary(op: str, operand: Expr) -> Expr | None:
    """The bound operator, None where it does not apply to the type."""
    if op == "!":
        op = "NOT" if operand.type is Type.BOOL else "~"
    if op == "NOT" and operand.type is Type.BOOL:
        return Unary(Type.BOOL, "NOT", operand)
    if op == "-" and operand.type in NUMERIC:
        if isinstance(operand, Const) and isinstance(operand.value, int | float):
            return Const(operand.type, -operand.value, operand.param and f"-{operand.param}")
        return Unary(operand.type, "-", operand)
    if op == "~" and operand.type is Type.INT:
        return Unary(Type.INT, "~", operand)
    return None


def binary(op: str, left: Expr, right: Expr) -> Expr | None:
    """The bound operator, None where it does not apply to the types.

    Raises:
        ValueError: a string beside an address is no address; the message is the string.
    """
    if op in COMPARISON:
        left, right = addressed(left, right), addressed(right, left)
    left, right = typed(left, right.type), typed(right, left.type)
    if op in LOGICAL:
        return Binary(Type.BOOL, op, left, right) if left.type is right.type is Type.BOOL else None
    if op in COMPARISON:
        numbers = left.type in NUMERIC and right.type in NUMERIC
        return Binary(Type.BOOL, op, left, right) if numbers or left.type is right.type else None
    if op in ARITHMETIC:
        if left.type is Type.INT and right.type is Type.INT:
            return Binary(Type.INT, op, left, right)
        numbers = left.type in NUMERIC and right.type in NUMERIC and op != "%"
        return Binary(Type.FLOAT, op, left, right) if numbers else None
    return _bits(op, left, right) if op in BITWISE else None


def _bits(op: str, left: Expr, right: Expr) -> Expr | None:
    if left.type is Type.INT and right.type is Type.INT:
        return Binary(Type.INT, op, left, right)
    if op in ("&", "|"):
        if left.type is right.type is Type.BOOL:
            return Binary(Type.BOOL, "AND" if op == "&" else "OR", left, right)
        if left.type is right.type is Type.IP:
            return Binary(Type.IP, op, left, right)
    return None


def addressed(side: Expr, other: Expr) -> Expr:
    """A string beside an address is the text of one.

    Raises:
        ValueError: it is not; the message is the string.
    """
    if not (isinstance(side, Const) and isinstance(side.value, str) and other.type in (Type.IP, Type.MAC)):
        return side
    try:
        address = pack_ip(side.value) if other.type is Type.IP else parse_mac(side.value)
        return Const(other.type, address, side.param)
    except ValueError:
        raise ValueError(side.value) from None


def typed(expr: Expr, kind: Type) -> Expr:
    """NULL takes the type that it stands beside."""
    return Const(kind, None) if isinstance(expr, Const) and expr.value is None else expr


def number_of(condition: Expr) -> Expr:
    """1 where a condition holds, 0 where it does not, NULL where it is NULL: a boolean among numbers."""
    one, zero, null = (Const(Type.INT, value) for value in (1, 0, None))
    return Case(Type.INT, ((condition, one), (Unary(Type.BOOL, "NOT", condition), zero)), null)


def any_of(operand: Expr, equals: Sequence[Expr]) -> Expr:
    """`operand IN [values]`, of the equality with each value: short lists by OR, the constants of long ones together.

    A NULL in a list stays an equality, which is never true and makes what would be false NULL. So does a parameter,
    whose value stands in no plan.
    """
    if len(equals) <= SHORT:
        return joined("OR", equals)
    kinds: dict[Type, dict[int | float | bool | str | bytes, None]] = {}
    others = []
    for equal in equals:
        assert isinstance(equal, Binary)
        value = equal.right
        if equal.left == operand and isinstance(value, Const) and value.value is not None and not value.param:
            kind = Type.FLOAT if Type.FLOAT in (operand.type, value.type) else value.type
            kinds.setdefault(kind, {})[float(value.value) if kind is Type.FLOAT else value.value] = None
        else:
            others.append(equal)
    parts: list[Expr] = [OneOf(Type.BOOL, operand, kind, tuple(values)) for kind, values in kinds.items()]
    parts += others
    return joined("OR", parts)


def negate(condition: Expr, negated: bool) -> Expr:
    """The condition, or its negation."""
    return Unary(Type.BOOL, "NOT", condition) if negated else condition
