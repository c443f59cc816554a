"""Counts the rows that a plan makes of one row: overlapping windows, and groupings such as CUBE.

Beside `plan.properties.cost`, which is about expressions. The text alone shows this number, so a query with an absurd
cost is refused before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowwater.plan.operators import Copies, Node, Unary
from lowwater.plan.tree import walk


def copies(plan: Node) -> Iterator[tuple[Node, Copies, int]]:
    """Yields the operators that multiply rows, with their factor and the product with the operators right below.

    Aggregations, joins and other operators that make rows of their own start again at 1.
    """
    for node in walk(plan):
        if (factor := node.copies()) is not None:
            yield node, factor, _product(node)


def _product(node: Node) -> int:
    times = 1
    while isinstance(node, Unary) and node.facts.passes:
        factor = node.copies()
        times *= factor.times if factor else 1
        node = node.input
    return times
