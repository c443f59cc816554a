"""The operators of a logical plan: made, connected, named.

Between the plan and `reference.engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from lowwater.catalog.expr import Expr, columns_of
from lowwater.catalog.packets import THINNED_BY
from lowwater.plan.fields import ROWS
from lowwater.plan.operators import (
    Aggregation,
    Bucket,
    Field,
    FilterJoin,
    Group,
    Join,
    LftaInput,
    Map,
    Node,
    Running,
    Sampling,
    Source,
    Union,
    WatchJoin,
)
from lowwater.plan.properties.state import ROW
from lowwater.reference.clock import Disorder, Feed, Link
from lowwater.reference.inorder import BufferedWindowsOperator, OrderOperator, epochs_over_windows
from lowwater.reference.slow_flush import SlowFlushOperator
from lowwater.stream import maps
from lowwater.stream.epochs import Epochs
from lowwater.stream.groups import GroupOperator
from lowwater.stream.joins import JoinOperator
from lowwater.stream.lookups import FilterJoinOperator, WatchJoinOperator
from lowwater.stream.maps import PlaceOperator, UnionOperator
from lowwater.stream.operators import Life, Operator, names_of
from lowwater.stream.running import RunningOperator
from lowwater.stream.sampling import SamplingOperator
from lowwater.stream.sources import SourceOperator
from lowwater.stream.thinning import Thinnings
from lowwater.stream.values import Value, Values


class Operators:
    """The operators of a logical plan; equal nodes are one operator with several consumers.

    Args:
        owned: instants of the interval.
        read_from: of each source.
        life: the life of the links.
        in_order: whether merges restore order and windows are buffered (IOP).
        thinnings: what sources take of links, where that is not all.
        flush: results that an aggregation gives for each row that it reads; 0 for all at once.

    Attributes:
        sources: in the order of the plan.
        columns: link -> stored columns that its sources read.
        fed: name of an LFTA -> the operator that stands for it, in a plan of the high level; others feed it.
        named: all operators, in the order in which they were made, by query, kind and number.
    """

    def __init__(
        self,
        owned: range,
        read_from: Mapping[str, int],
        life: Life,
        in_order: bool = False,
        thinnings: Thinnings = MappingProxyType({}),
        flush: int = 0,
    ) -> None:
        self._in_order, self._flush = in_order, flush
        self._thinnings = thinnings
        self._owned, self._read_from, self._life = owned, read_from, life
        self._made: dict[Node, Operator] = {}
        self._epochs: dict[Bucket, list[tuple[Expr, Field]]] = {}
        self._nodes: dict[Operator, Source] = {}
        self._below: dict[Operator, list[frozenset[str]]] = {}
        self._origins: set[str] = set()
        self.sources: list[SourceOperator] = []
        self.columns: dict[str, list[str]] = {}
        self.fed: dict[str, Operator] = {}
        self.named: dict[str, Operator] = {}

    def operator(self, node: Node) -> Operator:
        """The operator of a node, connected to those below it."""
        if node not in self._made:
            self._origins |= set(node.origins())
            if isinstance(node, Aggregation):
                self._epochs |= epochs_over_windows(node)
            inputs = [self._placed(node, child) for child in node.inputs()]
            made = self._add(node.query, self._make(node, inputs))
            self._connect(made, inputs)
            self._made[node] = self._above(node, made, inputs)
        return self._made[node]

    def links(self, disorder: Mapping[str, Disorder]) -> list[Link]:
        """The links that are read, with the ports that read them."""
        return [self._link(name, disorder[name]) for name in self.columns]

    def _link(self, name: str, disorder: Disorder) -> Link:
        known, column = self.columns[name], disorder.column
        if column and column not in known:
            known.append(column)
        return Link(name, disorder, self._feeds(name), _at(known.index(column)) if column else None)

    def holders(self, disorder: Mapping[str, Disorder]) -> list[tuple[Operator, list[int]]]:
        """The operators that keep rows until a promise, with how far each input is behind the clock at least.

        That is as far as its slowest link, by the smallest skew of any of that link's values.
        """
        return [
            (operator, [max((disorder[name].shortest for name in names), default=0) for names in inputs])
            for operator, inputs in self._below.items()
            if isinstance(operator, GroupOperator | JoinOperator | Epochs | OrderOperator | BufferedWindowsOperator)
        ]

    def _add(self, query: str, made: Operator) -> Operator:
        self.named[f"{query}/{type(made).__name__.removesuffix('Operator')}/{len(self.named)}"] = made
        return made

    def _connect(self, made: Operator, inputs: Sequence[Operator]) -> None:
        for port, below in enumerate(inputs):
            below.connect(made, port)
        self._below.setdefault(made, [frozenset[str]().union(*self._below[below]) for below in inputs])

    def _placed(self, node: Node, child: Node) -> Operator:
        """The operator below, its rows with a place where the reader looks at it (SEMANTICS O1)."""
        below = self.operator(child)
        if isinstance(node, Join | Union) or (isinstance(node, Group) and not node.order_dependent):
            return below
        if child.query == node.query and _has_places(child):
            return below
        place = self._add(node.query, PlaceOperator(child.fields, below))
        self._connect(place, [below])
        return place

    def _above(self, node: Node, made: Operator, inputs: Sequence[Operator]) -> Operator:
        """The operator with what an experiment puts above it, for all its readers.

        A merge stands where rows are in no order of themselves. Those of the other kinds are, over inputs in order: an
        aggregation lets its epochs go one after the other.
        """
        if self._flush and isinstance(node, Aggregation):
            slow = self._add(node.query, SlowFlushOperator(self._flush, self._owned.stop))
            self._connect(slow, [made, *inputs])
            return slow
        if self._in_order and isinstance(node, Source | Join | FilterJoin):
            merge = self._add(node.query, OrderOperator(1, False, True))
            self._connect(merge, [made])
            return merge
        return made

    def _make(self, node: Node, inputs: Sequence[Operator]) -> Operator:
        if isinstance(node, Source):
            return self._source(node)
        if isinstance(node, LftaInput):
            return self.fed.setdefault(node.lfta.name, Operator())
        if isinstance(node, Union):
            packets = _has_places(node)
            return OrderOperator(len(inputs), True, packets) if self._in_order else UnionOperator(len(inputs), packets)
        if isinstance(node, Bucket) and self._in_order:
            return BufferedWindowsOperator(node, self._epochs[node])
        if type(node) in maps.OPERATORS:
            return maps.OPERATORS[type(node)](node, inputs[0])
        if type(node) not in OPERATORS:
            raise TypeError(f"the reference engine has no operator for {type(node).__name__}")
        return OPERATORS[type(node)](node, inputs, self._life)

    def _source(self, node: Source) -> SourceOperator:
        name = f"{node.query}.{node.alias}"
        thinnings = [self._thinnings.get((name, link)) for link in node.links]
        own = list(dict.fromkeys([*names_of(node.fields), *columns_of(node.member)]))
        names = list(dict.fromkeys([*own, *(THINNED_BY if any(thinnings) else ())]))
        source = SourceOperator(node, names, self._read_from[name], self._owned, thinnings)
        self.sources.append(source)
        self._nodes[source] = node
        self._below[source] = [frozenset([link]) for link in node.links]
        for link, thinning in zip(node.links, thinnings, strict=True):
            known = self.columns.setdefault(link, [])
            # What packets are chosen by is stored where they are.
            read = names if thinning else own
            known.extend(name for name in read if name != ROW and name not in known)
        return source

    def _feeds(self, link: str) -> list[Feed]:
        known = self.columns[link]
        feeds = []
        for source, node in self._nodes.items():
            assert isinstance(source, SourceOperator)
            if link in node.links:
                # The number of the record is behind its columns.
                places = [known.index(name) if name in known else len(known) for name in source.names]
                attributes = {
                    f.temporal.origin: _progress(known.index(f.name), f.temporal.increasing)
                    for f in node.fields
                    if f.temporal and f.temporal.origin in self._origins - {"", ROWS}
                }
                judged = not attributes or bool(self._origins & {"", ROWS})
                port = node.links.index(link)
                numbered = ROW in source.names
                feeds.append(Feed(source, port, _picker(places), attributes, bool(node.group), numbered, judged))
        return feeds


OPERATORS: dict[type[Node], Callable[[Any, Sequence[Operator], Life], Operator]] = {
    Group: lambda node, inputs, life: GroupOperator(node, inputs[0], life),
    Running: lambda node, inputs, life: RunningOperator(node, inputs[0], life),
    Sampling: lambda node, inputs, life: SamplingOperator(node, inputs[0], life),
    Join: lambda node, inputs, life: JoinOperator(node, life),
    FilterJoin: lambda node, inputs, life: FilterJoinOperator(node, life),
    WatchJoin: lambda node, inputs, life: WatchJoinOperator(node),
}
"""What runs each operator beside `stream.maps`, but for leaves and for what another architecture runs otherwise."""


def _has_places(node: Node) -> bool:
    """Whether the rows of an operator have a place: packets have one in the query that reads them."""
    if isinstance(node, Source):
        return True
    if isinstance(node, Union):
        return all(child.query == node.query and _is_packets(child) for child in node.branches)
    return not isinstance(node, Join | Aggregation)


def _is_packets(node: Node) -> bool:
    if isinstance(node, Map | Union):
        return all(child.query == node.query and _is_packets(child) for child in node.inputs())
    return isinstance(node, Source | LftaInput)


def _picker(places: Sequence[int]) -> Callable[[Values], Values]:
    return lambda values: tuple([values[at] for at in places])


def _at(place: int) -> Callable[[Values], Value]:
    return lambda values: values[place]


def _progress(place: int, increasing: bool) -> Callable[[Values], int | None]:
    """An attribute in the direction of its progress."""

    def pick(values: Values) -> int | None:
        value = values[place]
        assert value is None or isinstance(value, int)
        return value if value is None or increasing else -value

    return pick
