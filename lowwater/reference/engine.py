"""The reference engine: a logical plan evaluated over stored packets in virtual time, the oracle of the other engines.

Beside `low` and `high`: it reads the same packet batches and makes the rows that they must make, sharing only the
parser, the planner and the catalog with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lowwater.catalog.expr import columns_of
from lowwater.catalog.packets import THINNED_BY
from lowwater.errors import ConfigError
from lowwater.plan.nodes import Group, Join, Map, Node, Sample, Source, Union
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.joins import JoinOperator
from lowwater.reference.operators import (
    GroupOperator,
    MapOperator,
    Operator,
    Promise,
    Row,
    SourceCount,
    SourceOperator,
    names_of,
)
from lowwater.reference.records import Record, merge
from lowwater.reference.thinning import Thinning
from lowwater.reference.values import Values

PERIODIC, DATA_DRIVEN, NONE = "periodic", "data-driven", "none"
POLICIES = (PERIODIC, DATA_DRIVEN, NONE)

Feed = tuple[SourceOperator, int, Callable[[Values], Values]]


@dataclass
class ReferenceResult:
    """What a query gives over an interval.

    Attributes:
        rows: values of the output fields, in the form of streams, in order of emission.
        lasts: `_last` of each row, ns.
        ticks: virtual time of each row's emission, ns: of what a record releases, the first tick after its arrival; of
            what a promise releases, the first tick that makes it.
        punctuation: (tick, promise) of the output, at most one a tick, after the rows of the tick. Ticks at which
            nothing changes but the clock are left out.
        counts: accounting, one per source and link.
    """

    rows: list[Values] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    punctuation: list[tuple[int, int]] = field(default_factory=list)
    counts: list[SourceCount] = field(default_factory=list)


def evaluate(
    node: Node,
    packets: Mapping[str, Iterable[pa.RecordBatch]],
    links: Mapping[str, int],
    start: int,
    end: int,
    read_from: Mapping[str, int],
    period: int,
    policy: str = PERIODIC,
    budgets: Mapping[str, int] | None = None,
) -> ReferenceResult:
    """The rows of a query whose last instant lies in [start, end) (SEMANTICS I1).

    Args:
        node: logical plan.
        packets: link -> batches of `catalog.packets.RECORD` in canonical order, `arrival` absolute. They may reach
            beyond the read range; records outside it are not fed.
        links: link -> skew, ns (SEMANTICS T2).
        start: first owned instant, ns.
        end: first instant, ns, that is neither owned nor read; END_OF_TIME where unbounded.
        read_from: `query.alias` of each source -> first timestamp that it reads, ns (SEMANTICS I2).
        period: ns between ticks.
        policy: `periodic`, `data-driven` or `none`; changes ticks, never rows.
        budgets: link -> most packets of a second that a source takes, of links with load shedding (SEMANTICS O5). Their
            packets are read twice, and hold the seconds of the read range whole.

    Raises:
        ConfigError: no such policy, or a period that is not positive.
        ValueOverflowError: an integer sum does not fit 64 bits (SEMANTICS O3).
        LawError: the batches of a link are not in order of arrival.
    """
    if policy not in POLICIES:
        raise ConfigError(f"there is no heartbeat policy {policy!r}", f"there are: {', '.join(POLICIES)}")
    if period <= 0:
        raise ConfigError(f"the heartbeat period is {period} ns", "give a duration above 0")
    budgets = budgets or {}
    plan = _Plan(range(start, end), read_from, budgets)
    top = plan.operator(node)
    clock = _Clock(plan, links, end, period, policy)
    sink = _Sink(clock, range(start, end))
    top.connect(sink, 0)
    plan.thin(packets, links)
    for record in merge(packets, plan.columns):
        clock.record(record)
    clock.close()
    sink.result.counts = [count for source in plan.sources for count in source.counts]
    return sink.result


class _Plan:
    """The operators of a logical plan; equal nodes are one operator with several consumers.

    Attributes:
        sources: in the order of the plan.
        columns: link -> columns that its sources read.
        links: operator -> for each of its inputs, the links below.
    """

    def __init__(self, owned: range, read_from: Mapping[str, int], budgets: Mapping[str, int]) -> None:
        self._owned = owned
        self._budgets = budgets
        self._read_from = read_from
        self._made: dict[Node, Operator] = {}
        self._samples: dict[SourceOperator, Sample | None] = {}
        self.sources: list[SourceOperator] = []
        self.columns: dict[str, list[str]] = {}
        self.links: dict[Operator, list[frozenset[str]]] = {}

    def operator(self, node: Node) -> Operator:
        """The operator of a node, connected to those below it."""
        if node not in self._made:
            inputs = [self.operator(child) for child in node.inputs()]
            made = self._made[node] = self._make(node, inputs)
            for port, below in enumerate(inputs):
                below.connect(made, port)
            self.links.setdefault(made, [frozenset[str]().union(*self.links[below]) for below in inputs])
        return self._made[node]

    def _make(self, node: Node, inputs: Sequence[Operator]) -> Operator:
        if isinstance(node, Source):
            return self._source(node)
        if isinstance(node, Map):
            return MapOperator(node, inputs[0])
        if isinstance(node, Group):
            return GroupOperator(node, inputs[0])
        if isinstance(node, Join):
            return JoinOperator(node)
        if isinstance(node, Union):
            return Operator(len(inputs))
        raise TypeError(type(node).__name__)

    def _source(self, node: Source) -> SourceOperator:
        thinned = THINNED_BY if node.sample or self._budgets.keys() & set(node.links) else ()
        names = list(dict.fromkeys([*names_of(node.fields), *columns_of(node.member), *thinned]))
        source = SourceOperator(node, names, self._read_from[f"{node.query}.{node.alias}"], self._owned)
        self.sources.append(source)
        self._samples[source] = node.sample
        self.links[source] = [frozenset([link]) for link in node.links]
        for link in node.links:
            known = self.columns.setdefault(link, [])
            known.extend(name for name in names if name not in known)
        return source

    def thin(self, packets: Mapping[str, Iterable[pa.RecordBatch]], skews: Mapping[str, int]) -> None:
        """Tells every source what sampling and load shedding leave it of its links."""
        for source in self.sources:
            for port, (link,) in enumerate(self.links[source]):
                sample, budget = self._samples[source], self._budgets.get(link)
                if sample is not None or budget is not None:
                    read = merge({link: packets.get(link, ())}, {link: source.names}) if budget else ()
                    rows = (Row(r.values, r.timestamp) for r in read if r.arrival - r.timestamp <= skews[link])
                    known = (packet for row in rows if (packet := source.packet(row)))
                    source.thin(port, Thinning.of(sample, link, budget, known))


@dataclass
class _Link:
    """One link in virtual time: what it feeds, and the largest arrival seen, None before the first."""

    name: str
    skew: int
    feeds: list[Feed]
    seen: int | None = None


class _Clock:
    """Virtual time: feeds records and makes the promises of the ticks between them (SEMANTICS T2).

    Attributes:
        tick: at which rows and promises that are made now are emitted, ns.
    """

    def __init__(self, plan: _Plan, links: Mapping[str, int], end: int, period: int, policy: str) -> None:
        self.tick = 0
        self._end = end
        self._period = period
        self._policy = policy
        self._done = -1
        self._links = {name: _Link(name, links[name], _feeds(plan, name)) for name in plan.columns}
        self._holders = [
            (operator, [max((links[name] for name in names), default=0) for names in inputs])
            for operator, inputs in plan.links.items()
            if isinstance(operator, GroupOperator | JoinOperator)
        ]

    def record(self, record: Record) -> None:
        """One record arrives: the ticks up to it come first, then it is fed or counted as a violation."""
        self._advance(record.arrival)
        link = self._links[record.link]
        link.seen = record.arrival
        self.tick = self._after(record.arrival)
        violates = record.arrival - record.timestamp > link.skew
        for source, port, pick in link.feeds:
            if violates:
                source.violation(port, record.arrival)
            elif source.read_from <= record.timestamp < self._end:
                source.receive(port, Row(pick(record.values), record.timestamp))

    def close(self) -> None:
        """The ticks after the last record, then the closing promise, which releases everything (SEMANTICS T6)."""
        seen = max((link.seen for link in self._links.values() if link.seen is not None), default=None)
        closing = 0 if seen is None else self._after(seen)
        if self._end < END_OF_TIME:
            self._advance(self._end - 1)
            closing = max(closing, self._end)
        self._promise(closing, [(link, END_OF_TIME) for link in self._links.values()])

    def _after(self, instant: int) -> int:
        return (instant // self._period + 1) * self._period

    def _advance(self, instant: int) -> None:
        """Makes the promises of the ticks up to and including an instant."""
        if self._policy == DATA_DRIVEN:
            seen = [(link, link.seen - link.skew) for link in self._links.values() if link.seen is not None]
            if seen and self._done < self.tick <= instant:
                self._promise(self.tick, seen)
        elif self._policy == PERIODIC:
            latest = instant // self._period * self._period
            while self._done < latest:
                tick = min(self._due(), latest)
                self._promise(tick, [(link, tick - link.skew) for link in self._links.values()])

    def _due(self) -> int:
        """The next tick at which a promise releases a row; the ticks before it change nothing but the clock (T4)."""
        found = END_OF_TIME
        for operator, skews in self._holders:
            for port, promise in operator.due():
                if promise <= self._end:
                    tick = -(-(promise + skews[port]) // self._period) * self._period
                    found = min(found, max(tick, self._done + self._period))
        return found

    def _promise(self, tick: int, promises: Iterable[tuple[_Link, int]]) -> None:
        self._done = self.tick = tick
        for link, instant in promises:
            capped = instant if instant == END_OF_TIME else min(instant, self._end)
            for source, port, _ in link.feeds:
                source.receive(port, Promise(capped))


class _Sink(Operator):
    """Collects what an interval owns of the output."""

    def __init__(self, clock: _Clock, owned: range) -> None:
        super().__init__()
        self.result = ReferenceResult()
        self._clock = clock
        self._owned = owned

    def row(self, port: int, row: Row) -> None:
        """Keeps a row whose last instant is owned."""
        if row.last in self._owned:
            self.result.rows.append(row.values)
            self.result.lasts.append(row.last)
            self.result.ticks.append(self._clock.tick)

    def promise(self, port: int, instant: int) -> None:
        """Notes a promise; of a tick only the last, so that the rows of the tick come before it (SEMANTICS P5)."""
        made, capped = self.result.punctuation, min(instant, self._owned.stop)
        if made and made[-1][1] >= capped:
            return
        if made and made[-1][0] == self._clock.tick:
            made.pop()
        made.append((self._clock.tick, capped))


def _feeds(plan: _Plan, link: str) -> list[Feed]:
    """The ports that read a link, and how each picks its columns from a record."""
    known = plan.columns[link]
    return [
        (source, port, _picker([known.index(name) for name in source.names]))
        for source in plan.sources
        for port, names in enumerate(plan.links[source])
        if link in names
    ]


def _picker(positions: Sequence[int]) -> Callable[[Values], Values]:
    return lambda values: tuple([values[at] for at in positions])
