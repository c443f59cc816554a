"""The sampling operator."""

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
    """The sampling operator: WHERE admits a row, CLEANING_WHEN asks for a cleaning, CLEANING_BY keeps a group.

    Attributes:
        supergroup: names of the keys that share the states and superaggregates.
        supers: aggregates over the rows of a supergroup, by name.
        cleaning_when: over keys, superaggregates and stateful functions; None where there is no cleaning.
        cleaning_by: over keys, aggregates, superaggregates and stateful functions.
        states: the stateful functions that are called.
    """

    supergroup: tuple[str, ...]
    supers: tuple[Aggregate, ...]
    cleaning_when: Expr | None
    cleaning_by: Expr | None
    states: tuple[StateFunction, ...]
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """The expressions of all clauses."""
        given = [expr for aggregate in self.supers for expr in (aggregate.argument, *aggregate.more)]
        return written(*super().exprs(), *given, self.cleaning_when, self.cleaning_by)

    def physical(self) -> Physical:
        """In order, since states live on."""
        return Physical("slices in order", "states see rows in canonical order, and go on into the next epoch")

    def reads_from(self, start: int) -> tuple[int, ...]:
        """From the beginning of the chain."""
        return (0,)
