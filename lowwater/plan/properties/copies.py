"""How many rows a plan makes of one: windows that slide over each other, and the groupings of CUBE and its kin.

Beside `plan.properties.cost`, which is about expressions. Known from the text alone, so that a query whose cost nobody
could mean is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowwater.plan.operators import Copies, Node, Unary
from lowwater.plan.tree import walk


def copies(plan: Node) -> Iterator[tuple[Node, Copies, int]]:
    """The operators that multiply rows, each with how many rows it and those directly below it make of one.

    Groups, joins and whatever else makes rows of its own begin anew.
    """
    for node in walk(plan):
        if (own := node.copies()) is not None:
            yield node, own, _together(node)


def _together(node: Node) -> int:
    times = 1
    while isinstance(node, Unary) and node.facts.passes:
        own = node.copies()
        times *= own.times if own else 1
        node = node.input
    return times
