"""Merge of streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from lowwater.catalog.expr import Expr
from lowwater.plan.operators.base import Facts, Node, Physical


@dataclass(frozen=True)
class Union(
    Node, facts=Facts("merge", passes=True, waits=False, outlives="", promise="the smallest promise of the inputs")
):
    """Merge of inputs with equal types, by position (P3).

    Attributes:
        branches: the inputs.
    """

    branches: tuple[Node, ...]

    def inputs(self) -> tuple[Node, ...]:
        """Returns the branches."""
        return self.branches

    def over(self, *inputs: Node) -> Self:
        """Returns the merge of other branches with the same columns."""
        return replace(self, branches=inputs)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns no expressions."""
        return ()

    def physical(self) -> Physical:
        """Returns a union: rows pass through."""
        return Physical("union", "its promise is the smallest promise of the inputs")
