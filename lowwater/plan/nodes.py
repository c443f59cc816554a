"""The plan: streams and the operators between them.

The binder builds a logical tree per output query; the split turns its leaves into LFTAs and leaves the rest to the
high level. Both trees are made of these nodes, so every engine and EXPLAIN read the same objects. Nodes are
immutable and picklable.

Every row of a stream has, besides its fields, `_last`: the largest source timestamp (ns) that could still have
changed it (SEMANTICS I1). A punctuation's `_last` is its promise in the same domain: no later row has a smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lowwater.catalog.expr import Expr, Type
from lowwater.plan.temporal import Temporal


@dataclass(frozen=True)
class Field:
    """A column of a stream; `temporal` is None where it makes no progress with the clock."""

    name: str
    type: Type
    temporal: Temporal | None = None


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
        function: count, sum, min, max or avg. All but count ignore NULL and give NULL over nothing else.
        argument: over the input row; None for count.
        type: of the result.
    """

    name: str
    function: str
    argument: Expr | None
    type: Type


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
class Source(Node):
    """Packets of one protocol on some links, merged in canonical order (O1). `fields` are the stored columns read.

    Attributes:
        alias: range variable of the source in its query.
        links: names, sorted.
        protocol: key of `catalog.protocols.PROTOCOLS`.
        member: which packets belong to the protocol; None for all.
    """

    alias: str
    links: tuple[str, ...]
    protocol: str
    member: Expr | None


@dataclass(frozen=True)
class Map(Node):
    """Selection and projection: rows whose predicate is true, as the items; `_last` stays."""

    input: Node
    predicate: Expr | None
    items: tuple[Item, ...]

    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Group(Node):
    """Aggregation by epochs: WHERE, GROUP BY, HAVING, select items.

    A group can change until `min(last(key))` over its temporal keys, and that is the `_last` of its row.

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
class Union(Node):
    """Merge of inputs with equal types, by position (P3)."""

    branches: tuple[Node, ...]

    def inputs(self) -> tuple[Node, ...]:
        return self.branches


@dataclass(frozen=True)
class Window:
    """When two rows meet: `left - below <= right <= left + above` on one temporal expression of each side.

    An equality has below = above = 0.

    Attributes:
        left: over the left row.
        right: over the right row.
        left_time: temporal property of `left`; `right_time` of `right`; same direction.
    """

    left: Expr
    right: Expr
    left_time: Temporal
    right_time: Temporal
    below: int
    above: int

    @property
    def equality(self) -> bool:
        return self.below == 0 and self.above == 0

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
class Partial:
    """One sub-aggregate of an LFTA: count, sum, min or max; `name` is its output column.

    A count with an argument counts the rows where it is not NULL (the divisor of avg).
    """

    name: str
    function: str
    argument: Expr | None
    type: Type


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

    def promises(self, instant: int) -> tuple[int | None, ...]:
        """What a punctuation with the promise `instant` says of each field (P2); None of a field without progress."""
        return tuple(f.temporal.promise(instant) if f.temporal else None for f in self.fields)


@dataclass(frozen=True)
class LftaInput(Node):
    """Leaf of the high level: the rows of an LFTA, merged over its links.

    For an aggregation `_last` is `min(last(key))` of the row's temporal keys, for a selection the packet's timestamp.
    """

    lfta: Lfta


@dataclass(frozen=True)
class Cut(Node):
    """Leaf of the high level: the rows of another Spark query of the same run, by name."""

    name: str


def group_last(fields: tuple[Field, ...], values: tuple[int | None, ...]) -> int:
    """`_last` of a group: the least `last(value)` over its temporal keys."""
    return min(f.temporal.last(v) for f, v in zip(fields, values, strict=True) if f.temporal and v is not None)
