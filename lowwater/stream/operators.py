"""The messages between operators, and the base class of operators (002, sections 5 and A.2).

An operator takes two kinds of message. It stores a row or passes it on; a promise (punctuation) releases stored rows.
A promise of the clock is an instant: no later row has a smaller `_last`. An attribute that is no function of the clock
is promised in its own values, as records come (SEMANTICS T8, I4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lowwater.catalog.expr import Column, Expr
from lowwater.catalog.time import Reported
from lowwater.plan.operators import Field, Item
from lowwater.plan.temporal import END_OF_TIME
from lowwater.stream.values import Evaluate, Faults, Values, compile_expr

LEAST, MOST = -(1 << 63), 1 << 63
"""Below and above every value that an attribute can promise."""


class Row(NamedTuple):
    """A row of a stream."""

    values: Values
    last: int  # last instant that could still have changed the row, ns (SEMANTICS I1)
    order: tuple[Any, ...] = ()  # canonical order (SEMANTICS O1); empty where it has none


class Promise(NamedTuple):
    """A punctuation: no later row is below it (SEMANTICS P1)."""

    instant: int  # promised value: ns, or a value of the attribute that `origin` names
    origin: str = ""  # attribute that is no function of the clock; empty for the clock
    of: Values = ()  # values of the `groupwise` columns that limit the promise to some rows; empty for all rows
    at: int = 0  # arrival of the record that makes a promise with an origin, ns


Message = Row | Promise


@dataclass
class Life:
    """The end of the links, as far as operators know it."""

    over: int = END_OF_TIME  # first instant after all links have ended, ns; idle time ends there too
    # largest time from a timestamp to its arrival, ns, in a plan evaluated by arrival; 0 in a plan evaluated by
    # timestamp
    late: int = 0
    reported: Mapping[str, Reported] = field(default_factory=dict)  # link -> its life and gaps, as far as it is read


class StreamOperator:
    """Base class of operators: passes rows on unchanged, and promises the minimum of its inputs (SEMANTICS P3).

    A subclass defines `row` and `release`.

    Attributes:
        promised: promise of the clock for each input, ns.
        before_release: called before stored rows are removed; an experiment measures the state there.
        groupwise: output columns whose values have their own promises; empty for none.
    """

    groupwise: tuple[Expr, ...] = ()

    def __init__(self, ports: int = 1) -> None:
        self._progress: dict[tuple[str, Values], list[int]] = {("", ()): [0] * ports}
        self._emitted: dict[tuple[str, Values], int] = {}
        self.ports = ports
        self.before_release: Callable[[], None] = _nothing
        self._consumers: list[tuple[StreamOperator, int]] = []

    @property
    def promised(self) -> list[int]:
        return self._progress["", ()]

    def progress(self, port: int, origin: str) -> int:
        """The promise of an input for an attribute."""
        return self._progress.get((origin, ()), [LEAST] * self.ports)[port]

    def connect(self, consumer: StreamOperator, port: int) -> None:
        """Connects the output to a port of another operator."""
        self._consumers.append((consumer, port))

    def detach(self) -> list[tuple[StreamOperator, int]]:
        """Takes all consumers off, and gives them with their ports: the buffers of a query graph stand between."""
        taken, self._consumers = self._consumers, []
        return taken

    def receive(self, port: int, message: Message) -> None:
        """Takes a message from an input."""
        if isinstance(message, Row):
            self.row(port, message)
        else:
            self.promise(port, message)

    def emit(self, message: Message) -> None:
        """Sends a message to all consumers."""
        for consumer, port in self._consumers:
            consumer.receive(port, message)

    def row(self, port: int, row: Row) -> None:
        """Takes a row of an input."""
        self.emit(row)

    def promise(self, port: int, promise: Promise) -> None:
        """Takes a promise from an input: releases rows, then passes on the new minimum of all inputs."""
        if promise.of and not self.groupwise_below():
            return
        domain = promise.origin, promise.of
        promised = self._progress.setdefault(domain, [LEAST] * self.ports)
        if promise.instant <= promised[port]:
            return
        promised[port] = promise.instant
        self.before_release()
        self.release(port, promise)
        least = min(promised)
        if least > self._emitted.get(domain, 0 if not promise.origin else LEAST):
            self._emitted[domain] = least
            if not promise.of or self.groupwise:
                self.emit(promise._replace(instant=least))

    def groupwise_below(self) -> bool:
        """Whether this operator uses promises that are limited to some rows."""
        return bool(self.groupwise)

    def release(self, port: int, promise: Promise) -> None:
        """Emits and removes stored rows that a promise of an input makes final."""

    def due(self) -> Iterator[tuple[int, int]]:
        """Yields (input, least promise in ns) that would release a stored row."""
        return iter(())

    def state_rows(self) -> Iterator[Values]:
        """Yields the stored rows and groups; experiments count them."""
        return iter(())

    def state(self) -> Any:
        """The whole state as plain values that `catalog.state_json` can write."""
        return [dict(self._progress), dict(self._emitted), self.saved_state()]

    def restore(self, state: Any) -> None:
        """Restores the state of the same operator from an earlier interval."""
        self._progress, self._emitted, saved_state = state
        self.load_state(saved_state)

    def saved_state(self) -> Any:
        """The stored rows and groups as plain values; None for none."""
        return None

    def load_state(self, state: Any) -> None:
        """Restores the result of `saved_state`."""


def _nothing() -> None:
    pass


def names_of(fields: Sequence[Field]) -> list[str]:
    """The names of the columns of a stream."""
    return [f.name for f in fields]


def compile_items(items: Sequence[Item], names: Sequence[str]) -> list[Evaluate]:
    """Compiles named expressions over the columns `names`."""
    faults = Faults()
    return [compile_expr(item.expr, names, faults) for item in items]


def evaluate(closures: Iterable[Evaluate], values: Values) -> Values:
    """The values of several closures over one row."""
    return tuple([closure(values) for closure in closures])


def carried(exprs: Sequence[Expr], items: Sequence[Item]) -> tuple[Expr, ...]:
    """The output columns that carry these input expressions; empty unless all are among the items."""
    matches = [next((i for i in items if i.expr == expr), None) for expr in exprs]
    matching = [item for item in matches if item is not None]
    return tuple(Column(i.expr.type, i.name) for i in matching) if len(matching) == len(matches) else ()


def order_key(value: Any) -> tuple[Any, ...]:
    """The sort key of a value: NULL first, NaN last."""
    return (0,) if value is None else (2,) if value != value else (1, value)


def by_columns(fields: Sequence[Field]) -> Callable[[Values], tuple[Any, ...]]:
    """Builds the sort key of rows that are no packets: the temporal value, then all columns (SEMANTICS O1)."""
    temporal = [at for at, f in enumerate(fields) if f.temporal][:1]
    places = [*temporal, *range(len(fields))]
    return lambda values: tuple([order_key(values[at]) for at in places])
