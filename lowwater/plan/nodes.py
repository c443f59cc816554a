"""The plan: streams and the operators between them.

The binder builds a logical tree per output query; the split turns its leaves into LFTAs and leaves the rest to the
high level. Both trees are made of these nodes, so every engine and EXPLAIN read the same objects. Nodes are
immutable and picklable.

Every row of a stream has, besides its fields, `_last`: the largest source timestamp (ns) that could still have
changed it (SEMANTICS I1). A punctuation's `_last` is its promise in the same domain: no later row has a smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from lowwater.catalog.expr import Expr, Type
from lowwater.catalog.functions import AggregateFunction, StateFunction
from lowwater.plan.temporal import Temporal

Place = tuple[int, int]
"""Line and column of the text, for the message of an engine that does not run an operator."""


@dataclass(frozen=True)
class Field:
    """A column of a stream.

    Attributes:
        temporal: None where it makes no progress.
        declared: GSQL's own type, where the old compilers' value semantics are asked for.
    """

    name: str
    type: Type
    temporal: Temporal | None = None
    declared: str = ""


@dataclass(frozen=True)
class Item:
    """A named expression: a select item or a group-by variable."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a Group.

    Attributes:
        name: column that HAVING and the select items read it by.
        function: of the catalog. All but count ignore NULL; the built-in ones give NULL over nothing else.
        argument: over the input row; None for count.
        type: of the result.
        more: further arguments.
        udaf: the catalog's entry of an aggregate that engines do not have of their own; else None.
    """

    name: str
    function: str
    argument: Expr | None
    type: Type
    more: tuple[Expr, ...] = ()
    udaf: AggregateFunction | None = None
    place: Place = field(default=(0, 0), compare=False)


class JoinKind(StrEnum):
    """Kinds of joins, as GSQL writes them before FROM."""

    INNER = "INNER_JOIN"
    LEFT = "LEFT_OUTER_JOIN"
    RIGHT = "RIGHT_OUTER_JOIN"
    OUTER = "OUTER_JOIN"

    @property
    def keeps_left(self) -> bool:
        return self in (JoinKind.LEFT, JoinKind.OUTER)

    @property
    def keeps_right(self) -> bool:
        return self in (JoinKind.RIGHT, JoinKind.OUTER)


@dataclass(frozen=True)
class Node:
    """Base of operators.

    Attributes:
        query: name of the query that the operator belongs to.
        fields: output columns, in order.
    """

    query: str
    fields: tuple[Field, ...]

    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Sample:
    """Uniform sampling of packets (SEMANTICS O5): the same packets in every engine and however a run is cut.

    Attributes:
        rate: which share is kept, above 0 and up to 1.
        seed: another one keeps other packets.
    """

    rate: float
    seed: int = 0


@dataclass(frozen=True)
class Source(Node):
    """Packets of one protocol on some links, merged in canonical order (O1). `fields` are the stored columns read.

    Attributes:
        alias: range variable of the source in its query.
        links: names, sorted.
        protocol: its name.
        member: which packets belong to the protocol; None for all.
        kind: of its records: `pcap`, `csv` or `other`.
        group: column whose values have skews of their own on these links; empty for none (SEMANTICS T8).
        sample: which of the packets it takes; None for all.
    """

    alias: str
    links: tuple[str, ...]
    protocol: str
    member: Expr | None
    kind: str = "pcap"
    group: str = ""
    sample: Sample | None = None
    place: Place = field(default=(0, 0), compare=False)


@dataclass(frozen=True)
class Map(Node):
    """Selection and projection: rows whose predicate is true, as the items; `_last` stays."""

    input: Node
    predicate: Expr | None
    items: tuple[Item, ...]

    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Aggregation(Node):
    """What all aggregations have: WHERE, GROUP BY, HAVING, select items.

    Attributes:
        predicate: over the input row, before grouping.
        keys: over the input row; at least one is temporal. NULL groups with NULL.
        aggregates: over the input row.
        having: over the names of keys and aggregates.
        items: over the same; the output fields in order.
    """

    input: Node
    predicate: Expr | None
    keys: tuple[Item, ...]
    key_fields: tuple[Field, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expr | None
    items: tuple[Item, ...]

    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Group(Aggregation):
    """Aggregation by epochs: every group lives in one epoch, whose end closes it.

    A group can change until `min(last(key))` over its temporal keys, and that is the `_last` of its row.
    """


@dataclass(frozen=True)
class Running(Aggregation):
    """Aggregation whose groups live on from epoch to epoch until CLOSING_WHEN holds (SEMANTICS O4, 004)."""

    closing: Expr
    place: Place = field(default=(0, 0), compare=False)


@dataclass(frozen=True)
class Sampling(Aggregation):
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


@dataclass(frozen=True)
class Bucket(Node):
    """Tags each row with the windows it belongs to, one row out for each (WID; 002, Figure A-2).

    Window w holds the values v of the attribute with w*slide <= v < w*slide + range.

    Attributes:
        attribute: over the input row; for a window of rows the number of the row.
        range: in units of the attribute; `slide` too.
        name: output column of the window's number; the other fields are the input's.
        rows: whether the attribute counts rows.
        partition: over the input row; rows are counted in each partition.
    """

    input: Node
    attribute: Expr
    range: int
    slide: int
    name: str
    rows: bool = False
    partition: tuple[Item, ...] = ()
    place: Place = field(default=(0, 0), compare=False)

    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Expand(Node):
    """One row out for each grouping set: CUBE, ROLLUP and GROUPING_SETS.

    Attributes:
        keys: the columns that the sets choose from; one that a set leaves out is NULL in its row.
        sets: the columns that each set keeps.
        name: output column of the set's number; the other fields are the input's.
    """

    input: Node
    keys: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    name: str
    place: Place = field(default=(0, 0), compare=False)

    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Union(Node):
    """Merge of inputs with equal types, by position (P3)."""

    branches: tuple[Node, ...]

    def inputs(self) -> tuple[Node, ...]:
        return self.branches


@dataclass(frozen=True)
class Window:
    """When two rows meet: `left - below <= right <= left + above` on one temporal expression of each side.

    Attributes:
        left: over the left row.
        right: over the right row.
        left_time: temporal property of `left`; `right_time` of `right`; same direction.
        equality: whether it is written as one: then below = above = 0, and it ties its columns (V1). A band of no
            width meets the same pairs and ties nothing.
    """

    left: Expr
    right: Expr
    left_time: Temporal
    right_time: Temporal
    below: int
    above: int
    equality: bool = False

    def last_left(self, value: int) -> int:
        """Last instant at which a right row may still match a left row of this value (its match window's end)."""
        return max(self.left_time.last(value), self.right_time.last(value + self._reach(self.above)))

    def last_right(self, value: int) -> int:
        """Last instant at which a left row may still match a right row of this value."""
        return max(self.right_time.last(value), self.left_time.last(value + self._reach(self.below, right=True)))

    def _reach(self, bound: int, right: bool = False) -> int:
        # In a decreasing attribute progress is downward, so the far end of the window is the other bound.
        if self.left_time.increasing:
            return bound
        return -self.above if right else -self.below


@dataclass(frozen=True)
class Join(Node):
    """Windowed join of two streams (P4, V1). Input columns are named `<alias>.<column>` in every expression.

    A pair meets when the window holds, every equality holds (NULL equals NULL) and the residual is true. Its `_last` is
    the larger of the two; an unmatched row's is `window.last_left`/`last_right` of its value. Predicates on one side
    alone are already in Maps below.

    Attributes:
        left_alias: prefix of the left columns; `right_alias` of the right ones.
        equalities: (over the left row, over the right row), the window's own equality not among them.
        residual: over both rows; not applied to unmatched rows.
        items: over both rows. For an unmatched row a column that an equality ties to the other side has that side's
            value; every other column of the missing side is NULL.
    """

    kind: JoinKind
    left: Node
    right: Node
    left_alias: str
    right_alias: str
    window: Window
    equalities: tuple[tuple[Expr, Expr], ...]
    residual: Expr | None
    items: tuple[Item, ...]

    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class FilterJoin(Node):
    """Rows of the left source that a row of the right source with equal keys precedes by `range` at most (O6).

    Both are packets of one link. `_last` is the last instant at which such a row may still come: the end of the left
    row's own unit of t; where t decreases that of t - range.

    Attributes:
        left: what is filtered; `right` is what it is looked up in; both are read on the same links.
        keys: (over the left row, over the right row).
        left_time: over the left row; `right_time` over the right row: the attribute t of FILTER_JOIN(t, range).
        range: in units of the attribute.
        items: over the left row.
        algorithm: as DEFINE asks, for EXPLAIN; the rows do not depend on it.
    """

    left: Node
    right: Node
    left_alias: str
    right_alias: str
    keys: tuple[tuple[Expr, Expr], ...]
    left_time: Expr
    right_time: Expr
    range: int
    items: tuple[Item, ...]
    algorithm: str
    place: Place = field(default=(0, 0), compare=False)

    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class WatchJoin(Node):
    """Rows of a stream with the row of a watch list that has their key; an input of the run by its hash (S1).

    Attributes:
        input: the stream.
        watchlist: name of the list; `file` is where it is, `refresh` how often it was read anew, in seconds.
        columns: of the list, as `alias.name`.
        keys: (over the input row, column of the list).
        residual: over both.
        items: over both.
    """

    input: Node
    alias: str
    watchlist: str
    watch_alias: str
    file: str
    refresh: int
    columns: tuple[Field, ...]
    keys: tuple[tuple[Expr, str], ...]
    residual: Expr | None
    items: tuple[Item, ...]
    place: Place = field(default=(0, 0), compare=False)

    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Partial:
    """One sub-aggregate of an LFTA: count, sum, min, max, or the SUBAGGR of an aggregate; `name` is its output column.

    A count with an argument counts the rows where it is not NULL (the divisor of avg).

    Attributes:
        udaf: the catalog's entry of a SUBAGGR of users; None for those that the low level has of its own.
    """

    name: str
    function: str
    argument: Expr | None
    type: Type
    udaf: AggregateFunction | None = None
    place: Place = field(default=(0, 0), compare=False)


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
        kind: of the records: `pcap`, `csv` or `other`.
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


@dataclass(frozen=True)
class LftaInput(Node):
    """Leaf of the high level: the rows of an LFTA, merged over its links.

    For an aggregation `_last` is `min(last(key))` of the row's temporal keys, for a selection the packet's timestamp,
    or its arrival. Its fields are those of the LFTA, behind them the number of the row where rows are counted
    (`bind.sources.ROW`).
    """

    lfta: Lfta


@dataclass(frozen=True)
class Cut(Node):
    """Leaf of the high level: the rows of another Spark query of the same run, by name."""

    name: str


def group_last(fields: tuple[Field, ...], values: tuple[int | None, ...]) -> int:
    """`_last` of a group: the least `last(value)` over its temporal keys."""
    pairs = ((f.temporal, v) for f, v in zip(fields, values, strict=True))
    return min(time.last(v) for time, v in pairs if time and not time.origin and v is not None)
