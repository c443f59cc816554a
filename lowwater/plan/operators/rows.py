"""Operators that pass rows on one by one: sources, maps, unions, buckets of time.

The lowest operators of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Self

from lowwater.catalog.expr import Column, Expr, columns_of
from lowwater.catalog.records import RecordLayout
from lowwater.plan.fields import ROWS, Item, Place, exprs_of, temporal_names, written
from lowwater.plan.operators.base import Copies, Facts, Key, Leaf, Node, Physical, Punctuation, Unary
from lowwater.plan.operators.keys import key_through

# Packet source, the leaf of a logical plan.

ANY_LINK = "*"
"""Every link: EXPLAIN uses it when it does not know the links."""


@dataclass(frozen=True)
class Sample:
    """Uniform sampling of packets (SEMANTICS O5): every engine and every division of a run selects the same packets.

    Attributes:
        rate: the share of selected packets, above 0 and at most 1.
        seed: seed of the selection.
    """

    rate: float
    seed: int = 0


@dataclass(frozen=True)
class Source(Leaf, facts=Facts("source", passes=False, waits=False, outlives="", promise="clock - skew")):
    """Packets of one protocol on some links, merged in canonical order (O1); `fields` are the stored columns read.

    Attributes:
        alias: range variable of the source in its query.
        links: names of the links, sorted.
        protocol: name of the protocol.
        member: condition of the protocol's packets; None for all packets.
        kind: the kind of the records: `pcap`, `csv` or `other`.
        group: column whose values have skews of their own on these links (SEMANTICS T8); empty for no column.
        sample: the sampling of packets; None for all packets.
        layout: how records that are no packets are read; None for packets.
        place: line and column in the text of the query.
    """

    alias: str
    links: tuple[str, ...]
    protocol: str
    member: Expr | None
    kind: str = "pcap"
    group: str = ""
    sample: Sample | None = None
    layout: RecordLayout | None = None
    place: Place = field(default=(0, 0), compare=False)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns no expressions: the reader of the source evaluates `member`."""
        return ()

    def physical(self) -> Physical:
        """Returns a read of packets, which only the reference engine does."""
        return Physical("packets", "read by the reference engine")


# Selection and projection.

CARRIED_THROUGH = "a promise of the input, passed on"


@dataclass(frozen=True)
class Map(Unary, facts=Facts("selection", passes=True, waits=False, outlives="", promise=CARRIED_THROUGH)):
    """Selection and projection: keeps the rows whose predicate is true and computes the items; `_last` stays.

    Attributes:
        predicate: condition over the input row; None for all rows.
        items: the output columns over the input row.
    """

    predicate: Expr | None
    items: tuple[Item, ...]

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the predicate and the items."""
        return written(self.predicate, *exprs_of(self.items))

    def physical(self) -> Physical:
        """Returns a stateless projection."""
        return Physical("projection", "stateless, rows and promises pass through")

    def groupwise(self) -> tuple[str, ...]:
        """Returns the output columns that carry groupwise columns of the input."""
        below = self.input.groupwise()
        return tuple([i.name for i in self.items if isinstance(i.expr, Column) and i.expr.name in below])

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of the items."""
        return set(columns_of(*exprs_of(self.items)))

    def key(self, below: Sequence[Key]) -> Key:
        """Returns the key of the input where the items carry it."""
        (key,) = below
        return None if key is None else key_through([{name} for name in key], self.items, self.fields)


# Expansion of rows into grouping sets.


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


# Merge of streams.


@dataclass(frozen=True)
class Union(
    Node, facts=Facts("merge", passes=True, waits=False, outlives="", promise="the smallest promise of the inputs")
):
    """Merge of inputs with equal types, by position (P3).

    Attributes:
        branches: the inputs.
    """

    branches: tuple[Node, ...]

    def inputs(self) -> tuple[Node, ...]:
        """Returns the branches."""
        return self.branches

    def over(self, *inputs: Node) -> Self:
        """Returns the merge of other branches with the same columns."""
        return replace(self, branches=inputs)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns no expressions."""
        return ()

    def physical(self) -> Physical:
        """Returns a union: rows pass through."""
        return Physical("union", "its promise is the smallest promise of the inputs")


# Window assigners: sliding windows of time, and windows of rows.

OPEN_WINDOW = "the first window that is still open"


@dataclass(frozen=True)
class Bucket(Unary, facts=Facts("windows", passes=True, waits=False, outlives="", promise=OPEN_WINDOW)):
    """Window assigner: outputs one row per window that a row belongs to (WID; 002, Figure A-2).

    Window w holds the values v of the attribute with w*slide <= v < w*slide + range.

    Attributes:
        attribute: expression over the input row; for a window of rows the number of the row.
        range: length of a window, in units of the attribute.
        slide: distance between the starts of two windows, in units of the attribute.
        name: output column with the number of the window; the other output columns are the input's.
        rows: whether the attribute counts rows.
        partition: expressions over the input row; every partition counts its rows separately.
        counted: condition over the input row; only rows for which it is true are counted and are in windows. None for
            a window of rows counts every record of the links, unless there is a partition.
        place: line and column in the text of the query.
    """

    attribute: Expr
    range: int
    slide: int
    name: str
    rows: bool = False
    partition: tuple[Item, ...] = ()
    counted: Expr | None = None
    place: Place = field(default=(0, 0), compare=False)

    @property
    def every_record(self) -> bool:
        """Whether the windows count every record of the links, also those that the source does not take."""
        return self.rows and not self.partition and self.counted is None

    @property
    def pane(self) -> int:
        """The length of a pane, in units of the attribute; every window consists of whole panes (002, section 4.1)."""
        return gcd(self.range, self.slide)

    def exprs(self) -> tuple[Expr, ...]:
        """Returns the attribute, the expressions of the partition and the condition of what is counted."""
        return written(self.attribute, *exprs_of(self.partition), self.counted)

    def physical(self) -> Physical:
        """Returns a stateless expansion of rows."""
        return Physical("expansion", "stateless, one output row per window")

    def origins(self) -> tuple[str, ...]:
        """Returns the count of rows; of other windows the reader makes the progress."""
        return (ROWS,) if self.rows else ()

    def state(self) -> str:
        """Returns the reason of a window of rows: it counts rows from the first one on."""
        return "row numbers count from the first interval of the chain" if self.rows else ""

    def punctuation(self, reader: Node | None) -> Punctuation:
        """Returns a promise of the window number: its reader groups by this column and only carries the others."""
        if not temporal_names(self.fields):
            return super().punctuation(reader)
        return Punctuation((self.name,), False, self.groupwise(), self.facts.promise)

    def groupwise(self) -> tuple[str, ...]:
        """Returns the partition of a window of rows; else the groupwise columns of the input."""
        return tuple([item.name for item in self.partition]) if self.rows else self.input.groupwise()

    def looks_at(self, below: Node) -> set[str]:
        """Returns the columns of the attribute."""
        return set(columns_of(self.attribute))

    def copies(self) -> Copies:
        """Returns one row per overlapping window."""
        times = -(-self.range // self.slide)
        return Copies(times, "overlapping windows", "use a longer SLIDE or a shorter RANGE", self.place)


# Leaf of a plan part that reads the rows of another part.


@dataclass(frozen=True)
class Cut(Leaf, facts=Facts("part", passes=False, waits=False, outlives="", promise="the promise of the part")):
    """Leaf of the high level: the rows of another part of the same query.

    Attributes:
        name: name of the part that writes the rows.
    """

    name: str

    def exprs(self) -> tuple[Expr, ...]:
        """Returns no expressions."""
        return ()

    def physical(self) -> Physical:
        """Returns a read of the files that the part below wrote."""
        return Physical("files", "rows and promises of another part")
