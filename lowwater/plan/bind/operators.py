"""Types of operators: which bound expression two operands and an operator make.

Below `scope`. The rules are SQL's (SEMANTICS V1, V2); `dialect` turns them into those of the old compilers.
"""

from __future__ import annotations

from lowwater.catalog.expr import ARITHMETIC, BITWISE, COMPARISON, LOGICAL, Binary, Case, Const, Expr, Type, Unary
from lowwater.catalog.values import pack_ip, parse_mac

NUMERIC = (Type.INT, Type.FLOAT)


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


def any_of(operand: Expr, values: list[Expr]) -> Expr | None:
    """`operand IN [values]` as equalities joined by OR, None where the types do not go together.

    Raises:
        ValueError: as `binary`.
    """
    whole: Expr | None = None
    for value in values:
        equal = binary("=", operand, value)
        if equal is None:
            return None
        whole = equal if whole is None else Binary(Type.BOOL, "OR", whole, equal)
    return whole


def negate(condition: Expr, negated: bool) -> Expr:
    """The condition, or its negation."""
    return Unary(Type.BOOL, "NOT", condition) if negated else condition
