"""Low-level query nodes (LFTAs), and the leaf of a high plan that reads an LFTA."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Column, Expr, Type
from lowwater.catalog.functions import AggregateFunction, Native
from lowwater.catalog.native import NATIVE
from lowwater.catalog.records import RecordLayout
from lowwater.plan.fields import Field, Item, Place, exprs_of, off_clock, written
from lowwater.plan.operators.aggregation import epoch_start
from lowwater.plan.operators.base import Facts, Leaf, Node, Physical, Punctuation
from lowwater.plan.operators.source import ANY_LINK, Sample


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
