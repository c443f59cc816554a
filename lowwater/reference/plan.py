"""Builds the operators of a logical plan and connects them.

`reference.engine` and `high.arrival` run them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from lowwater.catalog.expr import columns_of
from lowwater.catalog.schemas import THINNED_BY
from lowwater.plan import operators as ops
from lowwater.plan.properties import ROW
from lowwater.reference.clock import Disorder, Link, SourcePort
from lowwater.stream import maps
from lowwater.stream.groups import EpochOperator, GroupOperator, RunningOperator, SamplingOperator
from lowwater.stream.joins import FilterJoinOperator, JoinOperator, WatchJoinOperator
from lowwater.stream.maps import PlaceOperator, UnionOperator
from lowwater.stream.operators import Life, StreamOperator, names_of
from lowwater.stream.records import PacketSamplings, SourceOperator
from lowwater.stream.values import Value, Values


class Operators:
    """The operators of a logical plan; equal nodes are one operator with several consumers.

    Args:
        owned: instants of the interval, ns.
        read_from: `query.alias` of each source -> first timestamp that it reads, ns.
        packet_samplings: sampling and load shedding of sources; other sources take every packet.

    Attributes:
        sources: source operators in the order of the plan.
        columns: link -> stored columns that its sources read.
        origins: attributes by which operators make progress; the clock is the empty string, and then the only one of
            its operator.
        fed: LFTA -> operator that takes its rows, in a plan of the high level.
        named: query/kind/number -> operator, in the order of creation.
    """

    HOLDING: ClassVar[tuple[type[StreamOperator], ...]] = (GroupOperator, JoinOperator, EpochOperator)
    """Operators that keep rows until a promise."""

    def __init__(
        self,
        owned: range,
        read_from: Mapping[str, int],
        life: Life,
        packet_samplings: PacketSamplings = MappingProxyType({}),
    ) -> None:
        self._samplings = packet_samplings
        self._owned, self._read_from, self._life = owned, read_from, life
        self._operators: dict[ops.Node, StreamOperator] = {}
        self._nodes: dict[StreamOperator, ops.Source] = {}
        self._below: dict[StreamOperator, list[frozenset[str]]] = {}
        self.origins: set[str] = set()
        self.sources: list[SourceOperator] = []
        self.columns: dict[str, list[str]] = {}
        self.fed: dict[str, StreamOperator] = {}
        self.named: dict[str, StreamOperator] = {}

    def operator(self, node: ops.Node) -> StreamOperator:
        """Returns the operator of a node, connected to its inputs."""
        if node not in self._operators:
            # Beside the clock another attribute is a value: it makes no progress, and nothing is late in it (T8).
            self.origins |= {""} if "" in node.origins() else set(node.origins())
            inputs = [self._placed(node, child) for child in node.inputs()]
            operator = self.add(node.query, self.make(node, inputs))
            self.connect(operator, inputs)
            self._operators[node] = self.above(node, operator, inputs)
        return self._operators[node]

    def links(self, disorder: Mapping[str, Disorder]) -> list[Link]:
        """The links that sources read, with the ports that read them."""
        return [self._link(name, disorder[name]) for name in self.columns]

    def _link(self, name: str, disorder: Disorder) -> Link:
        columns, column = self.columns[name], disorder.column
        if column and column not in columns:
            columns.append(column)
        return Link(name, disorder, self._feeds(name), _at(columns.index(column)) if column else None)

    def holders(self, disorder: Mapping[str, Disorder]) -> list[tuple[StreamOperator, list[int]]]:
        """Operators that keep rows until a promise, with the least time (ns) by which each input trails the clock.

        An input trails the clock by its slowest link, taken with its delay and the smallest skew of any value.
        """
        return [
            (
                operator,
                [max((disorder[name].least_lag for name in names), default=0) for names in inputs],
            )
            for operator, inputs in self._below.items()
            if isinstance(operator, self.HOLDING)
        ]

    def add(self, query: str, operator: StreamOperator) -> StreamOperator:
        """Gives an operator its name."""
        # Stored states contain these names, so a class that gets another name must keep its kind.
        kind = type(operator).__name__.removeprefix("Stream").removesuffix("Operator")
        self.named[f"{query}/{kind}/{len(self.named)}"] = operator
        return operator

    def connect(self, operator: StreamOperator, inputs: Sequence[StreamOperator]) -> None:
        for port, below in enumerate(inputs):
            below.connect(operator, port)
        self._below.setdefault(operator, [frozenset[str]().union(*self._below[below]) for below in inputs])

    def _placed(self, node: ops.Node, child: ops.Node) -> StreamOperator:
        """The operator below, with a canonical order on its rows where the reader needs it (SEMANTICS O1)."""
        below = self.operator(child)
        if isinstance(node, ops.Join | ops.Union) or (isinstance(node, ops.Group) and not node.order_dependent):
            return below
        if child.query == node.query and has_places(child):
            return below
        place = self.add(node.query, PlaceOperator(child.fields, below))
        self.connect(place, [below])
        return place

    def above(self, node: ops.Node, operator: StreamOperator, inputs: Sequence[StreamOperator]) -> StreamOperator:
        """The operator that the readers of a node read: its own, unless an experiment puts one above it."""
        return operator

    def make(self, node: ops.Node, inputs: Sequence[StreamOperator]) -> StreamOperator:
        """Makes the operator of a node; `inputs` are connected to it afterwards."""
        if isinstance(node, ops.Source):
            return self._source(node)
        if isinstance(node, ops.LftaInput):
            ports = len(node.lfta.links) if node.lfta.whole else 1
            return self.fed.setdefault(node.lfta.name, StreamOperator(ports))
        if isinstance(node, ops.Union):
            return UnionOperator(len(inputs), has_places(node))
        if type(node) in maps.OPERATORS:
            return maps.OPERATORS[type(node)](node, inputs[0])
        if type(node) not in OPERATORS:
            raise TypeError(f"the reference engine has no operator for {type(node).__name__}")
        return OPERATORS[type(node)](node, inputs, self._life)

    def _source(self, node: ops.Source) -> SourceOperator:
        name = f"{node.query}.{node.alias}"
        packet_samplings = [self._samplings.get((name, link)) for link in node.links]
        source_columns = list(dict.fromkeys([*names_of(node.fields), *columns_of(node.member)]))
        names = list(dict.fromkeys([*source_columns, *(THINNED_BY if any(packet_samplings) else ())]))
        source = SourceOperator(node, names, self._read_from[name], self._owned, packet_samplings)
        self.sources.append(source)
        self._nodes[source] = node
        self._below[source] = [frozenset([link]) for link in node.links]
        for link, thinning in zip(node.links, packet_samplings, strict=True):
            columns = self.columns.setdefault(link, [])
            # The columns that sampling hashes are read only where a link samples.
            read = names if thinning else source_columns
            columns.extend(name for name in read if name != ROW and name not in columns)
        return source

    def _feeds(self, link: str) -> list[SourcePort]:
        columns = self.columns[link]
        feeds = []
        for source, node in self._nodes.items():
            assert isinstance(source, SourceOperator)
            if link in node.links:
                # The number of the record comes after the columns.
                places = [columns.index(name) if name in columns else len(columns) for name in source.names]
                attributes = {
                    f.temporal.origin: _progress(columns.index(f.name), f.temporal.increasing)
                    for f in node.fields
                    if f.temporal and f.temporal.origin in self.origins - {"", ops.ROWS}
                }
                judged = not attributes or bool(self.origins & {"", ops.ROWS})
                port = node.links.index(link)
                numbered = ROW in source.names
                feeds.append(SourcePort(source, port, _picker(places), attributes, bool(node.group), numbered, judged))
        return feeds


OPERATORS: dict[type[ops.Node], Callable[[Any, Sequence[StreamOperator], Life], StreamOperator]] = {
    ops.Group: lambda node, inputs, life: GroupOperator(node, inputs[0], life),
    ops.Running: lambda node, inputs, life: RunningOperator(node, inputs[0], life),
    ops.Sampling: lambda node, inputs, life: SamplingOperator(node, inputs[0], life),
    ops.Join: lambda node, inputs, life: JoinOperator(node, life),
    ops.FilterJoin: lambda node, inputs, life: FilterJoinOperator(node, life),
    ops.WatchJoin: lambda node, inputs, life: WatchJoinOperator(node),
}
"""Node type -> operator; without leaves, operators of `stream.maps`, and unions."""


def has_places(node: ops.Node) -> bool:
    """Whether the rows of an operator have a canonical order: packets have one in the query that reads them."""
    if isinstance(node, ops.Source):
        return True
    if isinstance(node, ops.Union):
        return all(child.query == node.query and _is_packets(child) for child in node.branches)
    return not isinstance(node, ops.Join | ops.Aggregation)


def _is_packets(node: ops.Node) -> bool:
    if isinstance(node, ops.Map | ops.Union):
        return all(child.query == node.query and _is_packets(child) for child in node.inputs())
    return isinstance(node, ops.Source | ops.LftaInput)


def _picker(places: Sequence[int]) -> Callable[[Values], Values]:
    return lambda values: tuple([values[at] for at in places])


def _at(place: int) -> Callable[[Values], Value]:
    return lambda values: values[place]


def _progress(place: int, increasing: bool) -> Callable[[Values], int | None]:
    """Selects an attribute, negated where it decreases."""

    def pick(values: Values) -> int | None:
        value = values[place]
        assert value is None or isinstance(value, int)
        return value if value is None or increasing else -value

    return pick
