"""Leaf of a plan part that reads the rows of another part."""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.catalog.expr import Expr
from lowwater.plan.operators.base import Facts, Leaf, Physical


@dataclass(frozen=True)
class Cut(Leaf, facts=Facts("part", passes=False, waits=False, outlives="", promise="the promise of the part")):
    """Leaf of the high level: the rows of another part of the same query.

    Attributes:
        name: name of the part that writes the rows.
    """

    name: str

    def exprs(self) -> tuple[Expr, ...]:
        """Returns no expressions."""
        return ()

    def physical(self) -> Physical:
        """Returns a read of the files that the part below wrote."""
        return Physical("files", "rows and promises of another part")
