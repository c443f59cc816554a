"""Aggregation by epochs, and the base class of all aggregations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lowwater.catalog.expr import Column, Expr, Type, columns_of
from lowwater.catalog.functions import AggregateFunction, Native, StateFunction
from lowwater.catalog.native import NATIVE
from lowwater.catalog.records import RecordLayout
from lowwater.plan.fields import Field, Item, Place, clocks, exprs_of, off_clock, written
from lowwater.plan.operators.base import Facts, Final, Key, Leaf, Node, Physical, Punctuation, Unary
from lowwater.plan.operators.keys import key_through
from lowwater.plan.operators.rows import ANY_LINK, Sample
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


# Running aggregation, which keeps groups until CLOSING_WHEN holds.

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


# Sampling operator with supergroups and cleaning.


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


# Low-level query nodes (LFTAs), and the leaf of a high plan that reads an LFTA.


@dataclass(frozen=True)
class Partial:
    """Partial aggregate of an LFTA: a native aggregate, or the SUBAGGR of a user's aggregate.

    A count with an argument counts the rows with a value other than NULL (the divisor of avg).

    Attributes:
        name: the output column.
        function: the function of the catalog.
        argument: expression over stored packet columns; None for count.
        type: the type of the result.
        udaf: the catalog's entry of a user's SUBAGGR; None for a native aggregate.
        place: line and column in the text of the query.
    """

    name: str
    function: str
    argument: Expr | None
    type: Type
    udaf: AggregateFunction | None = None
    place: Place = field(default=(0, 0), compare=False)

    @property
    def native(self) -> Native | None:
        """The native computation of the low level; None for a user's SUBAGGR, or without Python code."""
        return None if self.udaf is not None else NATIVE.get(self.function)


MOST_COLUMNS = 60
"""Largest number of group-by variables, and of partial aggregates: every one takes one bit of the NULL bitmap."""


@dataclass(frozen=True)
class Lfta:
    """Low-level query node: one pass over the packets of every link, with rows and heartbeats as output.

    Attributes:
        name: the query, or `query.alias` if a query has several sources.
        links: the names of the links; one instance runs per link.
        protocol: name of the protocol.
        member: condition of the protocol's packets; None for all packets.
        predicate: condition over stored packet columns; None for all packets.
        keys: output columns over stored packet columns: the group-by variables, else the select items.
        partials: partial aggregates; empty for a selection.
        aggregates: whether the LFTA groups rows.
        slots: size of the group table, a power of two.
        fields: output columns: the keys, then the partial aggregates.
        kind: the kind of the records: `pcap`, `csv` or `other`.
        group: column whose values have skews of their own (SEMANTICS T8); empty for no column.
        sample: the sampling of packets; None for all packets.
        layout: how records that are no packets are read; None for packets.
        place: line and column of the source in the text of the query.
        arrival: whether the LFTA reads by arrival. Then `_last` of a row is its arrival, and no column makes progress.
            Such an LFTA is a selection.
        numbered: whether every record of the link becomes a row, because the query counts records. The row of a record
            that the LFTA does not take is NULL.
        whole: whether every record of the link becomes a row with its columns, late ones too, because an attribute that
            is no function of the clock makes progress with every record (SEMANTICS T8). The high level then tells
            which records are late. Such an LFTA has no predicate.
        placed: whether the last column is the number of the record. An order-dependent reader of several LFTAs of one
            link needs this number.
    """

    name: str
    links: tuple[str, ...]
    protocol: str
    member: Expr | None
    predicate: Expr | None
    keys: tuple[Item, ...]
    partials: tuple[Partial, ...]
    aggregates: bool
    slots: int
    fields: tuple[Field, ...]
    kind: str = "pcap"
    group: str = ""
    sample: Sample | None = None
    layout: RecordLayout | None = None
    place: Place = field(default=(0, 0), compare=False)
    arrival: bool = False
    numbered: bool = False
    whole: bool = False
    placed: bool = False

    @property
    def stored(self) -> tuple[Field, ...]:
        """The columns without the number of the record, which becomes the place of the row."""
        return self.fields[:-1] if self.placed else self.fields

    def promises(self, instant: int) -> tuple[int | None, ...]:
        """Returns the promised value of every field at `instant` (ns) (P2); None for a field that is no function of
        the clock."""
        return tuple(f.temporal.promise(instant) if f.temporal and not f.temporal.origin else None for f in self.fields)

    @property
    def punctuation(self) -> Punctuation:
        """The promises of the LFTA (SEMANTICS P2)."""
        columns = tuple(f.name for f in self.fields if f.temporal and not f.temporal.origin)
        if self.arrival:
            return Punctuation((), False, (), "read by arrival: only its clock makes progress, by that of the link")
        if not columns:
            what = "a function of the clock" if off_clock(self.fields) else "temporal"
            return Punctuation((), False, (), f"no column is {what}: only its clock makes progress")
        if self.aggregates:
            reason = "the smaller of clock - skew and the oldest epoch in the group table"
        else:
            reason = "clock - skew, whether or not records pass the predicate"
        groups = tuple(key.name for key in self.keys if self.group and key.expr == Column(key.expr.type, self.group))
        return Punctuation(columns, len(columns) > 1, groups, reason)


@dataclass(frozen=True)
class LftaInput(Leaf, facts=Facts("lfta", passes=False, waits=False, outlives="", promise="the promise of the LFTA")):
    """Leaf of the high level: the rows of an LFTA, merged over its links.

    For an aggregation `_last` is `min(last(key))` over the row's temporal keys. For a selection it is the timestamp of
    the packet, or its arrival. The fields are the LFTA's. A query that counts rows has the number of the row behind
    them (`bind.clauses.sources.ROW`).

    Attributes:
        lfta: the low-level query node.
    """

    lfta: Lfta

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the expressions of the LFTA."""
        lfta = self.lfta
        return written(lfta.predicate, *exprs_of(lfta.keys), *(partial.argument for partial in lfta.partials))

    def physical(self) -> Physical:
        """Returns a read of the files of one link, or a merge of the files of several links."""
        if len(self.lfta.links) > 1 or ANY_LINK in self.lfta.links:
            return Physical("merge of files", "its promise is the smallest promise of the links")
        return Physical("files", "rows and promises of one link")

    def first_read(self, start: int) -> int:
        """Returns the first timestamp (ns) that the LFTA reads for rows with `_last` >= `start` (ns)."""
        return epoch_start(self.lfta.fields[: len(self.lfta.keys)], start) if self.lfta.aggregates else start

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns the promises of the LFTA."""
        return self.lfta.punctuation

    def groupwise(self) -> tuple[str, ...]:
        """Returns the groupwise columns of the LFTA."""
        return self.lfta.punctuation.groupwise
