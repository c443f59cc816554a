"""Chooses among the functions of one name the one that takes the arguments of a call.

Below `scope` and `aggregates`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import Binary, Const, Expr, Type
from lowwater.catalog.functions import AggregateFunction, Function, StateFunction
from lowwater.plan.bind.expressions import operators


def written(
    known: Sequence[Function | AggregateFunction | StateFunction], brackets: bool
) -> Sequence[Function | AggregateFunction | StateFunction]:
    """Those that are written so, with brackets or without; all where none is, since the manual mixes both."""
    fitting = [one for one in known if not isinstance(one, Function) or one.predicate is brackets]
    return fitting or known


def choose(
    known: Sequence[Function | AggregateFunction | StateFunction], arguments: Sequence[Expr]
) -> tuple[Function | AggregateFunction | StateFunction, list[Expr]] | None:
    """The first whose parameters take the arguments: exactly, else with integers as floats and NULL as anything."""
    for exact in (True, False):
        for one in known:
            if len(one.parameters) != len(arguments):
                continue
            found = [fitted(a, kind, exact) for a, kind in zip(arguments, one.parameters, strict=True)]
            if all(argument is not None for argument in found):
                return one, [argument for argument in found if argument is not None]
    return None


def fitted(argument: Expr, kind: Type, exact: bool) -> Expr | None:
    """An argument as a parameter takes it; None where it does not, with `exact` but for its very type."""
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
