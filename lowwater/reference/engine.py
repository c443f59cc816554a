"""Evaluates a logical plan over stored packets in virtual time: the oracle of the other engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from lowwater.catalog.state_json import read_state, write_state
from lowwater.errors import ConfigError, LawError
from lowwater.plan.operators import Node
from lowwater.plan.properties import by_arrival, carried_state
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference.clock import PERIODIC, POLICIES, Clock, Disorder, RecordSelection
from lowwater.reference.plan import Operators
from lowwater.stream.operators import Life, Promise, Row, StreamOperator
from lowwater.stream.records import PacketSamplings, SourceCount, merge
from lowwater.stream.values import Values


class Experiment(Protocol):
    """What an experiment replaces and observes of an evaluation (`experiments.architectures`)."""

    def operators(
        self,
        owned: range,
        read_from: Mapping[str, int],
        life: Life,
        packet_samplings: PacketSamplings,
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
        counts: accounting of each source and link.
        state: state for the next interval in the format of `catalog.state_json`; None for a query without one
            (SEMANTICS I4).
        observed: measures of each operator, where an experiment asks for them.
    """

    rows: list[Values] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    punctuation: list[tuple[int, int]] = field(default_factory=list)
    counts: list[SourceCount] = field(default_factory=list)
    state: str | None = None
    observed: list[Any] = field(default_factory=list)


def evaluate(
    node: Node,
    packets: Mapping[str, Iterable[pa.RecordBatch]],
    links: Mapping[str, int | Disorder],
    start: int,
    end: int,
    read_from: Mapping[str, int],
    period: int,
    policy: str = PERIODIC,
    state: str | None = None,
    over: int = END_OF_TIME,
    experiment: Experiment | None = None,
    packet_samplings: PacketSamplings = MappingProxyType({}),
) -> ReferenceResult:
    """Evaluates a query; returns the rows whose last instant lies in [start, end) (SEMANTICS I1).

    A query with a state (`plan.properties.state.carried_state`) either continues the state of the interval before and
    reads its own records only, or is evaluated from all records before.

    Args:
        packets: link -> batches of `catalog.schemas.RECORD` in canonical order, `arrival` absolute. They may reach
            beyond the read range; records outside it are not fed.
        links: link -> its allowed lateness; a number is the skew, ns (SEMANTICS T2).
        start: first owned instant, ns.
        end: first instant, ns, that is neither owned nor read; END_OF_TIME where unbounded.
        read_from: `query.alias` of each source -> first timestamp that it reads, ns (SEMANTICS I2).
        period: ns between ticks.
        policy: `periodic`, `data-driven` or `none`; changes ticks, never rows.
        state: state of the interval that ends at `start`; None for none.
        over: first instant after the end of all links, ns; END_OF_TIME takes the instant after the last record.
        experiment: form of the operators, which are then measured; None for none.
        packet_samplings: sampling and load shedding of sources; other sources take every packet (SEMANTICS O5).

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
    carries = bool(carried_state(node))
    span = RecordSelection(start, end, state is not None, by_arrival(node), carries)
    late = max((link_disorder.longest for link_disorder in disorder.values()), default=0) if span.by_arrival else 0
    life = Life(over, late)
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
        _restore(read_state(state), start, plan, clock, sink)
    for record in merge(packets, plan.columns):
        clock.record(record)
    clock.close()
    sink.result.counts = [count for source in plan.sources for count in source.counts]
    sink.result.observed = observed
    if carries:
        operators = {name: operator.state() for name, operator in plan.named.items()}
        sink.result.state = write_state([end, operators, clock.state(), sink.later])
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
