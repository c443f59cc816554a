"""Splits a logical plan into its low and high level.

Third stage of the pipeline. Whatever reads packets directly becomes an LFTA: a selection, or a partial aggregation
that the high level completes (000, section 3.1; subaggregates and superaggregates, 004). Every built-in aggregate
merges exactly for any partition of its input (O2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowwater.catalog.expr import Binary, Column, Expr, Type, rewrite
from lowwater.plan.nodes import (
    Aggregate,
    Field,
    Group,
    Item,
    Join,
    Lfta,
    LftaInput,
    Map,
    Node,
    Partial,
    Source,
    Union,
)

DEFAULT_SLOTS = 1 << 14
"""Groups that an LFTA's table holds unless the query says `aggregate_slots`."""

SUPER = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""Sub-aggregate -> the aggregate that merges it."""


def split(node: Node, slots: Mapping[str, int]) -> Node:
    """The high-level plan; its leaves are the LFTAs.

    Args:
        node: logical plan of one query.
        slots: query -> size of its group tables, a power of two, where it is not the default.
    """
    return _split(node, "", slots)


def _split(node: Node, parent: str, slots: Mapping[str, int]) -> Node:
    """`parent` is the query of an operator above with several inputs: its sources are told apart by their names."""
    if isinstance(node, Group | Map) and isinstance(node.input, Source):
        source = node.input
        name = f"{node.query}.{source.alias}" if parent == node.query else node.query
        size = slots.get(node.query, DEFAULT_SLOTS)
        return _grouped(node, source, name, size) if isinstance(node, Group) else _selected(node, source, name)
    if isinstance(node, Group | Map):
        return replace(node, input=_split(node.input, "", slots))
    if isinstance(node, Union):
        return replace(node, branches=tuple(_split(branch, node.query, slots) for branch in node.branches))
    if isinstance(node, Join):
        left, right = (_split(side, node.query, slots) for side in node.inputs())
        return replace(node, left=left, right=right)
    raise TypeError(type(node).__name__)


def _selected(node: Map, source: Source, name: str) -> LftaInput:
    lfta = Lfta(
        name=name,
        links=source.links,
        protocol=source.protocol,
        member=source.member,
        predicate=node.predicate,
        keys=node.items,
        partials=(),
        aggregates=False,
        slots=1,
        fields=node.fields,
    )
    return LftaInput(node.query, node.fields, lfta)


def _grouped(node: Group, source: Source, name: str, slots: int) -> Group:
    partials: list[Partial] = []
    merged: list[Aggregate] = []
    averages: dict[str, Expr] = {}
    for aggregate in node.aggregates:
        parts = _parts(aggregate)
        partials += parts
        merged += [Aggregate(p.name, SUPER[p.function], Column(p.type, p.name), p.type) for p in parts]
        if aggregate.function == "avg":
            total, count = (Column(p.type, p.name) for p in parts)
            averages[aggregate.name] = Binary(Type.FLOAT, "/", total, count)
    fields = node.key_fields + tuple(Field(p.name, p.type) for p in partials)
    lfta = Lfta(
        name=name,
        links=source.links,
        protocol=source.protocol,
        member=source.member,
        predicate=node.predicate,
        keys=node.keys,
        partials=tuple(partials),
        aggregates=True,
        slots=slots,
        fields=fields,
    )

    def finish(expr: Expr) -> Expr:
        return rewrite(expr, lambda e: averages.get(e.name, e) if isinstance(e, Column) else e)

    return replace(
        node,
        input=LftaInput(node.query, fields, lfta),
        predicate=None,
        keys=tuple(Item(f.name, Column(f.type, f.name)) for f in node.key_fields),
        aggregates=tuple(merged),
        having=finish(node.having) if node.having else None,
        items=tuple(Item(item.name, finish(item.expr)) for item in node.items),
    )


def _parts(aggregate: Aggregate) -> list[Partial]:
    if aggregate.function == "avg":
        assert aggregate.argument is not None
        return [
            Partial(f"{aggregate.name}_sum", "sum", aggregate.argument, aggregate.argument.type),
            Partial(f"{aggregate.name}_count", "count", aggregate.argument, Type.INT),
        ]
    return [Partial(aggregate.name, aggregate.function, aggregate.argument, aggregate.type)]


def lftas_of(node: Node) -> list[Lfta]:
    """The LFTAs below a high-level plan, each once, in order of first use."""
    if isinstance(node, LftaInput):
        return [node.lfta]
    found: dict[str, Lfta] = {}
    for child in node.inputs():
        found.update({lfta.name: lfta for lfta in lftas_of(child)})
    return list(found.values())
