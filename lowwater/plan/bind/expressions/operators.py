"""Binds operators, CASE and aggregates of expressions, and the hints for what does not fit."""

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
from lowwater.catalog.functions import AggregateFunction, Function, StateFunction
from lowwater.catalog.limits import Limit
from lowwater.catalog.values import pack_ip, parse_mac
from lowwater.gsql import nodes as syntax
from lowwater.plan.text import Text, place_of

# Overload resolution: selects the function of a name that takes the arguments of a call. Below `scope` and
# `aggregates`.


def written(
    overloads: Sequence[Function | AggregateFunction | StateFunction], brackets: bool
) -> Sequence[Function | AggregateFunction | StateFunction]:
    """Selects the overloads that are called with brackets, or without.

    Returns:
        The matching overloads; all overloads if none matches, since the manual mixes both spellings.
    """
    fitting = [
        overload for overload in overloads if not isinstance(overload, Function) or overload.predicate is brackets
    ]
    return fitting or overloads


def choose(
    overloads: Sequence[Function | AggregateFunction | StateFunction], arguments: Sequence[Expr]
) -> tuple[Function | AggregateFunction | StateFunction, list[Expr]] | None:
    """Selects the first overload whose parameters take the arguments.

    Exact types come first. A second pass converts integers to floats, booleans to integers, and NULL to any type.

    Returns:
        The overload and the converted arguments; None if no overload takes the arguments.
    """
    for exact in (True, False):
        for overload in overloads:
            if len(overload.parameters) != len(arguments):
                continue
            converted = [fitted(a, kind, exact) for a, kind in zip(arguments, overload.parameters, strict=True)]
            if all(argument is not None for argument in converted):
                return overload, [argument for argument in converted if argument is not None]
    return None


def require_limits(
    entry: Function | AggregateFunction | StateFunction,
    arguments: Sequence[Expr],
    nodes: Sequence[syntax.Expression],
    text: Text,
) -> None:
    """Checks the constant arguments of a call against the limits of the catalog.

    Args:
        entry: the chosen overload.
        arguments: its bound arguments.
        nodes: the arguments as written.
        text: the file that holds the call, for messages.

    Raises:
        QueryError: an argument is outside of its limit.
    """
    for position, limit in entry.limits:
        require_limit(entry.name, position, limit, arguments[position], nodes[position], text)


def require_limit(name: str, position: int, limit: Limit, argument: Expr, node: syntax.Expression, text: Text) -> None:
    """Checks an argument of a function or operator against a limit, if it is a constant.

    Args:
        name: the name of the function or operator.
        position: the place of the argument, from 0.
        limit: the values that it may have.
        argument: the bound argument.
        node: the argument as written.
        text: the file that holds it, for messages.

    Raises:
        QueryError: it is outside of the limit.
    """
    if not isinstance(argument, Const) or limit.admits(argument.value):
        return
    value = f"{argument.value:g}" if isinstance(argument.value, float) else repr(argument.value)
    written = f"${argument.param} = {value}" if argument.param else value
    message = f"argument {position + 1} of {name} is {written}, and must be {limit.says}"
    raise text.error(place_of(node), message, limit.advice(argument.value))


def fitted(argument: Expr, kind: Type, exact: bool) -> Expr | None:
    """Converts an argument to the type of a parameter.

    Args:
        argument: the bound argument.
        kind: type of the parameter.
        exact: whether to refuse every conversion.

    Returns:
        The argument of type `kind`; None if the parameter does not take the argument.
    """
    if argument.type is kind:
        return argument
    if exact:
        return None
    if isinstance(argument, Const) and argument.value is None:
        return Const(kind, None)
    if argument.type is Type.INT and kind is Type.FLOAT:
        if isinstance(argument, Const) and isinstance(argument.value, int):
            return Const(kind, float(argument.value), argument.param)
        return Binary(Type.FLOAT, "*", argument, Const(Type.FLOAT, 1.0))
    return number_of(argument) if argument.type is Type.BOOL and kind is Type.INT else None


# Types of operators: builds the bound expression of an operator and its operands. Below `scope`. The rules are those
# of SQL (SEMANTICS V1, V2). `dialect` rewrites plans for the rules of Gigascope.

NUMERIC = (Type.INT, Type.FLOAT)

SHORT = 16
"""Most values of an IN list that become equalities. A kernel compares a few values faster than it searches a set."""

LONGEST = 10_000
"""Most values of an IN list. Spark needs one call for each value."""


def unary(op: str, operand: Expr) -> Expr | None:
    """Binds a unary operator; None if it does not apply to the type."""
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
    """Binds a binary operator; None if it does not apply to the types.

    Raises:
        ValueError: a string compared with an address is not an address; the message is the string.
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
    """Parses a string that is compared with an address. Returns any other operand unchanged.

    Raises:
        ValueError: the string is not an address; the message is the string.
    """
    if not (isinstance(side, Const) and isinstance(side.value, str) and other.type in (Type.IP, Type.MAC)):
        return side
    try:
        address = pack_ip(side.value) if other.type is Type.IP else parse_mac(side.value)
        return Const(other.type, address, side.param)
    except ValueError:
        raise ValueError(side.value) from None


def typed(expr: Expr, kind: Type) -> Expr:
    """Gives NULL the type of the other operand. Returns any other operand unchanged."""
    return Const(kind, None) if isinstance(expr, Const) and expr.value is None else expr


def number_of(condition: Expr) -> Expr:
    """Converts a condition to a number: 1 if true, 0 if false, NULL if NULL."""
    one, zero, null = (Const(Type.INT, value) for value in (1, 0, None))
    return Case(Type.INT, ((condition, one), (Unary(Type.BOOL, "NOT", condition), zero)), null)


def any_of(operand: Expr, equals: Sequence[Expr]) -> Expr:
    """Builds `operand IN [values]`: an OR of equalities for a short list, a set of constants for a long list.

    A NULL in the list stays an equality, which is never true and turns false into NULL. A parameter also stays an
    equality, since no plan shows its value.

    Args:
        operand: the left side of IN.
        equals: the equality of the operand with every value.
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
    """Returns the condition, or its negation if `negated`."""
    return Unary(Type.BOOL, "NOT", condition) if negated else condition
