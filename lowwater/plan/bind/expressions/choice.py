"""Overload resolution: selects the function of a name that takes the arguments of a call.

Below `scope` and `aggregates`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import Binary, Const, Expr, Type
from lowwater.catalog.functions import AggregateFunction, Function, StateFunction
from lowwater.catalog.limits import Limit
from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.expressions import operators
from lowwater.plan.text import Text, place_of


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
    return operators.number_of(argument) if argument.type is Type.BOOL and kind is Type.INT else None
