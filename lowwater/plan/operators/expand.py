"""Expansion of rows into grouping sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import Place
from lowwater.plan.operators.base import Copies, Facts, Physical, Unary
from lowwater.plan.operators.map import CARRIED_THROUGH


@dataclass(frozen=True)
class Expand(Unary, facts=Facts("grouping sets", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Outputs one row per grouping set: CUBE, ROLLUP and GROUPING_SETS.

    Attributes:
        keys: the columns that the sets choose from; a row has NULL in every column that its set omits.
        sets: the columns of every set.
        name: output column with the number of the set; the other output columns are the input's.
        place: line and column in the text of the query.
    """

    keys: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    name: str
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns no expressions."""
        return ()

    def physical(self) -> Physical:
        """Returns a stateless expansion of rows."""
        return Physical("expansion", "stateless, one output row per grouping set")

    def copies(self) -> Copies:
        """Returns one row per grouping set."""
        return Copies(len(self.sets), "groupings", "write GROUPING_SETS of those you need", self.place)
