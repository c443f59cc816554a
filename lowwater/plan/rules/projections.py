"""Merges an aggregation with the selection directly below it, so that the next rules can split it over packets.

The aggregation computes the selection's expressions in its keys, arguments and predicate. A failing expression is NULL
in either operator (SEMANTICS V2).
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import Expr, conjunction, conjuncts
from lowwater.plan.operators import Aggregate, Aggregation, Item, Map, Node, Sampling
from lowwater.plan.rules.setting import Setting
from lowwater.plan.tree import outgrows, substitute


def absorb_selection(node: Node, setting: Setting) -> Node | None:
    """Returns the aggregation over the input of its selection; None if the rule does not apply."""
    if not isinstance(node, Aggregation) or not isinstance(node.input, Map) or not setting.one(node, node.input):
        return None
    below = node.input

    def over(expr: Expr) -> Expr:
        return substitute(expr, below.items)

    def moved(aggregate: Aggregate) -> Aggregate:
        argument = None if aggregate.argument is None else over(aggregate.argument)
        return replace(aggregate, argument=argument, more=tuple(over(expr) for expr in aggregate.more))

    parts = conjuncts(below.predicate)
    parts += conjuncts(over(node.predicate)) if node.predicate is not None else []
    merged = replace(
        node,
        input=below.input,
        predicate=conjunction(parts),
        keys=tuple(Item(key.name, over(key.expr)) for key in node.keys),
        aggregates=tuple(moved(aggregate) for aggregate in node.aggregates),
    )
    if isinstance(merged, Sampling) and isinstance(node, Sampling):
        merged = replace(merged, supers=tuple(moved(super_aggregate) for super_aggregate in node.supers))
    return None if outgrows(merged.exprs(), [*node.exprs(), *below.exprs()]) else merged
