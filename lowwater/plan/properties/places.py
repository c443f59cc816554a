"""Finds the LFTAs whose rows need their place in the stream: the canonical order of packets (SEMANTICS O1).

The high level adds the place to these rows, and the low level leaves them in their order.
"""

from __future__ import annotations

from lowwater.plan.operators import FilterJoin, LftaInput, Node


def placed_leaves(node: Node, ordered: bool = False) -> set[str]:
    """Returns the LFTAs below an operator whose rows need their place; `ordered` if a reader takes them in order."""
    found: set[str] = set()
    seen: set[tuple[int, bool]] = set()
    waiting = [(node, ordered)]
    while waiting:  # queries share inputs, so each is visited once
        part, ordered = waiting.pop()
        if (id(part), ordered) in seen:
            continue
        seen.add((id(part), ordered))
        if isinstance(part, LftaInput):
            if part.lfta.arrival or (ordered and not part.lfta.aggregates):
                found.add(part.lfta.name)
            continue
        below_ordered = (ordered and part.facts.passes) or isinstance(part, FilterJoin) or part.order_dependent
        waiting += [(below, below_ordered and below.query == part.query) for below in part.inputs()]
    return found
