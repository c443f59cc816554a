"""Moves the conjuncts of HAVING that read group-by variables only into WHERE.

All rows of a group have the same variables, so such a conjunct drops a whole group or no row of the group. The number
of a sliding window stays in HAVING: the low level has panes, and a packet belongs to several windows.
"""

from __future__ import annotations

from dataclasses import replace

from lowwater.catalog.expr import Column, columns_of, conjunction, conjuncts, rewrite
from lowwater.plan.operators import Bucket, Group, Node
from lowwater.plan.rules.setting import Setting
from lowwater.plan.tree import outgrows


def having_to_where(node: Node, setting: Setting) -> Node | None:
    """Returns a group with such conjuncts in its predicate; None if HAVING has none."""
    if not isinstance(node, Group) or node.having is None:
        return None
    tagged = {node.input.name} if isinstance(node.input, Bucket) else set()
    keys = {key.name: key.expr for key in node.keys if tagged.isdisjoint(columns_of(key.expr))}
    parts = conjuncts(node.having)
    moved, before = [], []
    for part in parts:
        if columns_of(part) and set(columns_of(part)) <= keys.keys():
            over_rows = rewrite(part, lambda e: keys[e.name] if isinstance(e, Column) else e)
            if not outgrows([over_rows], [part, *keys.values()]):
                moved.append(part)
                before.append(over_rows)
    if not moved:
        return None
    return replace(
        node,
        predicate=conjunction([*conjuncts(node.predicate), *before]),
        having=conjunction([part for part in parts if part not in moved]),
    )
