"""Low-level query nodes, and the leaf of a high plan that reads one."""

from __future__ import annotations

from dataclasses import dataclass, field

from lowwater.catalog.expr import Column, Expr, Type
from lowwater.catalog.functions import AggregateFunction, Native
from lowwater.catalog.native import NATIVE
from lowwater.plan.fields import Field, Item, Place, exprs_of, off_clock, temporal_names, written
from lowwater.plan.operators.aggregation import epoch_start
from lowwater.plan.operators.base import Facts, Leaf, Node, Physical, Punctuation
from lowwater.plan.operators.source import ANY_LINK, Sample


@dataclass(frozen=True)
class Partial:
    """One sub-aggregate of an LFTA: a native aggregate, or the SUBAGGR of another one; `name` is its output column.

    A count with an argument counts the rows where it is not NULL (the divisor of avg).

    Attributes:
        udaf: the catalog's entry of a SUBAGGR of users; None for one that is native.
    """

    name: str
    function: str
    argument: Expr | None
    type: Type
    udaf: AggregateFunction | None = None
    place: Place = field(default=(0, 0), compare=False)

    @property
    def native(self) -> Native | None:
        """How the low level computes it of its own; None for a SUBAGGR of users, and for one without Python."""
        return None if self.udaf is not None else NATIVE.get(self.function)


MOST_COLUMNS = 60
"""Of group-by variables in a group table, and of sub-aggregates: each takes a bit of a word that holds what is NULL."""


@dataclass(frozen=True)
class Lfta:
    """A low-level query node: one pass over the packets of each of its links, rows and heartbeats out.

    Attributes:
        name: the query, or `query.alias` where a query has several sources.
        links: one instance runs per link.
        protocol: name of the protocol, `member` its packets; None for all.
        predicate: over stored packet columns; None keeps all.
        keys: output columns over stored packet columns: the group keys of an aggregation, else the select items.
        partials: sub-aggregates; always empty for a selection.
        aggregates: whether rows are grouped.
        slots: size of the group table, a power of two.
        fields: output columns: the keys, then the partials.
        kind: the kind of the records: `pcap`, `csv` or `other`.
        group: as of its source; `sample` and `place` too.
        arrival: whether it is read by arrival: that is a row's `_last`, and nothing else makes progress. Such an LFTA
            is a selection.
        numbered: whether every record of the link is a row, since all are counted; of NULL where it is not taken.
        placed: whether the last column is the number of the record, since others of its link come beside it.
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
    place: Place = field(default=(0, 0), compare=False)
    arrival: bool = False
    numbered: bool = False
    placed: bool = False

    @property
    def stored(self) -> tuple[Field, ...]:
        """The columns but for the number of the record, which becomes the place of the row."""
        return self.fields[:-1] if self.placed else self.fields

    def promises(self, instant: int) -> tuple[int | None, ...]:
        """What a punctuation with the promise `instant` says of each field (P2); None of a field without progress."""
        return tuple(f.temporal.promise(instant) if f.temporal else None for f in self.fields)

    @property
    def punctuation(self) -> Punctuation:
        """What it punctuates on (SEMANTICS P2)."""
        columns = temporal_names(self.fields)
        if self.arrival:
            return Punctuation((), False, (), "read by arrival: only its clock makes progress, by that of the link")
        if not columns:
            return Punctuation((), False, (), "no column is temporal: only its clock makes progress")
        promise = "the largest value seen - its skew" if off_clock(self.fields) else "clock - skew"
        if self.aggregates:
            reason = f"the lesser of {promise} and the oldest epoch in the table"
        else:
            reason = f"{promise}, whether or not records pass the predicate"
        groups = tuple(key.name for key in self.keys if self.group and key.expr == Column(key.expr.type, self.group))
        return Punctuation(columns, len(columns) > 1, groups, reason)


@dataclass(frozen=True)
class LftaInput(Leaf, facts=Facts("lfta", passes=False, waits=False, outlives="", promise="that of the LFTA")):
    """Leaf of the high level: the rows of an LFTA, merged over its links.

    For an aggregation `_last` is `min(last(key))` of the row's temporal keys, for a selection the packet's timestamp,
    or its arrival. Its fields are those of the LFTA, behind them the number of the row where rows are counted
    (`bind.clauses.sources.ROW`).
    """

    lfta: Lfta

    def exprs(self) -> tuple[Expr, ...]:
        """Those of the LFTA."""
        lfta = self.lfta
        return written(lfta.predicate, *exprs_of(lfta.keys), *(partial.argument for partial in lfta.partials))

    def physical(self) -> Physical:
        """The files of its links."""
        if len(self.lfta.links) > 1 or ANY_LINK in self.lfta.links:
            return Physical("merge of files", "its promise is the least one of the links")
        return Physical("files", "rows and promises of one link")

    def first_read(self, start: int) -> int:
        """From which timestamp (ns) the LFTA is needed for the rows with `_last` at `start` (ns) or after it."""
        return epoch_start(self.lfta.fields[: len(self.lfta.keys)], start) if self.lfta.aggregates else start

    def punctuation(self, reader: Node | None) -> Punctuation:
        """That of the LFTA."""
        return self.lfta.punctuation

    def groupwise(self) -> tuple[str, ...]:
        """Those of the LFTA."""
        return self.lfta.punctuation.groupwise
