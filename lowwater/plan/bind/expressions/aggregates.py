"""Binds aggregate calls: selects the aggregate of the catalog, its arguments and its type.

Called by `grouping`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import SUMMED, Const, Expr, Param, Type, Unary
from lowwater.catalog.functions import AggregateFunction
from lowwater.catalog.native import NATIVE
from lowwater.gsql import nodes as syntax
from lowwater.plan.bind.expressions.operators import choose, number_of, require_limits
from lowwater.plan.bind.expressions.scope import Scope
from lowwater.plan.operators import Aggregate
from lowwater.plan.text import spot


def bind_aggregate(call: syntax.Call, overloads: Sequence[AggregateFunction], rows: Scope) -> Aggregate:
    """Binds an aggregate call.

    Args:
        call: the call as written.
        overloads: the aggregates of this name, at least one.
        rows: the scope of the arguments.

    Returns:
        The aggregate with an empty name; the caller names its column.

    Raises:
        QueryError: no aggregate of this name takes the arguments.
    """
    name = overloads[0].name
    native = NATIVE.get(name)
    counts = native is not None and native.fold is None
    if call.star and not counts:
        raise rows.text.error(call.place, f"{call.name}(*) means nothing", "write count(*): only count counts rows")
    if call.brackets:
        raise rows.text.error(call.place, f"{call.name} is an aggregate, written {call.name}(...)")
    if call.star or (counts and not call.arguments):
        return Aggregate("", name, None, Type.INT, place=spot(call))
    arguments = [rows.bind(argument) for argument in call.arguments]
    if call.distinct:
        distinct = native.distinct if native is not None else ""
        if not distinct:
            raise rows.text.error(
                call.place, f"{name}(DISTINCT ...) is not known", "write count(DISTINCT x): only values are counted so"
            )
        overloads = rows.names.context.catalog.aggregates_named(distinct)
    return _chosen(call, overloads, arguments, rows)


def _chosen(call: syntax.Call, overloads: Sequence[AggregateFunction], arguments: list[Expr], rows: Scope) -> Aggregate:
    native = NATIVE.get(overloads[0].name)
    sums = native is not None and native.sums
    if sums and len(arguments) == 1 and arguments[0].type is Type.BOOL:
        arguments = [number_of(arguments[0])]
    chosen = choose(overloads, arguments)
    if chosen is None:
        accepted = " or ".join(dict.fromkeys(f"({', '.join(overload.parameters)})" for overload in overloads))
        types = ", ".join(argument.type for argument in arguments)
        raise rows.text.error(call.place, f"{call.name} takes {accepted}, not ({types})")
    function, fitted = chosen
    assert isinstance(function, AggregateFunction)
    require_limits(function, fitted, call.arguments, rows.text)
    for position in sorted({*range(function.taken, len(fitted)), *function.constant}):
        if not isinstance(fitted[position], Const | Param):
            raise rows.text.error(call.place, f"argument {position + 1} of {call.name} must be a constant")
    if function.native is None:
        argument = fitted[0] if fitted else None
        return Aggregate("", function.name, argument, function.returns, tuple(fitted[1:]), function, spot(call))
    (argument,) = fitted
    if argument.type is Type.FLOAT and function.native.sums:
        argument = Unary(Type.FLOAT, SUMMED, argument)
    return Aggregate("", function.name, argument, function.returns, place=spot(call))
