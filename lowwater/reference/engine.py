"""Evaluates a logical plan over stored packets in virtual time: the oracle of the other engines; and measures of each
operator, for experiments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

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

# Measures of operators: memory in tuples and bytes, latency in virtual time. Probes are attached only if an
# experiment asks for them.

OOP, IOP = "oop", "iop"


@dataclass(frozen=True)
class Experiment:
    """The form of the operators in an experiment about memory and latency (002, section 8).

    Attributes:
        form: `oop`, or `iop`: merges that restore order above every source, union and join, buffered sliding windows.
        flush: results that an aggregation emits for each row it reads (slow flush; 000, section 3.1); 0 emits all at
            once.

    Raises:
        ConfigError: no such form, or a negative number.
    """

    form: str = OOP
    flush: int = 0

    def __post_init__(self) -> None:
        if self.form not in (OOP, IOP):
            raise ConfigError(f"there is no form {self.form!r} of operators", f"there are: {OOP}, {IOP}")
        if self.flush < 0:
            raise ConfigError(f"a slow flush of {self.flush} results for a row", "give 1 or more, or 0 for none")


@dataclass
class OperatorMeasures:
    """The measures of one operator over an evaluation.

    Attributes:
        operator: `query/kind/number`.
        rows: number of rows emitted.
        tuples: largest number of stored rows and groups.
        bytes: largest size of their values, bytes.
        latency: sum over the rows of emission time minus `_last`, ns of virtual time.
        longest: largest such difference, ns.
    """

    operator: str
    rows: int = 0
    tuples: int = 0
    bytes: int = 0
    latency: int = 0
    longest: int = 0


class Probe(StreamOperator):
    """Measures the output and the state of an operator."""

    def __init__(self, name: str, operator: StreamOperator, clock: Clock) -> None:
        super().__init__()
        self.observed = OperatorMeasures(name)
        self._operator, self._clock = operator, clock

    def row(self, port: int, row: Row) -> None:
        """Counts a row and its latency."""
        waited = max(self._clock.tick - row.last, 0)
        self.observed.rows += 1
        self.observed.latency += waited
        self.observed.longest = max(self.observed.longest, waited)

    def promise(self, port: int, promise: Promise) -> None:
        """Ignores promises."""

    def measure(self) -> None:
        """Measures the state of the operator."""
        sizes = [size(values) for values in self._operator.state_rows()]
        self.observed.tuples = max(self.observed.tuples, len(sizes))
        self.observed.bytes = max(self.observed.bytes, sum(sizes))


def probes(named: Mapping[str, StreamOperator], clock: Clock) -> list[Probe]:
    """Attaches a probe to every operator."""
    operator_probes = [Probe(name, operator, clock) for name, operator in named.items()]
    for probe, operator in zip(operator_probes, named.values(), strict=True):
        operator.connect(probe, 0)
        # Measured before rows are removed, not at ticks: rows that leave one operator at a promise fill the next at the
        # same tick.
        operator.before_release = probe.measure
    return operator_probes


def size(values: Values) -> int:
    """The size of values in bytes: 8 for a number, the length of a text or an address.

    Example:
        >>> size((1, None, "abc", 2.5))
        19
    """
    return sum(len(v) if isinstance(v, str | bytes) else 0 if v is None else 8 for v in values)


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
    observed: list[OperatorMeasures] = field(default_factory=list)


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
        node: logical plan.
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
        ConfigError: no such policy, a period that is not positive, other forms of operators where records count.
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
    forms = experiment or Experiment()
    if forms != Experiment() and span.by_arrival:
        raise ConfigError(f"operators as in {forms} know the order of the clock only", "leave the experiment away")
    plan = Operators(range(start, end), read_from, life, forms.form == IOP, packet_samplings, forms.flush)
    top = plan.operator(node)
    clock = Clock(plan.links(disorder), plan.holders(disorder), span, life, period, policy)
    sink = _ResultCollector(clock, range(start, end), carries)
    top.connect(sink, 0)
    observing = probes(plan.named, clock) if experiment is not None else []
    if state is not None:
        _restore(read_state(state), start, plan, clock, sink)
    for record in merge(packets, plan.columns):
        clock.record(record)
    clock.close()
    sink.result.counts = [count for source in plan.sources for count in source.counts]
    sink.result.observed = [probe.observed for probe in observing]
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
        """Collects a row whose last instant the interval owns."""
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
