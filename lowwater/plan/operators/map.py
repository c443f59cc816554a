"""Selection and projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.catalog.expr import Column, Expr, columns_of
from lowwater.plan.fields import Item, exprs_of, written
from lowwater.plan.operators.base import Facts, Key, Node, Physical, Unary
from lowwater.plan.operators.keys import key_through

CARRIED_THROUGH = "a promise of the input, passed on"


@dataclass(frozen=True)
class Map(Unary, facts=Facts("selection", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Selection and projection: keeps the rows whose predicate is true and computes the items; `_last` stays.

    Attributes:
        predicate: condition over the input row; None for all rows.
        items: the output columns over the input row.
    """

    predicate: Expr | None
    items: tuple[Item, ...]

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the predicate and the items."""
        return written(self.predicate, *exprs_of(self.items))

    def physical(self) -> Physical:
        """Returns a stateless projection."""
        return Physical("projection", "stateless, rows and promises pass through")

    def groupwise(self) -> tuple[str, ...]:
        """Returns the output columns that carry groupwise columns of the input."""
        below = self.input.groupwise()
        return tuple([i.name for i in self.items if isinstance(i.expr, Column) and i.expr.name in below])

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of the items."""
        return set(columns_of(*exprs_of(self.items)))

    def key(self, below: Sequence[Key]) -> Key:
        """Returns the key of the input where the items carry it."""
        (key,) = below
        return None if key is None else key_through([{name} for name in key], self.items, self.fields)
