"""Splits CUBE, ROLLUP and GROUPING_SETS: one partial aggregation by all variables below, the grouping sets above.

The high level expands partial groups instead of packets into the grouping sets. The sub- and superaggregates of a data
cube make this possible (004).
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import Column
from lowwater.plan.operators import Expand, Group, Item, LftaInput, Map, Node, Source
from lowwater.plan.rules.groups import Merging, partial_leaf, whole_reason
from lowwater.plan.rules.setting import Setting


def split_grouping_sets(node: Node, setting: Setting) -> Node | None:
    """Returns both levels of a Group over an Expand over a projection of packets; None for other plans."""
    if not isinstance(node, Group) or not isinstance(node.input, Expand):
        return None
    expand = node.input
    below = expand.input
    if not isinstance(below, Map) or not isinstance(below.input, Source):
        return None
    source = below.input
    arguments = {item.name: item.expr for item in below.items}
    names = [key.name for key in node.keys if key.name != expand.name]
    keys = tuple(item for item in below.items if item.name in names)
    aggregates = [
        aggregate.over(lambda expr: arguments[expr.name] if isinstance(expr, Column) else expr)
        for aggregate in node.aggregates
    ]
    whole = replace(node, input=source, predicate=below.predicate, aggregates=tuple(aggregates))
    if whole_reason(whole, keys, setting):
        return None
    merging = Merging.of(aggregates, setting)
    key_fields = tuple(field for field in below.fields if field.name in names)
    leaf = partial_leaf(whole, source, keys, key_fields, merging, setting)
    return replace(
        node,
        input=_expanded(expand, leaf),
        aggregates=tuple(merging.merged),
        having=merging.over(node.having) if node.having else None,
        items=tuple(Item(item.name, merging.over(item.expr)) for item in node.items),
    )


def _expanded(expand: Expand, leaf: LftaInput) -> Expand:
    fields = tuple(replace(f, temporal=None) if f.name in expand.keys else f for f in leaf.fields)
    number = next(field for field in expand.fields if field.name == expand.name)
    return replace(expand, input=leaf, fields=(*fields, number))
