"""Grouping sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import Place
from lowwater.plan.operators.base import Copies, Facts, Physical, Unary
from lowwater.plan.operators.map import CARRIED_THROUGH


@dataclass(frozen=True)
class Expand(Unary, facts=Facts("grouping sets", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """One row out for each grouping set: CUBE, ROLLUP and GROUPING_SETS.

    Attributes:
        keys: the columns that the sets choose from; one that a set leaves out is NULL in its row.
        sets: the columns that each set keeps.
        name: output column of the set's number; the other fields are the input's.
    """

    keys: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    name: str
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """None."""
        return ()

    def physical(self) -> Physical:
        """Rows go through several times."""
        return Physical("expansion", "stateless: one row out for each grouping set")

    def copies(self) -> Copies:
        """One row for each set."""
        return Copies(len(self.sets), "groupings", "write GROUPING_SETS of those you need", self.place)
