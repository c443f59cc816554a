"""How the columns of a query came to be: counted, computed, or a field of a record as it was.

The review pages propose what to plot by it.
"""

from __future__ import annotations

from enum import IntEnum

from lowwater.catalog.expr import Column, Expr, columns_of
from lowwater.plan.fields import Item
from lowwater.plan.operators import Aggregation, Node, Union
from lowwater.plan.tree import walk


class Measure(IntEnum):
    """What a column is, what is best to sum first."""

    COUNT = 0
    AGGREGATE = 1
    COMPUTED = 2
    FIELD = 3
    """A field of a record, such as a port or a length, or a value by which rows are grouped."""


def measures(node: Node) -> dict[str, Measure]:
    """Returns what each output column of a logical plan is, through joins, merges and queries that others read.

    Args:
        node: a logical plan.
    """
    found: dict[int, dict[str, Measure]] = {}
    for part in walk(node, done=found):
        below = [found[id(each)] for each in part.inputs()]
        found[id(part)] = _of(part, below)
    return found[id(node)]


def _of(node: Node, below: list[dict[str, Measure]]) -> dict[str, Measure]:
    names = {name: measure for each in below for name, measure in each.items()}
    if isinstance(node, Aggregation):
        names = dict.fromkeys((key.name for key in node.keys), Measure.FIELD)
        for each in node.aggregates:
            names[each.name] = Measure.COUNT if each.function in ("count", "sum") else Measure.AGGREGATE
    for side, alias in enumerate(("left_alias", "right_alias")):
        if prefix := getattr(node, alias, ""):
            names |= {f"{prefix}.{name}": measure for name, measure in below[side].items()}
    items: tuple[Item, ...] | None = getattr(node, "items", None)
    if items is not None:
        return {item.name: _measure(item.expr, names) for item in items}
    if isinstance(node, Union):
        return dict(zip((field.name for field in node.fields), below[0].values(), strict=True))
    return {field.name: names.get(field.name, Measure.FIELD) for field in node.fields}


def _measure(expr: Expr, names: dict[str, Measure]) -> Measure:
    if isinstance(expr, Column):
        return names.get(expr.name, Measure.FIELD)
    used = [names.get(name, Measure.FIELD) for name in columns_of(expr)]
    if not used:
        return Measure.FIELD
    return Measure.AGGREGATE if min(used) < Measure.COMPUTED else Measure.COMPUTED
