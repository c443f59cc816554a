"""The operators of the OOP architecture, tuple at a time (002, sections 5 and A.2).

Between `reference.engine`, which feeds sources and ticks, and the rows of the result; `reference.joins` has the join.
Every operator takes two kinds of message: a row, which it keeps or hands on, and a promise, which releases what it
keeps. All promises are instants of one domain: no later row has a smaller `_last`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from lowwater.catalog.expr import Column, Expr, Type, show
from lowwater.catalog.packets import SAMPLING_RATE, THINNED_BY
from lowwater.errors import ValueOverflowError
from lowwater.plan.nodes import Aggregate, Field, Group, Item, Map, Source, group_last
from lowwater.reference.thinning import KEPT, SAMPLED_OUT, SHED, Packet, Thinning
from lowwater.reference.values import (
    INT64_MAX,
    INT64_MIN,
    Evaluate,
    Faults,
    Value,
    Values,
    compile_expr,
    compile_predicate,
)


class Row(NamedTuple):
    """A row of a stream, with the last instant (ns) that could still have changed it (SEMANTICS I1)."""

    values: Values
    last: int


class Promise(NamedTuple):
    """A punctuation: no later row has a `last` below `instant` (ns) (SEMANTICS P1)."""

    instant: int


Message = Row | Promise


class Operator:
    """Base of operators: hands rows on as they are, and promises the minimum of its inputs (SEMANTICS P3).

    As it stands it is the union (002, figure A-1). Subclasses say what they do with a row, and what a promise of one
    input releases.
    """

    def __init__(self, ports: int = 1) -> None:
        self.promised = [0] * ports
        self._emitted = 0
        self._consumers: list[tuple[Operator, int]] = []

    def connect(self, consumer: Operator, port: int) -> None:
        """Hands this operator's output to a port of another."""
        self._consumers.append((consumer, port))

    def receive(self, port: int, message: Message) -> None:
        """Takes a message of an input."""
        if isinstance(message, Row):
            self.row(port, message)
        else:
            self.promise(port, message.instant)

    def emit(self, message: Message) -> None:
        """Hands a message to all consumers."""
        for consumer, port in self._consumers:
            consumer.receive(port, message)

    def row(self, port: int, row: Row) -> None:
        """Takes a row of an input."""
        self.emit(row)

    def promise(self, port: int, instant: int) -> None:
        """Takes a promise of an input: releases what it allows, then promises what is new for the output."""
        if instant <= self.promised[port]:
            return
        self.promised[port] = instant
        self.release(port)
        least = min(self.promised)
        if least > self._emitted:
            self._emitted = least
            self.emit(Promise(least))

    def release(self, port: int) -> None:
        """Emits and forgets what the promise of an input allows."""

    def due(self) -> Iterator[tuple[int, int]]:
        """For each input, the least promise (ns) that would release something."""
        return iter(())


@dataclass
class SourceCount:
    """Accounting of one source on one link (SEMANTICS A1): records owned by the interval, by what became of them.

    Attributes:
        source: `query.alias`.
        link: its name.
        sane: records in order, by their own timestamp.
        not_of_protocol: those that are no packet of the protocol.
        sampled_out: those that its sampling leaves out, `shed` load shedding (O5).
        filtered: those for which the predicate directly above the source is not true; `failed` where a V2 failure
            took part.
        violating: records later than the skew, by their arrival.
    """

    source: str
    link: str
    sane: int = 0
    not_of_protocol: int = 0
    sampled_out: int = 0
    shed: int = 0
    filtered: int = 0
    failed: int = 0
    violating: int = 0

    @property
    def accepted(self) -> int:
        return self.sane - self.not_of_protocol - self.sampled_out - self.shed - self.filtered - self.failed


class SourceOperator(Operator):
    """The packets of one protocol; a port per link.

    Attributes:
        names: columns of the rows fed: the fields, then what else the protocol's predicate reads.
        read_from: first timestamp (ns) that is read (SEMANTICS I2).
        counts: one per link; `charged` is that of the row on its way, one of its own for rows that nobody owns.
    """

    def __init__(self, node: Source, names: Sequence[str], read_from: int, owned: range) -> None:
        super().__init__(len(node.links))
        self.names = names
        self.read_from = read_from
        self.counts = [SourceCount(f"{node.query}.{node.alias}", link) for link in node.links]
        self.charged = self._nobody = SourceCount("", "")
        self._owned = owned
        self._width = len(node.fields)
        self._member = compile_predicate(node.member, names, Faults())
        self._rate = names.index(SAMPLING_RATE) if SAMPLING_RATE in names else None
        self._thinnings: list[Thinning | None] = [None] * len(node.links)

    def row(self, port: int, row: Row) -> None:
        """Takes an admitted record of the link `port`."""
        self.charged = self.counts[port] if row.last in self._owned else self._nobody
        self.charged.sane += 1
        if not self._member(row.values):
            self.charged.not_of_protocol += 1
            return
        outcome, rate = self._outcome(port, row)
        if outcome == SAMPLED_OUT:
            self.charged.sampled_out += 1
        elif outcome == SHED:
            self.charged.shed += 1
        else:
            values = list(row.values[: self._width])
            if self._rate is not None:
                values[self._rate] = rate
            self.emit(Row(tuple(values), row.last))

    def thin(self, port: int, thinning: Thinning) -> None:
        """Takes of the link `port` what sampling and load shedding leave."""
        self._thinnings[port] = thinning

    def packet(self, row: Row) -> Packet | None:
        """What sampling knows a record by; None where it is not of the protocol."""
        length, head = (row.values[self.names.index(name)] for name in THINNED_BY)
        return (row.last, length, head) if self._member(row.values) else None  # type: ignore[return-value]

    def _outcome(self, port: int, row: Row) -> tuple[str, float]:
        thinning, packet = self._thinnings[port], None
        if thinning is not None:
            packet = self.packet(row)
        return (KEPT, 1.0) if thinning is None or packet is None else thinning.outcome(packet)

    def violation(self, port: int, arrival: int) -> None:
        """Counts a record later than the skew of its link."""
        self.counts[port].violating += arrival in self._owned


class Filter:
    """A predicate; what it drops directly above a source is charged there."""

    def __init__(self, predicate: Expr | None, names: Sequence[str], below: Operator) -> None:
        self._faults = Faults()
        self._test = compile_predicate(predicate, names, self._faults)
        self._source = below if isinstance(below, SourceOperator) else None

    def passes(self, values: Values) -> bool:
        """Whether the row stays."""
        before = self._faults.count
        if self._test(values):
            return True
        if self._source:
            failed = self._faults.count > before
            self._source.charged.failed += failed
            self._source.charged.filtered += not failed
        return False


class MapOperator(Operator):
    """Selection and projection."""

    def __init__(self, node: Map, below: Operator) -> None:
        super().__init__()
        names = names_of(node.input.fields)
        self._filter = Filter(node.predicate, names, below)
        self._items = compile_items(node.items, names)

    def row(self, port: int, row: Row) -> None:
        """Emits the items of a row whose predicate is true."""
        if self._filter.passes(row.values):
            self.emit(Row(evaluate(self._items, row.values), row.last))


class Accumulator:
    """One aggregate of one group; all but count ignore NULL."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._function = aggregate.function
        self._count = 0
        self._value: Value = None

    def add(self, value: Value) -> None:
        """Absorbs the argument of a row; for count anything but None."""
        if value is None:
            return
        self._count += 1
        if self._value is None:
            self._value = value
        elif self._function in ("sum", "avg"):
            self._value += value  # type: ignore[operator]
        elif self._function == "min":
            self._value = min(self._value, value)
        elif self._function == "max":
            self._value = max(self._value, value)

    def result(self) -> Value:
        """The value of the aggregate; exact, so perhaps too large for 64 bits."""
        if self._function == "count":
            return self._count
        if self._function == "avg" and self._value is not None:
            return self._value / self._count  # type: ignore[operator]
        return self._value


class GroupOperator(Operator):
    """Aggregation: closes all groups that end at or before the promise (002, figure A-3 with its erratum)."""

    def __init__(self, node: Group, below: Operator) -> None:
        super().__init__()
        names = names_of(node.input.fields)
        results = [item.name for item in node.keys] + [aggregate.name for aggregate in node.aggregates]
        self._node = node
        self._filter = Filter(node.predicate, names, below)
        self._keys = [_without_sign(item.expr, names) for item in node.keys]
        self._arguments = [_argument(aggregate, names) for aggregate in node.aggregates]
        self._having = compile_predicate(node.having, results, Faults())
        self._items = compile_items(node.items, results)
        self._groups: dict[Values, list[Accumulator]] = {}
        self._ends: list[tuple[int, int, Values]] = []
        self._order = count()

    def row(self, port: int, row: Row) -> None:
        """Absorbs a row into its group."""
        if not self._filter.passes(row.values):
            return
        key = evaluate(self._keys, row.values)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = [Accumulator(aggregate) for aggregate in self._node.aggregates]
            last = group_last(self._node.key_fields, key)  # type: ignore[arg-type]
            heapq.heappush(self._ends, (last, next(self._order), key))
        for accumulator, argument in zip(group, self._arguments, strict=True):
            accumulator.add(argument(row.values))

    def release(self, port: int) -> None:
        """Emits the groups that no later row can change."""
        while self._ends and self._ends[0][0] + 1 <= self.promised[port]:
            last, _, key = heapq.heappop(self._ends)
            values = (*key, *self._results(self._groups.pop(key)))
            if self._having(values):
                self.emit(Row(evaluate(self._items, values), last))

    def due(self) -> Iterator[tuple[int, int]]:
        """The promise that closes the oldest group."""
        return iter([(0, self._ends[0][0] + 1)] if self._ends else [])

    def _results(self, group: Iterable[Accumulator]) -> Iterator[Value]:
        for aggregate, accumulator in zip(self._node.aggregates, group, strict=True):
            value = accumulator.result()
            if aggregate.type is Type.INT and isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
                raise self._overflow(aggregate)
            yield value

    def _overflow(self, aggregate: Aggregate) -> ValueOverflowError:
        own = Column(aggregate.type, aggregate.name)
        column = next((item.name for item in self._node.items if item.expr == own), aggregate.name)
        text = f"{aggregate.function}({show(aggregate.argument) if aggregate.argument else '*'})"
        message = f"query {self._node.query}, column {column}: {text} of a group does not fit 64 bits"
        return ValueOverflowError(message, "sum a smaller unit, or avg")


def names_of(fields: Sequence[Field]) -> list[str]:
    """Names of the columns of a stream."""
    return [f.name for f in fields]


def compile_items(items: Sequence[Item], names: Sequence[str]) -> list[Evaluate]:
    """Closures of named expressions over the columns `names`."""
    faults = Faults()
    return [compile_expr(item.expr, names, faults) for item in items]


def evaluate(closures: Iterable[Evaluate], values: Values) -> Values:
    """The values of several closures over one row."""
    return tuple([closure(values) for closure in closures])


def _argument(aggregate: Aggregate, names: Sequence[str]) -> Evaluate:
    return compile_expr(aggregate.argument, names, Faults()) if aggregate.argument else lambda row: True


def _without_sign(expr: Expr, names: Sequence[str]) -> Evaluate:
    """A group key; both zeros of a float are one key and one value."""
    closure = compile_expr(expr, names, Faults())
    if expr.type is not Type.FLOAT:
        return closure
    return lambda row: None if (value := closure(row)) is None else value + 0.0
