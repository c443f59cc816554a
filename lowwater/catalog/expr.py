"""Bound expressions: typed trees over the columns of one input row.

Below the binder every stage reads these and nothing of the text: `low` compiles them with numba, `high` lowers
them to Spark columns, `reference` interprets them. The rules of values are SEMANTICS V1 and V2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from lowwater.catalog.functions import Function, StateFunction
from lowwater.catalog.types import Type as Type
from lowwater.catalog.values import format_ip, format_mac

ARITHMETIC = ("+", "-", "*", "/", "%")
BITWISE = ("&", "|", "<<", ">>")
COMPARISON = ("=", "<>", "<", "<=", ">", ">=")
LOGICAL = ("AND", "OR")
SUMMED = "SUMMED"
"""Unary: a float as SUM and AVG take it; NaN, which no sum loses again, where it is beyond SUMMABLE or not finite."""

SUMMABLE = 2.0**960
"""Largest magnitude of a float that is summed: 2^63 of them do not leave a float, in any order (V2)."""


@dataclass(frozen=True)
class Expr:
    """Base of bound expressions; `type` is the type of the value."""

    type: Type

    def children(self) -> tuple[Expr, ...]:
        return ()


@dataclass(frozen=True)
class Const(Expr):
    """A literal. `value` is int, float, bool, str, bytes (an IP as `pack_ip` gives it) or None.

    `param` names the parameter that it is the value of: code that is kept does not hold such a value.
    """

    value: int | float | bool | str | bytes | None
    param: str = field(default="", repr=False)


@dataclass(frozen=True)
class Column(Expr):
    """A column of the input row, by name; `place` is the line and column of the text where one is read."""

    name: str
    place: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Param(Expr):
    """`$name` without a value: a constant that is known when the query runs; `place` as of a column."""

    name: str
    place: tuple[int, int] = field(default=(0, 0), compare=False, repr=False)


@dataclass(frozen=True)
class Unary(Expr):
    """`-`, `~` (integers), `NOT`, `IS NULL` or SUMMED."""

    op: str
    operand: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Binary(Expr):
    """One operator of ARITHMETIC, BITWISE, COMPARISON or LOGICAL; both sides have types that it accepts."""

    op: str
    left: Expr
    right: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Call(Expr):
    """A function of the catalog, with arguments of its types; NULL where one of them is.

    Attributes:
        place: line and column of the text, for the message of an engine that does not run it.
    """

    function: Function
    arguments: tuple[Expr, ...]
    place: tuple[int, int] = field(default=(0, 0), compare=False)

    def children(self) -> tuple[Expr, ...]:
        return self.arguments


@dataclass(frozen=True)
class StateCall(Expr):
    """A stateful function of the sampling operator: its state is that of the row's supergroup."""

    function: StateFunction
    arguments: tuple[Expr, ...]
    place: tuple[int, int] = field(default=(0, 0), compare=False)

    def children(self) -> tuple[Expr, ...]:
        return self.arguments


@dataclass(frozen=True)
class Case(Expr):
    """The value beside the first condition that is true, else `otherwise`; all values have one type."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr

    def children(self) -> tuple[Expr, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)


@dataclass(frozen=True)
class OneOf(Expr):
    """`operand IN` a long list of constants: one operator, whatever its length; NULL where the operand is.

    Attributes:
        kind: type at which values are compared: FLOAT where either side is, else that of both.
        values: of `kind`, each once, in the order of the text; none is NULL.
    """

    operand: Expr
    kind: Type
    values: tuple[int | float | bool | str | bytes, ...] = field(repr=False)

    def children(self) -> tuple[Expr, ...]:
        return (self.operand,)

    def holds(self) -> Callable[[int | float | bool | str | bytes], bool]:
        """The test of one value of the operand."""
        known = frozenset(self.values)
        return (lambda value: float(value) in known) if self.kind is Type.FLOAT else known.__contains__


def walk(expr: Expr) -> Iterator[Expr]:
    """Yields the expression and all below it, parents first."""
    yield expr
    for child in expr.children():
        yield from walk(child)


def place_of(*exprs: Expr | None) -> tuple[int, int]:
    """Line and column of the first part of some expressions that has a place in the text; (0, 0) for none."""
    places = (getattr(node, "place", (0, 0)) for expr in exprs if expr is not None for node in walk(expr))
    return next((place for place in places if place != (0, 0)), (0, 0))


def columns_of(*exprs: Expr | None) -> list[str]:
    """Names of the columns that the expressions read, each once, in order of first use."""
    names: dict[str, None] = {}
    for expr in exprs:
        if expr is not None:
            for node in walk(expr):
                if isinstance(node, Column):
                    names[node.name] = None
    return list(names)


def rewrite(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuilds a tree bottom-up, `change` applied to every node.

    Example:
        >>> time = Column(Type.INT, "time")
        >>> rewrite(Unary(Type.INT, "-", time), lambda e: Const(Type.INT, 7) if e == time else e)
        Unary(type=<Type.INT: 'int'>, op='-', operand=Const(type=<Type.INT: 'int'>, value=7))
    """
    return change(with_children(expr, [rewrite(child, change) for child in expr.children()]))


def with_children(expr: Expr, below: Sequence[Expr]) -> Expr:
    """The expression with other children, in the order of `children()`."""
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


CHAIN = 16
"""So many operands of AND or OR lean to the left, as written; of a longer list so many make one operand of the next."""


def joined(op: str, operands: Sequence[Expr]) -> Expr:
    """Conditions, at least one, joined by AND or OR, which are associative: a long list makes no deep tree."""
    parts = list(operands)
    while len(parts) > 1:
        parts = [
            reduce(lambda left, right: Binary(Type.BOOL, op, left, right), parts[at : at + CHAIN])
            for at in range(0, len(parts), CHAIN)
        ]
    return parts[0]


_BINDING = {"OR": 1, "AND": 2, "=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "&": 6}
_BINDING |= {"<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9}


def show(expr: Expr, outer: int = 0) -> str:
    """The expression as GSQL text, with as few parentheses as keep its meaning.

    Example:
        >>> show(Binary(Type.INT, "/", Column(Type.INT, "time"), Const(Type.INT, 10)))
        'time/10'
    """
    if isinstance(expr, Const):
        return _show_const(expr)
    if isinstance(expr, Column):
        return expr.name
    if isinstance(expr, Unary):
        if expr.op == SUMMED:
            return show(expr.operand, outer)
        if expr.op == "IS NULL":
            text = f"{show(expr.operand, 4)} IS NULL"
            return f"({text})" if outer > 4 else text
        space = " " if expr.op == "NOT" else ""
        return f"{expr.op}{space}{show(expr.operand, 3 if expr.op == 'NOT' else 10)}"
    if isinstance(expr, Binary):
        power = _BINDING[expr.op]
        tight = expr.op in ("*", "/", "%")
        op = expr.op if tight else f" {expr.op} "
        text = f"{show(expr.left, power)}{op}{show(expr.right, power if expr.op in LOGICAL else power + 1)}"
        return f"({text})" if power < outer else text
    return _show_wide(expr)


def _show_wide(expr: Expr) -> str:
    if isinstance(expr, Param):
        return expr.name if expr.name.startswith("@") else f"${expr.name}"
    if isinstance(expr, OneOf):
        values = ", ".join(_show_const(Const(expr.kind, value)) for value in expr.values)
        return f"({show(expr.operand, 4)} IN [{values}])"
    if isinstance(expr, Call) and expr.function.name == "like":
        return f"{show(expr.arguments[0], 4)} LIKE {show(expr.arguments[1], 5)}"
    if isinstance(expr, Call):
        arguments = ", ".join(show(each) for each in expr.arguments)
        return f"{expr.function.name}[{arguments}]" if expr.function.predicate else f"{expr.function.name}({arguments})"
    if isinstance(expr, StateCall):
        return f"{expr.function.name}({', '.join(show(each) for each in expr.arguments)})"
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
    if isinstance(expr.value, str):
        return "'" + expr.value.replace("'", "''") + "'"
    return str(expr.value)
