"""Finds the LFTAs whose rows need their place in the stream: the canonical order of packets (SEMANTICS O1).

The high level adds the place to these rows, and the low level leaves them in their order.
"""

from __future__ import annotations

from lowwater.plan.operators import FilterJoin, LftaInput, Node


def placed_leaves(node: Node, ordered: bool = False) -> set[str]:
    """Returns the LFTAs below an operator whose rows need their place; `ordered` if a reader takes them in order."""
    if isinstance(node, LftaInput):
        needs_place = node.lfta.arrival or (ordered and not node.lfta.aggregates)
        return {node.lfta.name} if needs_place else set()
    passes = ordered and node.facts.passes
    below_ordered = passes or isinstance(node, FilterJoin) or node.order_dependent
    return {
        name for below in node.inputs() for name in placed_leaves(below, below_ordered and below.query == node.query)
    }
