"""How many rows an operator makes of one: windows that slide over each other, and the groupings of CUBE and its kin.

Beside `plan.cost`, which is about expressions. Known from the text alone, so that a query whose cost nobody could mean
is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowwater.plan.nodes import Bucket, Expand, Map, Node
from lowwater.plan.tree import walk


def copies(plan: Node) -> Iterator[tuple[Bucket | Expand, int]]:
    """The operators that multiply rows, each with how many rows it and those directly below it make of one.

    Groups, joins and whatever else makes rows of its own begin anew.
    """
    for node in walk(plan):
        if isinstance(node, Bucket | Expand):
            yield node, _made(node)


def _made(node: Node) -> int:
    made = 1
    while isinstance(node, Map | Bucket | Expand):
        made *= times(node)
        node = node.input
    return made


def times(node: Node) -> int:
    """How many rows an operator makes of one."""
    if isinstance(node, Bucket):
        return -(-node.range // node.slide)
    return len(node.sets) if isinstance(node, Expand) else 1
