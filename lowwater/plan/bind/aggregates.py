"""Binds the calls of aggregates: which of the catalog's is meant, its arguments and its type.

Called by `grouping`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.catalog.expr import SUMMED, Const, Expr, Param, Type, Unary
from lowwater.catalog.functions import AggregateFunction
from lowwater.gsql import nodes as syntax
from lowwater.gsql.words import AGGREGATES
from lowwater.plan.bind.choice import choose
from lowwater.plan.bind.operators import number_of
from lowwater.plan.bind.scope import Scope
from lowwater.plan.operators import Aggregate
from lowwater.plan.text import spot

DISTINCT = {"count": "count_distinct"}
"""Aggregates that have a form over distinct values; min and max are the same over all."""


def bind_aggregate(call: syntax.Call, known: Sequence[AggregateFunction], rows: Scope) -> Aggregate:
    """The aggregate that a call means, without its name.

    Raises:
        QueryError: arguments that it does not take.
    """
    name = call.name.lower() if call.name.lower() in AGGREGATES else call.name
    if call.star:
        if name != "count":
            raise rows.text.error(call.place, f"{call.name}(*) means nothing", "write count(*): only count counts rows")
        return Aggregate("", "count", None, Type.INT, place=spot(call))
    if call.brackets:
        raise rows.text.error(call.place, f"{call.name} is an aggregate, written {call.name}(...)")
    arguments = [rows.bind(argument) for argument in call.arguments]
    if name == "count" and not arguments:
        return Aggregate("", "count", None, Type.INT, place=spot(call))
    if call.distinct and name not in ("min", "max"):
        if name not in DISTINCT:
            raise rows.text.error(
                call.place, f"{name}(DISTINCT ...) is not known", "write count(DISTINCT x): only values are counted so"
            )
        name = DISTINCT[name]
        known = [one for one in rows.names.context.catalog.named(name) if isinstance(one, AggregateFunction)]
    return _chosen(name, call, known, arguments, rows)


def _chosen(
    name: str, call: syntax.Call, known: Sequence[AggregateFunction], arguments: list[Expr], rows: Scope
) -> Aggregate:
    if name in ("sum", "avg") and len(arguments) == 1 and arguments[0].type is Type.BOOL:
        arguments = [number_of(arguments[0])]
    found = choose(known, arguments)
    if found is None:
        wanted = " or ".join(dict.fromkeys(f"({', '.join(one.parameters)})" for one in known))
        types = ", ".join(argument.type for argument in arguments)
        raise rows.text.error(call.place, f"{call.name} takes {wanted}, not ({types})")
    function, fitted = found
    assert isinstance(function, AggregateFunction)
    for position in sorted({*range(function.taken, len(fitted)), *function.constant}):
        if not isinstance(fitted[position], Const | Param):
            raise rows.text.error(call.place, f"argument {position + 1} of {call.name} must be a constant")
    udaf = None if function.native and function.fold is None else function
    # An integer sum of a float argument keeps the argument as it was written.
    argument = arguments[0] if udaf is None else fitted[0] if fitted else None
    if udaf is None and argument is not None and argument.type is Type.FLOAT and function.name in ("sum", "avg"):
        argument = Unary(Type.FLOAT, SUMMED, argument)
    return Aggregate("", function.name, argument, function.returns, tuple(fitted[1:]), udaf, spot(call))
