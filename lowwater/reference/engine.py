"""Evaluates a logical plan over stored packets in virtual time: the oracle of the other engines.

It builds the operators of the plan and connects them, which `high.arrival` does, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from lowwater.catalog import expr as ex, schemas, state_json
from lowwater.catalog.time import Reported
from lowwater.errors import ConfigError, LawError
from lowwater.plan import operators as ops, properties, temporal
from lowwater.reference.clock import PERIODIC, POLICIES, Clock, Disorder, Link, RecordSelection, SourcePort
from lowwater.stream import groups, maps, records
from lowwater.stream.fill import FillOperator
from lowwater.stream.joins import FilterJoinOperator, JoinOperator, WatchJoinOperator
from lowwater.stream.operators import Life, Promise, Row, StreamOperator, names_of
from lowwater.stream.over import OverOperator
from lowwater.stream.values import Value, Values


class Operators:
    """The operators of a logical plan; equal nodes are one operator with several consumers.

    Args:
        owned: instants of the interval, ns.
        read_from: `query.alias` of each source -> first timestamp that it reads, ns.
        packet_samplings: sampling and load shedding of sources; other sources take every packet.

    Attributes:
        columns: link -> stored columns that its sources read.
        origins: attributes by which operators make progress; the clock is the empty string, and then the only one of
            its operator.
        fed: LFTA -> operator that takes its rows, in a plan of the high level.
        named: query/kind/number -> operator, in the order of creation.
    """

    HOLDING: ClassVar[tuple[type[StreamOperator], ...]] = (
        groups.GroupOperator,
        JoinOperator,
        groups.EpochOperator,
        OverOperator,
        FillOperator,
    )
    """Operators that keep rows until a promise."""

    def __init__(
        self,
        owned: range,
        read_from: Mapping[str, int],
        life: Life,
        packet_samplings: records.PacketSamplings = MappingProxyType({}),
    ) -> None:
        self._samplings = packet_samplings
        self._owned, self._read_from, self._life = owned, read_from, life
        self._operators: dict[ops.Node, StreamOperator] = {}
        self._nodes: dict[StreamOperator, ops.Source] = {}
        self._below: dict[StreamOperator, list[frozenset[str]]] = {}
        self.origins: set[str] = set()
        self.sources: list[records.SourceOperator] = []
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
        if isinstance(node, ops.Union) or (isinstance(node, ops.Group | ops.Join) and not node.order_dependent):
            return below
        if child.query == node.query and has_places(child):
            return below
        place = self.add(node.query, maps.PlaceOperator(child.fields, below))
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
            return maps.UnionOperator(len(inputs), has_places(node))
        if type(node) in maps.OPERATORS:
            return maps.OPERATORS[type(node)](node, inputs[0])
        if type(node) not in OPERATORS:
            raise TypeError(f"the reference engine has no operator for {type(node).__name__}")
        return OPERATORS[type(node)](node, inputs, self._life)

    def _source(self, node: ops.Source) -> records.SourceOperator:
        name = f"{node.query}.{node.alias}"
        packet_samplings = [self._samplings.get((name, link)) for link in node.links]
        source_columns = list(dict.fromkeys([*names_of(node.fields), *ex.columns_of(node.member)]))
        names = list(dict.fromkeys([*source_columns, *(schemas.THINNED_BY if any(packet_samplings) else ())]))
        source = records.SourceOperator(node, names, self._read_from[name], self._owned, packet_samplings)
        self.sources.append(source)
        self._nodes[source] = node
        self._below[source] = [frozenset([link]) for link in node.links]
        for link, thinning in zip(node.links, packet_samplings, strict=True):
            columns = self.columns.setdefault(link, [])
            # The columns that sampling hashes are read only where a link samples.
            read = names if thinning else source_columns
            columns.extend(name for name in read if name != properties.ROW and name not in columns)
        return source

    def _feeds(self, link: str) -> list[SourcePort]:
        columns = self.columns[link]
        feeds = []
        for source, node in self._nodes.items():
            assert isinstance(source, records.SourceOperator)
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
                numbered = properties.ROW in source.names
                feeds.append(SourcePort(source, port, _picker(places), attributes, bool(node.group), numbered, judged))
        return feeds


OPERATORS: dict[type[ops.Node], Callable[[Any, Sequence[StreamOperator], Life], StreamOperator]] = {
    ops.Group: lambda node, inputs, life: groups.GroupOperator(node, inputs[0], life),
    ops.Running: lambda node, inputs, life: groups.RunningOperator(node, inputs[0], life),
    ops.Sampling: lambda node, inputs, life: groups.SamplingOperator(node, inputs[0], life),
    ops.Top: lambda node, inputs, life: groups.TopOperator(node, life),
    ops.Fill: lambda node, inputs, life: FillOperator(node, life),
    ops.Over: lambda node, inputs, life: OverOperator(node),
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
    return not isinstance(node, ops.Join | ops.ByEpoch)


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


class Experiment(Protocol):
    """What an experiment replaces and observes of an evaluation (`experiments.architectures`)."""

    def operators(
        self,
        owned: range,
        read_from: Mapping[str, int],
        life: Life,
        packet_samplings: records.PacketSamplings,
        by_arrival: bool,
    ) -> Operators:
        """Returns operators for a plan, as `Operators` does."""

    def observe(self, plan: Operators, clock: Clock) -> list[Any]:
        """Attaches to operators what measures them; returns the measures, which are whole after the last record."""


# It reads the same packet batches as `low` and must give the same rows as `high`. Beside the parser, the planner and
# the catalog it shares the operators of `stream/` with the slices that have a state.


@dataclass
class ReferenceResult:
    """The result of a query over an interval.

    Attributes:
        rows: values of the output fields in stream types, in order of emission.
        lasts: `_last` of each row, ns.
        ticks: tick of each row, ns: for a row released by a record, the first tick after its arrival; for a row
            released by a promise, the first tick that makes the promise; for a row released by the interval before, the
            start.
        punctuation: (tick, promise) of the output, at most one for each tick, after the rows of the tick. Ticks at
            which only the clock moves are left out.
        state: state for the next interval in the format of `catalog.state_json`; None for a query without one
            (SEMANTICS I4).
        observed: measures of each operator, where an experiment asks for them.
    """

    rows: list[Values] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    punctuation: list[tuple[int, int]] = field(default_factory=list)
    counts: list[records.SourceCount] = field(default_factory=list)
    state: str | None = None
    observed: list[Any] = field(default_factory=list)


def evaluate(
    node: ops.Node,
    packets: Mapping[str, Iterable[pa.RecordBatch]],
    links: Mapping[str, int | Disorder],
    start: int,
    end: int,
    read_from: Mapping[str, int],
    period: int,
    policy: str = PERIODIC,
    state: str | None = None,
    over: int = temporal.END_OF_TIME,
    experiment: Experiment | None = None,
    packet_samplings: records.PacketSamplings = MappingProxyType({}),
    reported: Mapping[str, Reported] = MappingProxyType({}),
) -> ReferenceResult:
    """Evaluates a query; returns the rows whose last instant lies in [start, end) (SEMANTICS I1).

    A query with a state (`plan.properties.carried_state`) either continues the state of the interval before and
    reads its own records only, or is evaluated from all records before.

    Args:
        packets: link -> batches of `catalog.schemas.RECORD` in canonical order, `arrival` absolute. They may reach
            beyond the read range; records outside it are not fed.
        links: link -> its allowed lateness; a number is the skew, ns (SEMANTICS T2).
        end: first instant, ns, that is neither owned nor read; END_OF_TIME where unbounded.
        read_from: `query.alias` of each source -> first timestamp that it reads, ns (SEMANTICS I2).
        policy: `periodic`, `data-driven` or `none`; changes ticks, never rows.
        state: state of the interval that ends at `start`; None for none.
        over: first instant after the end of all links, ns; END_OF_TIME takes the instant after the last record.
        experiment: form of the operators, which are then measured; None for none.
        packet_samplings: sampling and load shedding of sources; other sources take every packet (SEMANTICS O5).
        reported: link -> its life and the gaps of its coverage, for groups without rows (SEMANTICS O10).

    Raises:
        ConfigError: no such policy, a period that is not positive.
        ValueOverflowError: an integer sum does not fit 64 bits (SEMANTICS O3).
        LowwaterError: groups stay open over too many idle epochs (SEMANTICS O4); the Python of a user fails.
        LawError: the batches of a link are not in order of arrival, or the state is not of this plan and instant.
    """
    if policy not in POLICIES:
        raise ConfigError(f"there is no heartbeat policy {policy!r}", f"there are: {', '.join(POLICIES)}")
    if period <= 0:
        raise ConfigError(f"the heartbeat period is {period} ns", "give a duration above 0")
    disorder = {name: Disorder(lateness) if isinstance(lateness, int) else lateness for name, lateness in links.items()}
    carries = bool(properties.carried_state(node))
    span = RecordSelection(start, end, state is not None, properties.by_arrival(node), carries)
    late = max((link_disorder.longest for link_disorder in disorder.values()), default=0) if span.by_arrival else 0
    life = Life(over, late, reported)
    owned = range(start, end)
    if experiment is None:
        plan = Operators(owned, read_from, life, packet_samplings)
    else:
        plan = experiment.operators(owned, read_from, life, packet_samplings, span.by_arrival)
    top = plan.operator(node)
    clock = Clock(plan.links(disorder), plan.holders(disorder), span, life, period, policy)
    sink = _ResultCollector(clock, owned, carries)
    top.connect(sink, 0)
    observed = experiment.observe(plan, clock) if experiment is not None else []
    if state is not None:
        _restore(state_json.read_state(state), start, plan, clock, sink)
    for record in records.merge(packets, plan.columns):
        clock.record(record)
    clock.close()
    sink.result.counts = [count for source in plan.sources for count in source.counts]
    sink.result.observed = observed
    if carries:
        operators = {name: operator.state() for name, operator in plan.named.items()}
        sink.result.state = state_json.write_state([end, operators, clock.state(), sink.later])
    return sink.result


def _restore(state: Any, start: int, plan: Operators, clock: Clock, sink: _ResultCollector) -> None:
    at, operators, times, rows = state
    if at != start or operators.keys() != plan.named.keys():
        hint = "evaluate the intervals from the start of the chain"
        raise LawError(f"the state is of {at} ns and of another plan than that of {start} ns", hint)
    for name, operator in plan.named.items():
        operator.restore(operators[name])
    clock.restore(times)
    for values, last in rows:
        sink.keep(Row(values, last), start)


class _ResultCollector(StreamOperator):
    """Collects the output rows that the interval owns; rows of later intervals go into the state."""

    def __init__(self, clock: Clock, owned: range, carries: bool) -> None:
        super().__init__()
        self.result = ReferenceResult()
        self.later: list[tuple[Values, int]] = []
        self._clock, self._owned, self._carries = clock, owned, carries

    def row(self, port: int, row: Row) -> None:
        self.keep(row, self._clock.tick)

    def keep(self, row: Row, tick: int) -> None:
        """Collects a row that is emitted at a tick, ns."""
        if row.last in self._owned:
            self.result.rows.append(row.values)
            self.result.lasts.append(row.last)
            self.result.ticks.append(tick)
        elif self._carries and row.last >= self._owned.stop:
            self.later.append((row.values, row.last))

    def promise(self, port: int, promise: Promise) -> None:
        """Collects a promise; only the last one of a tick, so that the rows of the tick come before it (SEMANTICS
        P5)."""
        if promise.origin or promise.of:
            return
        punctuation, capped = self.result.punctuation, min(promise.instant, self._owned.stop)
        if punctuation and punctuation[-1][1] >= capped:
            return
        if punctuation and punctuation[-1][0] == self._clock.tick:
            punctuation.pop()
        punctuation.append((self._clock.tick, capped))
