"""Running aggregation, which keeps groups until CLOSING_WHEN holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.plan.fields import Place, written
from lowwater.plan.operators.aggregation import Aggregation
from lowwater.plan.operators.base import Facts, Physical

EPOCH_WORKED_ON = "the epoch that is worked on: all before it are out"


@dataclass(frozen=True)
class Running(
    Aggregation,
    facts=Facts(
        "running aggregation",
        passes=False,
        waits=True,
        outlives="CLOSING_WHEN carries groups from epoch to epoch",
        promise=EPOCH_WORKED_ON,
    ),
):
    """Running aggregation: a group lives from epoch to epoch until CLOSING_WHEN holds (SEMANTICS O4, 004).

    Attributes:
        closing: condition over the names of keys and aggregates.
        place: line and column in the text of the query.
    """

    closing: Expr
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the expressions of all clauses."""
        return written(*super().exprs(), self.closing)

    def physical(self) -> Physical:
        """Returns slices in order: groups outlive their epoch."""
        return Physical(
            "slices in order", "groups outlive their epoch, so each slice starts with the groups of the slice before"
        )

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns 0: the state begins with the chain of intervals."""
        return (0,)
