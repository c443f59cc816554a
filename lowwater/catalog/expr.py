"""Bound expressions: typed trees over the columns of one input row.

Every stage below the binder reads these instead of the text: `low` compiles them with numba, `high` lowers them to
Spark columns, `reference` interprets them. SEMANTICS V1 and V2 give the rules of values.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lowwater.catalog import functions, records
from lowwater.catalog.values import Type as Type, format_ip, format_mac
from lowwater.instants import format_moment
from lowwater.precedence import POWER, shallow_tree

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparison -> its Python function."""

ARITHMETIC = ("+", "-", "*", "/", "%")
BITWISE = ("&", "|", "<<", ">>")
COMPARISON = tuple(COMPARE)
LOGICAL = ("AND", "OR")
SUMMED = "SUMMED"
"""Unary operator: a float as SUM and AVG add it. It is NaN, which a sum never loses, if infinite or over SUMMABLE."""

SUMMABLE = 2.0**960
"""Largest magnitude of a float that is summed: 2^63 such floats do not overflow, in any order (V2)."""


@dataclass(frozen=True)
class Expr:
    """Base class of bound expressions; `type` is the type of the value."""

    type: Type

    def children(self) -> tuple[Expr, ...]:
        return ()

    @cached_property
    def size(self) -> int:
        """Number of nodes of the tree, where one that stands in several places counts in each."""
        return 1 + sum(child.size for child in self.children())

    def __getstate__(self) -> dict[str, Any]:
        # Equal expressions are equal bytes, whether somebody has asked for their size or not.
        return {name: value for name, value in self.__dict__.items() if name != "size"}


@dataclass(frozen=True)
class Const(Expr):
    """A constant."""

    value: int | float | bool | str | bytes | None  # int, float, bool, str, bytes (an IP value of `pack_ip`) or None
    # the parameter whose value it is, else empty. Cached code does not contain such values.
    param: str = field(default="", repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same constant: -0.0 is equal to 0.0, and another one."""
        return type(other) is Const and self._same == other._same

    @property
    def _same(self) -> tuple[Any, ...]:
        sign = math.copysign(1, self.value) if isinstance(self.value, float) else 1
        return self.type, self.value, sign, self.param


@dataclass(frozen=True)
class Column(Expr):
    """A column of the input row. `place` is line and column of its first mention in the text."""

    name: str
    place: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Param(Expr):
    """`$name` without a value: a constant that is known when the query runs. `place` is as for Column."""

    name: str
    place: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Unary(Expr):
    """An operator with one operand: `-`, `~` (integers), `NOT`, `IS NULL` or SUMMED."""

    op: str
    operand: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Binary(Expr):
    """An operator of ARITHMETIC, BITWISE, COMPARISON or LOGICAL. The binder has checked the types of both sides."""

    op: str
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Call(Expr):
    """A call of a catalog function, with arguments of its types. NULL where an argument is NULL.

    Attributes:
        place: line and column of the text, for the message of an engine that cannot run it.
    """

    function: functions.Function
    arguments: tuple[Expr, ...]
    place: tuple[int, int] = field(default=(0, 0), compare=False)

    def children(self) -> tuple[Expr, ...]:
        return self.arguments


@dataclass(frozen=True)
class StateCall(Expr):
    """A call of a stateful function of the sampling operator, on the state of the row's supergroup."""

    function: functions.StateFunction
    arguments: tuple[Expr, ...]
    place: tuple[int, int] = field(default=(0, 0), compare=False)

    def children(self) -> tuple[Expr, ...]:
        return self.arguments


@dataclass(frozen=True)
class Case(Expr):
    """The value of the first branch whose condition is true, else `otherwise`. All values have one type."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr

    def children(self) -> tuple[Expr, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)


@dataclass(frozen=True)
class OneOf(Expr):
    """`operand IN` a long list of constants, as one operator of any length. NULL where the operand is NULL."""

    operand: Expr
    kind: Type  # the type of comparison: FLOAT if either side is FLOAT, else the type of both sides
    # constants of `kind`, distinct, in the order of the text; none is NULL
    values: tuple[int | float | bool | str | bytes, ...] = field(repr=False)

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def holds(self) -> Callable[[int | float | bool | str | bytes], bool]:
        members = frozenset(self.values)
        return (lambda value: float(value) in members) if self.kind is Type.FLOAT else members.__contains__


def walk(expr: Expr) -> Iterator[Expr]:
    """Yields an expression and all its subexpressions, parents first."""
    yield expr
    for child in expr.children():
        yield from walk(child)


def place_of(*exprs: Expr | None) -> tuple[int, int]:
    """Returns line and column of the first part of the expressions that has a place; (0, 0) if none has."""
    places = (getattr(node, "place", (0, 0)) for expr in exprs if expr is not None for node in walk(expr))
    return next((place for place in places if place != (0, 0)), (0, 0))


def columns_of(*exprs: Expr | None) -> list[str]:
    """Returns the names of the columns that the expressions read, distinct, in order of first use."""
    names: dict[str, None] = {}
    for expr in exprs:
        if expr is not None:
            for node in walk(expr):
                if isinstance(node, Column):
                    names[node.name] = None
    return list(names)


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuilds a tree bottom-up, with `change` applied to every node.

    Example:
        >>> time = Column(Type.INT, "time")
        >>> rewrite(Unary(Type.INT, "-", time), lambda e: Const(Type.INT, 7) if e == time else e)
        Unary(type=<Type.INT: 'int'>, op='-', operand=Const(type=<Type.INT: 'int'>, value=7))
    """
    return change(with_children(expr, [rewrite(child, change) for child in expr.children()]))


def with_children(expr: Expr, below: Sequence[Expr]) -> Expr:
    """Returns the expression with other children, in the order of `children()`."""
    if not below:
        return expr
    if isinstance(expr, Unary | OneOf):
        return replace(expr, operand=below[0])
    if isinstance(expr, Binary):
        return replace(expr, left=below[0], right=below[1])
    if isinstance(expr, Call | StateCall):
        return replace(expr, arguments=tuple(below))
    if isinstance(expr, Case):
        *parts, otherwise = below
        return replace(expr, branches=tuple(zip(parts[::2], parts[1::2], strict=True)), otherwise=otherwise)
    raise TypeError(type(expr).__name__)


def conjuncts(expr: Expr | None) -> list[Expr]:
    """Splits a predicate at its top-level ANDs."""
    if expr is None:
        return []
    if isinstance(expr, Binary) and expr.op == "AND":
        return conjuncts(expr.left) + conjuncts(expr.right)
    return [expr]


def conjunction(parts: list[Expr]) -> Expr | None:
    """Joins predicates by AND; None for an empty list."""
    return joined("AND", parts) if parts else None


def joined(op: str, operands: Sequence[Expr]) -> Expr:
    """Joins conditions by AND or OR, which are associative, into a shallow tree. `operands`: at least one condition."""
    return shallow_tree(operands, lambda left, right: Binary(Type.BOOL, op, left, right))


def show(expr: Expr, outer: int = 0) -> str:
    """Returns the expression as GSQL text, without needless parentheses.

    Args:
        outer: the binding power of the operator around it; 0 for none.

    Example:
        >>> show(Binary(Type.INT, "/", Column(Type.INT, "time"), Const(Type.INT, 10)))
        'time/10'
    """
    if isinstance(expr, Const):
        return _show_const(expr)
    if isinstance(expr, Column):
        return records.field_name(expr.name)
    if isinstance(expr, Unary):
        if expr.op == SUMMED:
            return show(expr.operand, outer)
        if expr.op == "IS NULL":
            text = f"{show(expr.operand, 4)} IS NULL"
            return f"({text})" if outer > 4 else text
        space = " " if expr.op == "NOT" else ""
        return f"{expr.op}{space}{show(expr.operand, 3 if expr.op == 'NOT' else 10)}"
    if isinstance(expr, Binary):
        power = POWER[expr.op]
        tight = expr.op in ("*", "/", "%")
        op = expr.op if tight else f" {expr.op} "
        text = f"{show(expr.left, power)}{op}{show(expr.right, power if expr.op in LOGICAL else power + 1)}"
        return f"({text})" if power < outer else text
    return _show_other(expr)


def _show_other(expr: Expr) -> str:
    if isinstance(expr, Param):
        return expr.name if expr.name.startswith("@") else f"${expr.name}"
    if isinstance(expr, OneOf):
        values = ", ".join(_show_const(Const(expr.kind, value)) for value in expr.values)
        return f"({show(expr.operand, 4)} IN [{values}])"
    if isinstance(expr, Call) and expr.function.name == "like":
        return f"{show(expr.arguments[0], 4)} LIKE {show(expr.arguments[1], 5)}"
    if isinstance(expr, Call):
        arguments = ", ".join(show(argument) for argument in expr.arguments)
        return f"{expr.function.name}[{arguments}]" if expr.function.predicate else f"{expr.function.name}({arguments})"
    if isinstance(expr, StateCall):
        return f"{expr.function.name}({', '.join(show(argument) for argument in expr.arguments)})"
    if isinstance(expr, Case):
        branches = " ".join(f"WHEN {show(when)} THEN {show(then)}" for when, then in expr.branches)
        return f"CASE {branches} ELSE {show(expr.otherwise)} END"
    raise TypeError(type(expr).__name__)


def _show_const(expr: Const) -> str:
    if expr.value is None:
        return "NULL"
    if isinstance(expr.value, bool):
        return "TRUE" if expr.value else "FALSE"
    if isinstance(expr.value, bytes):
        text = format_ip(expr.value)
        return f"IPV6_VAL'{text}'" if ":" in text else f"IP_VAL'{text}'"
    if expr.type is Type.MAC:
        return f"'{format_mac(int(expr.value))}'"
    if expr.type is Type.INSTANT:
        return f"TIMESTAMP '{format_moment(int(expr.value))}'"
    if isinstance(expr.value, str):
        return "'" + expr.value.replace("'", "''") + "'"
    return str(expr.value)
