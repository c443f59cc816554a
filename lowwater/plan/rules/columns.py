"""Projection pushdown: drops the columns of a union that its only reader does not use.

The binder projects the inputs of other operators, but a MERGE of protocols has all their columns. A reader that depends
on the order of rows needs every column: the canonical order of a query's rows sorts by all columns (O1).
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import columns_of
from lowwater.plan.operators import Aggregation, Map, Node, Union
from lowwater.plan.rules.setting import Setting


def prune_columns(node: Node, setting: Setting) -> Node | None:
    """Returns the selection or aggregation over a narrower union; None if the rule does not apply."""
    if not isinstance(node, Map | Aggregation) or not isinstance(node.input, Union):
        return None
    union = node.input
    if not setting.one(node, union) or node.query in setting.ordered:
        return None
    used = set(_read(node))
    positions = [at for at, field in enumerate(union.fields) if field.name in used]
    # A branch with other readers keeps its columns.
    private = all(isinstance(branch, Map) and setting.one(union, branch) for branch in union.branches)
    if len(positions) == len(union.fields) or not private:
        return None
    # A row in a stream needs at least one column.
    positions = positions or [next((at for at, field in enumerate(union.fields) if field.temporal), 0)]
    branches = tuple(_narrow(branch, positions) for branch in union.branches if isinstance(branch, Map))
    fields = tuple(union.fields[at] for at in positions)
    return replace(node, input=replace(union, fields=fields, branches=branches))


def _narrow(branch: Map, positions: list[int]) -> Map:
    fields = tuple(branch.fields[at] for at in positions)
    return replace(branch, fields=fields, items=tuple(branch.items[at] for at in positions))


def _read(node: Map | Aggregation) -> list[str]:
    if isinstance(node, Map):
        return columns_of(node.predicate, *(item.expr for item in node.items))
    arguments = [expr for aggregate in node.aggregates for expr in (aggregate.argument, *aggregate.more)]
    return columns_of(node.predicate, *(key.expr for key in node.keys), *arguments)
