"""Explains why the groups of an aggregation would never close: the error of a GROUP BY without an epoch.

Called by `grouping`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, mul, sub

from lowwater.catalog.expr import Binary, Const, Expr, Type, Unary, show, walk
from lowwater.errors import QueryError
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression
from lowwater.plan.bind.clauses.sources import timeless
from lowwater.plan.bind.expressions.scope import Scope
from lowwater.plan.fields import temporals
from lowwater.plan.operators import Item, Node
from lowwater.plan.temporal import Temporal, infer
from lowwater.plan.text import place_of

_FOLDED: dict[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul}


def endless(
    statement: syntax.Select, written: Sequence[syntax.SelectItem], rows: Scope, node: Node, keys: Sequence[Item]
) -> QueryError:
    """Builds the error of an aggregation without a temporal group-by variable.

    Args:
        statement: the parsed statement.
        written: the group-by variables as written.
        rows: scope of the input rows.
        node: the input of the aggregation.
        keys: the bound group-by variables; the first ones match `written` by position.
    """
    inside = [group for group in statement.group_by if isinstance(group, syntax.Grouping)]
    if inside:
        hint = f"write the epoch beside {inside[0].kind}: GROUP BY time/60 AS tb, {inside[0].kind}(...)"
        message = f"no group-by variable outside {inside[0].kind} is temporal, so no group would ever close"
        return rows.text.error(place_of(statement), message, hint)
    times = temporals(node.fields)
    for item, key in zip(written, keys, strict=False):
        if fault := _no_epoch(key.expr, times):
            message = f"{print_expression(item.expression)} is no epoch, since {fault}: no group would ever close"
            return rows.text.error(place_of(item), message, "divide by a whole number above 0, such as time/60 AS tb")
    temporal = [name for source in rows.sources.values() for name, expr in source.items() if infer(expr, times)]
    if not temporal:
        message = "no column of the source is temporal, so no group would ever close"
        return rows.text.error(place_of(statement), message, timeless(node))
    example = "time/60 AS tb" if "time" in temporal else temporal[0]
    if statement.distinct:
        message = "no column of SELECT DISTINCT is temporal, so no row would ever be final"
        return rows.text.error(place_of(statement), message, f"select an epoch too, such as {example}")
    message = "no group-by variable is temporal, so no group would ever close"
    return rows.text.error(place_of(statement), message, f"add an epoch to GROUP BY, such as {example}, or a window")


def _number(expr: Expr) -> int | None:
    """Computes a sum, difference or product of whole numbers; None for any other expression."""
    if isinstance(expr, Const):
        return expr.value if type(expr.value) is int else None
    parts = [_number(child) for child in expr.children()]
    if isinstance(expr, Unary) and expr.op == "-" and parts[0] is not None:
        return -parts[0]
    if isinstance(expr, Binary) and expr.op in _FOLDED and parts[0] is not None and parts[1] is not None:
        return _FOLDED[expr.op](parts[0], parts[1])
    return None


def _no_epoch(key: Expr, times: dict[str, Temporal]) -> str:
    """Explains why arithmetic on a temporal column yields no epoch; empty if it finds no fault."""
    for part in walk(key):
        if isinstance(part, Binary) and part.op in ("*", "/") and infer(part.left, times):
            if part.right.type is Type.FLOAT:
                return "it is no integer"
            number = _number(part.right)
            if number == 0:
                return "it divides by 0" if part.op == "/" else "it is always 0"
            if number is not None and not isinstance(part.right, Const):
                return f"{show(part.right)} is not written as one number, {number}"
    return ""
