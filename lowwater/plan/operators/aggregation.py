"""Aggregation by epochs, and the base class of all aggregations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lowwater.catalog.expr import Column, Expr, Type, columns_of
from lowwater.catalog.functions import AggregateFunction, Native
from lowwater.catalog.native import NATIVE
from lowwater.plan.fields import Field, Item, Place, clocks, exprs_of, off_clock, written
from lowwater.plan.operators.base import Facts, Final, Key, Node, Physical, Unary
from lowwater.plan.operators.keys import key_through
from lowwater.plan.temporal import grid


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of an aggregation.

    Attributes:
        name: the column by which HAVING and the select items read the aggregate.
        function: the function of the catalog. Every function but count ignores NULL. Without another value, a built-in
            function other than count returns NULL.
        argument: expression over the input row; None for count.
        type: the type of the result.
        more: further arguments.
        udaf: the catalog's entry of an aggregate that is not native; else None.
        place: line and column in the text of the query.
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
        """The native computation; None for an aggregate by user functions, or without Python code."""
        return None if self.udaf is not None else NATIVE.get(self.function)

    @property
    def taken(self) -> tuple[Expr, ...]:
        """The arguments that every row supplies; the other arguments are constants."""
        arguments = written(self.argument, *self.more)
        return arguments[: self.udaf.taken] if self.udaf is not None else arguments

    def over(self, change: Callable[[Expr], Expr]) -> Aggregate:
        """Returns the aggregate with every argument changed."""
        argument = None if self.argument is None else change(self.argument)
        return replace(self, argument=argument, more=tuple(change(expr) for expr in self.more))


@dataclass(frozen=True)
class Aggregation(Unary, abstract=True):
    """Base of all aggregations: WHERE, GROUP BY, HAVING and select items.

    Attributes:
        predicate: condition over the input row, before grouping; None for all rows.
        keys: group-by variables over the input row; at least one is temporal. NULL equals NULL.
        key_fields: the columns of the keys, in the same order.
        aggregates: the aggregates over the input row.
        having: condition over the names of keys and aggregates; None for all groups.
        items: the output columns in order, over the names of keys and aggregates.
    """

    predicate: Expr | None
    keys: tuple[Item, ...]
    key_fields: tuple[Field, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expr | None
    items: tuple[Item, ...]

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the expressions of all clauses."""
        arguments = [expr for aggregate in self.aggregates for expr in (aggregate.argument, *aggregate.more)]
        return written(self.predicate, self.having, *exprs_of(self.keys), *exprs_of(self.items), *arguments)

    @property
    def order_dependent(self) -> bool:
        """Whether an aggregate, or state beyond an epoch, depends on the order of rows."""
        return super().order_dependent or any(a.udaf is not None and a.udaf.ordered for a in self.aggregates)

    @property
    def in_python(self) -> str:
        """The first aggregate that only Python can compute; empty if every engine can compute all."""
        return next((a.function for a in self.aggregates if a.udaf is not None and a.udaf.make is not None), "")

    def ends(self, latest: int) -> list[int]:
        """Returns the end (ns) of the epoch of `latest`."""
        times = clocks(self.key_fields)
        return [min(time.last(time.latest(latest)) for time in times)] if times else []

    def span(self, first: int, latest: int) -> tuple[int, int] | None:
        """Returns the end of the first epoch and the end of the last epoch (ns)."""
        times = clocks(self.key_fields)
        if not times:
            return None
        begin = max(first, min(time.last(time.promise(first)) for time in times))
        return begin, max(begin, *self.ends(latest))

    def final(self, port: int) -> Final | None:
        """Returns the end of a row's epoch, at which the row is final."""
        times = clocks(self.key_fields)
        return (lambda last: min(time.last(time.promise(last)) for time in times)) if times else None

    def origins(self) -> tuple[str, ...]:
        """Returns the origins of the temporal keys."""
        return tuple([key.temporal.origin for key in self.key_fields if key.temporal])

    def grain(self) -> int:
        """Returns the length of an epoch (ns): a group comes out at most once per epoch."""
        return grid([key.temporal for key in self.key_fields if key.temporal])

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of the keys."""
        return set(columns_of(*exprs_of(self.keys)))


@dataclass(frozen=True)
class Group(
    Aggregation,
    facts=Facts(
        "aggregation",
        passes=False,
        waits=True,
        outlives="",
        promise="the smaller of the promise of the input and the oldest open epoch",
    ),
):
    """Aggregation by epochs: every group belongs to one epoch, and the end of the epoch closes the group.

    A group can change until `min(last(key))` over its temporal keys. This instant is the `_last` of its row.
    """

    def physical(self) -> Physical:
        """Returns an aggregation by slices of time; slices in order if the epoch does not follow the clock."""
        if function := self.in_python:
            reason = f"{function} is a Python function, which takes the rows of a group one by one"
            return Physical("aggregation in slices", reason, in_python=True)
        if origin := off_clock(self.key_fields):
            return Physical("slices in order", f"epochs follow {origin}, not the packet clock")
        return Physical("hash aggregation in slices", "a group closes at the end of its epoch, and no state remains")

    def reads_from(self, start: int) -> tuple[int, ...]:
        """Returns the first instant (ns) of the oldest group that can still change."""
        return (epoch_start(self.key_fields, start),)

    def groupwise(self) -> tuple[str, ...]:
        """Returns the output columns that carry the groupwise columns of the input."""
        below = self.input.groupwise()
        key_exprs = {key.name: key.expr for key in self.keys}
        names = []
        for item in self.items:
            source = key_exprs.get(item.expr.name, item.expr) if isinstance(item.expr, Column) else item.expr
            if isinstance(source, Column) and source.name in below:
                names.append(item.name)
        return tuple(names)

    def key(self, below: Sequence[Key]) -> Key:
        """Returns the group-by variables, where the items carry all of them."""
        return key_through([{key.name} for key in self.keys], self.items, self.fields)


def epoch_start(keys: Sequence[Field], start: int) -> int:
    """Returns the first instant (ns) of the oldest group that can still change at `start` (ns)."""
    times = clocks(keys)
    return max(0, max(time.first(time.promise(start)) for time in times)) if times else 0


def group_last(fields: Sequence[Field], values: Sequence[int | None]) -> int:
    """Returns `_last` (ns) of a group: the least `last(value)` over its temporal keys."""
    pairs = ((f.temporal, v) for f, v in zip(fields, values, strict=True))
    return min(time.last(v) for time, v in pairs if time and not time.origin and v is not None)
