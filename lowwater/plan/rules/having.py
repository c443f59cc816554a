"""Moves the conjuncts of HAVING that read group-by variables only into WHERE.

All rows of a group have the same variables, so the groups that such a conjunct drops are those whose rows it drops.
The number of a sliding window stays in HAVING: the low level has panes, and no packet has one window.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import Column, columns_of, conjunction, conjuncts, rewrite
from lowwater.plan.operators import Bucket, Group, Node
from lowwater.plan.rules.setting import Setting


def having_to_where(node: Node, setting: Setting) -> Node | None:
    """A group with such conjuncts in its predicate."""
    if not isinstance(node, Group) or node.having is None:
        return None
    tagged = {node.input.name} if isinstance(node.input, Bucket) else set()
    keys = {key.name: key.expr for key in node.keys if tagged.isdisjoint(columns_of(key.expr))}
    parts = conjuncts(node.having)
    moved = [part for part in parts if columns_of(part) and set(columns_of(part)) <= keys.keys()]
    if not moved:
        return None
    before = [rewrite(part, lambda e: keys[e.name] if isinstance(e, Column) else e) for part in moved]
    return replace(
        node,
        predicate=conjunction([*conjuncts(node.predicate), *before]),
        having=conjunction([part for part in parts if part not in moved]),
    )
