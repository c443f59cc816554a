"""Lets an aggregation absorb the selection right below it: then it can be split where the packets are.

What a selection computes is computed in the keys, the arguments and the predicate of the aggregation; a failure is NULL
in both places (SEMANTICS V2).
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import Expr, conjunction, conjuncts
from lowwater.plan.operators import Aggregate, Aggregation, Item, Map, Node, Sampling
from lowwater.plan.rules.setting import Setting
from lowwater.plan.tree import substitute


def absorb_selection(node: Node, setting: Setting) -> Node | None:
    """The aggregation over the input of its selection."""
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
    found = replace(
        node,
        input=below.input,
        predicate=conjunction(parts),
        keys=tuple(Item(key.name, over(key.expr)) for key in node.keys),
        aggregates=tuple(moved(aggregate) for aggregate in node.aggregates),
    )
    if isinstance(found, Sampling) and isinstance(node, Sampling):
        return replace(found, supers=tuple(moved(each) for each in node.supers))
    return found
