"""Drops the columns of a union that its one reader does not use: projections as low as they go.

The inputs of other operators are projected when they are bound; a MERGE of protocols brings all their columns. A reader
that sees the order of its rows needs all of them, as the canonical order of a query's rows is by all columns (O1).
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import columns_of
from lowwater.plan.operators import Aggregation, Map, Node, Union
from lowwater.plan.rules.setting import Setting


def prune_columns(node: Node, setting: Setting) -> Node | None:
    """A selection or aggregation over a narrower union."""
    if not isinstance(node, Map | Aggregation) or not isinstance(node.input, Union):
        return None
    union = node.input
    if not setting.one(node, union) or node.query in setting.ordered:
        return None
    used = set(_read(node))
    kept = [at for at, field in enumerate(union.fields) if field.name in used]
    # A branch that others read too stays as they read it.
    own = all(isinstance(branch, Map) and setting.one(union, branch) for branch in union.branches)
    if len(kept) == len(union.fields) or not own:
        return None
    # A row without any column has no place in a stream.
    kept = kept or [next((at for at, field in enumerate(union.fields) if field.temporal), 0)]
    branches = tuple(_narrow(branch, kept) for branch in union.branches if isinstance(branch, Map))
    fields = tuple(union.fields[at] for at in kept)
    return replace(node, input=replace(union, fields=fields, branches=branches))


def _narrow(branch: Map, kept: list[int]) -> Map:
    fields = tuple(branch.fields[at] for at in kept)
    return replace(branch, fields=fields, items=tuple(branch.items[at] for at in kept))


def _read(node: Map | Aggregation) -> list[str]:
    if isinstance(node, Map):
        return columns_of(node.predicate, *(item.expr for item in node.items))
    arguments = [expr for aggregate in node.aggregates for expr in (aggregate.argument, *aggregate.more)]
    return columns_of(node.predicate, *(key.expr for key in node.keys), *arguments)
