"""Sampling operator with supergroups and cleaning."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Expr
from lowwater.catalog.functions import StateFunction
from lowwater.plan.fields import Place, written
from lowwater.plan.operators.aggregation import Aggregate, Aggregation
from lowwater.plan.operators.base import Facts, Physical
from lowwater.plan.operators.running import EPOCH_WORKED_ON


@dataclass(frozen=True)
class Sampling(
    Aggregation,
    facts=Facts(
        "sampling",
        passes=False,
        waits=True,
        outlives="the sampling operator carries its state into the next epoch",
        promise=EPOCH_WORKED_ON,
    ),
):
    """Sampling operator: WHERE admits rows, CLEANING_WHEN starts a cleaning and CLEANING_BY keeps groups.

    Attributes:
        supergroup: names of the keys that share states and superaggregates.
        supers: aggregates over the rows of a supergroup.
        cleaning_when: condition over keys, superaggregates and stateful functions; None without cleaning.
        cleaning_by: condition over keys, aggregates, superaggregates and stateful functions; None without cleaning.
        states: the stateful functions that the query calls.
        place: line and column in the text of the query.
    """

    supergroup: tuple[str, ...]
    supers: tuple[Aggregate, ...]
    cleaning_when: Expr | None
    cleaning_by: Expr | None
    states: tuple[StateFunction, ...]
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the expressions of all clauses."""
        arguments = [expr for aggregate in self.supers for expr in (aggregate.argument, *aggregate.more)]
        return written(*super().exprs(), *arguments, self.cleaning_when, self.cleaning_by)

    def physical(self) -> Physical:
        """Returns slices in order: states outlive their epoch."""
        return Physical("slices in order", "states read rows in canonical order and continue in the next epoch")

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns 0: the state begins with the chain of intervals."""
        return (0,)
