"""Binding power of GSQL's operators, and shallow trees for long chains of an associative operator.

Below `gsql` and `catalog`, which do not import each other: syntax trees and bound expressions follow the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeVar

T = TypeVar("T")

POWER = {"OR": 1, "AND": 2, "=": 4, "<>": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "&": 6}
POWER |= {"<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9}
"""Operator with two operands -> its binding power. NOT has 3, comparisons such as IN have 4, a sign has 10."""

CHAIN = 16
"""Operands of one subtree that leans to the left. A longer list becomes a balanced tree of these subtrees."""


def shallow_tree(operands: Sequence[T], join: Callable[[T, T], T]) -> T:
    """Joins operands of an associative operator; the depth of the tree grows with the logarithm of their number.

    Args:
        operands: at least one.

    Example:
        >>> shallow_tree(["a", "b", "c"], lambda left, right: f"({left} AND {right})")
        '((a AND b) AND c)'
    """
    parts = list(operands)
    while len(parts) > 1:
        parts = [reduce(join, parts[at : at + CHAIN]) for at in range(0, len(parts), CHAIN)]
    return parts[0]
