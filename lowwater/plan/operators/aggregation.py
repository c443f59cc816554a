"""Aggregation by epochs, and what all aggregations have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowwater.catalog.expr import Column, Expr, Type, columns_of
from lowwater.catalog.functions import AggregateFunction, Native
from lowwater.catalog.native import NATIVE
from lowwater.plan.fields import Field, Item, Place, clocks, exprs_of, off_clock, written
from lowwater.plan.operators.base import Facts, Final, Key, Node, Physical, Unary
from lowwater.plan.operators.keys import key_through
from lowwater.plan.temporal import grid


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a Group.

    Attributes:
        name: column that HAVING and the select items read it by.
        function: the function of the catalog. All but count ignore NULL; the built-in ones give NULL over nothing else.
        argument: over the input row; None for count.
        type: the type of the result.
        more: further arguments.
        udaf: the catalog's entry of an aggregate that is not native; else None.
    """

    name: str
    function: str
    argument: Expr | None
    type: Type
    more: tuple[Expr, ...] = ()
    udaf: AggregateFunction | None = None
    place: Place = field(default=(0, 0), compare=False)

    @property
    def native(self) -> Native | None:
        """How engines compute it of their own; None for one by its four functions, and for one without Python."""
        return None if self.udaf is not None else NATIVE.get(self.function)

    @property
    def taken(self) -> tuple[Expr, ...]:
        """The expressions whose values a row gives to it; the other arguments are constants."""
        given = written(self.argument, *self.more)
        return given[: self.udaf.taken] if self.udaf is not None else given


@dataclass(frozen=True)
class Aggregation(Unary, abstract=True):
    """What all aggregations have: WHERE, GROUP BY, HAVING, select items.

    Attributes:
        predicate: over the input row, before grouping.
        keys: over the input row; at least one is temporal. NULL groups with NULL.
        aggregates: over the input row.
        having: over the names of keys and aggregates.
        items: over the same; the output fields in order.
    """

    predicate: Expr | None
    keys: tuple[Item, ...]
    key_fields: tuple[Field, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expr | None
    items: tuple[Item, ...]

    def exprs(self) -> tuple[Expr, ...]:
        """The expressions of all clauses."""
        given = [expr for aggregate in self.aggregates for expr in (aggregate.argument, *aggregate.more)]
        return written(self.predicate, self.having, *exprs_of(self.keys), *exprs_of(self.items), *given)

    @property
    def order_dependent(self) -> bool:
        """It is where an aggregate is, or a state that lives on."""
        return super().order_dependent or any(a.udaf is not None and a.udaf.ordered for a in self.aggregates)

    @property
    def in_python(self) -> str:
        """Its first aggregate that only Python has; empty for none."""
        return next((a.function for a in self.aggregates if a.udaf is not None and a.udaf.make is not None), "")

    def ends(self, latest: int) -> list[int]:
        """The end of the last epoch."""
        times = clocks(self.key_fields)
        return [min(time.last(time.latest(latest)) for time in times)] if times else []

    def span(self, first: int, latest: int) -> tuple[int, int] | None:
        """From the end of the first epoch to that of the last one."""
        times = clocks(self.key_fields)
        if not times:
            return None
        begin = max(first, min(time.last(time.promise(first)) for time in times))
        return begin, max(begin, *self.ends(latest))

    def final(self, port: int) -> Final | None:
        """A row is final with its epoch."""
        times = clocks(self.key_fields)
        return (lambda last: min(time.last(time.promise(last)) for time in times)) if times else None

    def origins(self) -> tuple[str, ...]:
        """Those of the keys."""
        return tuple([key.temporal.origin for key in self.key_fields if key.temporal])

    def grain(self) -> int:
        """Epochs: a group comes out no more than once in one, whatever its reader asks for."""
        return grid([key.temporal for key in self.key_fields if key.temporal])

    def looks_at(self, below: Node) -> set[str]:
        """The columns of the keys."""
        return set(columns_of(*exprs_of(self.keys)))


@dataclass(frozen=True)
class Group(
    Aggregation,
    facts=Facts(
        "aggregation",
        passes=False,
        waits=True,
        outlives="",
        promise="the lesser of the promise of the input and the oldest epoch that is not out yet",
    ),
):
    """Aggregation by epochs: every group lives in one epoch, whose end closes it.

    A group can change until `min(last(key))` over its temporal keys, and that is the `_last` of its row.
    """

    def physical(self) -> Physical:
        """By slices, where epochs are of the clock."""
        if own := self.in_python:
            reason = f"{own} is Python: its groups take their rows one by one"
            return Physical("aggregation in slices", reason, in_python=True)
        if origin := off_clock(self.key_fields):
            return Physical("slices in order", f"the epoch is of {origin}, not of the clock")
        return Physical(
            "hash aggregation in slices", "a group closes at the end of its epoch: nothing is kept beyond it"
        )

    def reads_from(self, start: int) -> tuple[int, ...]:
        """From the first instant of the oldest group that can still change."""
        return (epoch_start(self.key_fields, start),)

    def groupwise(self) -> tuple[str, ...]:
        """Those of the input that keys and items carry."""
        below = self.input.groupwise()
        of_key = {key.name: key.expr for key in self.keys}
        found = []
        for item in self.items:
            source = of_key.get(item.expr.name, item.expr) if isinstance(item.expr, Column) else item.expr
            if isinstance(source, Column) and source.name in below:
                found.append(item.name)
        return tuple(found)

    def key(self, below: Sequence[Key]) -> Key:
        """Groups are told apart by their GROUP BY variables."""
        return key_through([{key.name} for key in self.keys], self.items, self.fields)


def epoch_start(keys: Sequence[Field], start: int) -> int:
    """The first instant (ns) of the oldest group that can still change at `start` (ns)."""
    times = clocks(keys)
    return max(0, max(time.first(time.promise(start)) for time in times)) if times else 0


def group_last(fields: Sequence[Field], values: Sequence[int | None]) -> int:
    """`_last` of a group: the least `last(value)` over its temporal keys."""
    pairs = ((f.temporal, v) for f, v in zip(fields, values, strict=True))
    return min(time.last(v) for time, v in pairs if time and not time.origin and v is not None)
