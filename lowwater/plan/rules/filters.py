"""Predicate pushdown: moves a selection below a union, another selection or an aggregation.

A predicate commutes with a union and a projection. It commutes with an aggregation if it reads group-by variables only:
all rows of a group have the same variables. Promises stay valid, because they do not concern the dropped rows.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import Column, Expr, columns_of, conjunction, conjuncts, rewrite
from lowwater.plan.operators import Group, Item, Map, Node, Running, Union
from lowwater.plan.rules.setting import Setting
from lowwater.plan.tree import outgrows, substitute


def push_filter(node: Node, setting: Setting) -> Node | None:
    """Returns the operator with its predicate one step further down; None if the rule does not apply."""
    if not isinstance(node, Map | Group | Running) or not setting.one(node, node.input):
        return None
    below = node.input
    if isinstance(below, Union) and node.predicate is not None:
        return replace(node, input=_filtered(below, node.predicate, setting), predicate=None)
    if not isinstance(node, Map):
        return None
    if isinstance(below, Map):
        return _through_map(node, below)
    if node.predicate is None:
        return None
    return _into_group(node, below, node.predicate) if isinstance(below, Group) else None


def _through_map(node: Map, below: Map) -> Map | None:
    """Merges two selections and projections; the names and fields are those of the upper one. None if too large."""
    parts = conjuncts(below.predicate)
    if node.predicate is not None:
        parts += conjuncts(substitute(node.predicate, below.items))
    items = tuple(Item(item.name, substitute(item.expr, below.items)) for item in node.items)
    merged = replace(node, input=below.input, predicate=conjunction(parts), items=items)
    return None if outgrows(merged.exprs(), [*node.exprs(), *below.exprs()]) else merged


def _filtered(below: Union, predicate: Expr, setting: Setting) -> Union:
    """Returns the union of the rows for which a predicate over its columns is true."""
    branches = []
    for branch in below.branches:
        keep = tuple(Item(f.name, Column(f.type, f.name)) for f in branch.fields)
        names = [Item(f.name, Column(b.type, b.name)) for f, b in zip(below.fields, branch.fields, strict=True)]
        # A branch with other readers stays unchanged; the filter belongs to the query of the union.
        query = branch.query if setting.one(below, branch) else below.query
        filtered = Map(query, branch.fields, branch, substitute(predicate, names), keep)
        # A selection of the same query adds the predicate to its own predicate.
        same_query = isinstance(branch, Map) and branch.query == below.query
        merged = _through_map(filtered, branch) if same_query and isinstance(branch, Map) else None
        branches.append(filtered if merged is None else merged)
    return replace(below, branches=tuple(branches))


def _into_group(node: Map, below: Group, predicate: Expr) -> Map | None:
    keys = {key.name: key.expr for key in below.keys}
    outputs = {item.name: item.expr for item in below.items}
    down: list[tuple[Expr, Expr]] = []
    stay: list[tuple[Expr, Expr]] = []
    for part in conjuncts(predicate):
        over_groups = rewrite(part, lambda e: outputs.get(e.name, e) if isinstance(e, Column) else e)
        moves = set(columns_of(over_groups)) <= keys.keys() and not outgrows([over_groups], [part, *outputs.values()])
        (down if moves else stay).append((part, over_groups))
    if not down:
        return None
    having = conjunction([*conjuncts(below.having), *(over for _, over in down)])
    return replace(node, input=replace(below, having=having), predicate=conjunction([part for part, _ in stay]))
