"""The messages between operators, and their base (002, sections 5 and A.2).

Below every family of operators. Each takes two kinds of message: a row, which it keeps or hands on, and a promise,
which releases what it keeps. Promises of the clock are instants: no later row has a smaller `_last`. An attribute that
is no function of the clock is promised in its own values, as records come (SEMANTICS T8, I4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowwater.catalog.expr import Column, Expr
from lowwater.plan.operators import Field, Item
from lowwater.plan.temporal import END_OF_TIME
from lowwater.stream.values import Evaluate, Faults, Values, compile_expr

LEAST, MOST = -(1 << 63), 1 << 63
"""Below and above every value that an attribute can promise."""


class Row(NamedTuple):
    """A row of a stream.

    Attributes:
        values: the values of the columns, in order.
        last: the last instant (ns) that could still have changed it (SEMANTICS I1).
        order: its place in canonical order (SEMANTICS O1), empty where it has none.
    """

    values: Values
    last: int
    order: tuple[Any, ...] = ()


class Promise(NamedTuple):
    """A punctuation: no later row is below it (SEMANTICS P1).

    Attributes:
        instant: in ns; in values of the attribute where `origin` names one.
        origin: attribute that is no function of the clock; empty for the clock.
        of: values of the `groupwise` columns whose rows alone it is about; empty for all rows.
        at: arrival (ns) of the record that makes it; of promises with an origin.
    """

    instant: int
    origin: str = ""
    of: Values = ()
    at: int = 0


Message = Row | Promise


@dataclass
class Life:
    """What operators know of their links besides records.

    Attributes:
        over: first instant (ns) after all links have ended: nothing comes then, and idle time is over too.
        late: how far (ns) behind the arrival of a record its timestamp may be, where the plan is evaluated by arrival;
            0 where it is evaluated by timestamp.
    """

    over: int = END_OF_TIME
    late: int = 0


class Operator:
    """Base of operators: hands rows on as they are, and promises the minimum of its inputs (SEMANTICS P3).

    Subclasses say what they do with a row, and what a promise of one input releases.

    Attributes:
        promised: the clock's promise of each input, ns.
        look: called before something is forgotten; of an experiment, which measures the state then.
        groupwise: over the output, the columns whose values have promises of their own; empty for none.
    """

    groupwise: tuple[Expr, ...] = ()

    def __init__(self, ports: int = 1) -> None:
        self._progress: dict[tuple[str, Values], list[int]] = {("", ()): [0] * ports}
        self._emitted: dict[tuple[str, Values], int] = {}
        self._ports = ports
        self.look: Callable[[], None] = _nothing
        self._consumers: list[tuple[Operator, int]] = []

    @property
    def promised(self) -> list[int]:
        return self._progress["", ()]

    def progress(self, port: int, origin: str) -> int:
        """What an input has promised of an attribute."""
        return self._progress.get((origin, ()), [LEAST] * self._ports)[port]

    def connect(self, consumer: Operator, port: int) -> None:
        """Hands this operator's output to a port of another."""
        self._consumers.append((consumer, port))

    def detach(self) -> list[tuple[Operator, int]]:
        """Takes all consumers off, and gives them with their ports: the buffers of a query graph stand between."""
        taken, self._consumers = self._consumers, []
        return taken

    def receive(self, port: int, message: Message) -> None:
        """Takes a message of an input."""
        if isinstance(message, Row):
            self.row(port, message)
        else:
            self.promise(port, message)

    def emit(self, message: Message) -> None:
        """Hands a message to all consumers."""
        for consumer, port in self._consumers:
            consumer.receive(port, message)

    def row(self, port: int, row: Row) -> None:
        """Takes a row of an input."""
        self.emit(row)

    def promise(self, port: int, promise: Promise) -> None:
        """Takes a promise of an input: releases what it allows, then promises what is new for the output."""
        if promise.of and not self.groupwise_below():
            return
        domain = promise.origin, promise.of
        known = self._progress.setdefault(domain, [LEAST] * self._ports)
        if promise.instant <= known[port]:
            return
        known[port] = promise.instant
        self.look()
        self.release(port, promise)
        least = min(known)
        if least > self._emitted.get(domain, 0 if not promise.origin else LEAST):
            self._emitted[domain] = least
            if not promise.of or self.groupwise:
                self.emit(promise._replace(instant=least))

    def groupwise_below(self) -> bool:
        """Whether promises about some rows only mean anything to this operator."""
        return bool(self.groupwise)

    def release(self, port: int, promise: Promise) -> None:
        """Emits and forgets what the promise of an input allows."""

    def due(self) -> Iterator[tuple[int, int]]:
        """For each input, the least promise (ns) that would release something."""
        return iter(())

    def kept(self) -> Iterator[Values]:
        """The rows and groups in the state, for experiments."""
        return iter(())

    def state(self) -> Any:
        """What the operator keeps, as plain values that `catalog.states` can write."""
        return [dict(self._progress), dict(self._emitted), self.held()]

    def restore(self, state: Any) -> None:
        """Takes up what another operator of the same plan kept."""
        self._progress, self._emitted, held = state
        self.hold(held)

    def held(self) -> Any:
        """The rows, groups and states of the operator as plain values; None for none."""
        return None

    def hold(self, held: Any) -> None:
        """Takes up what `held` gave."""


def _nothing() -> None:
    pass


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


def carried(exprs: Sequence[Expr], items: Sequence[Item]) -> tuple[Expr, ...]:
    """The output columns that are these expressions of the input; empty unless all are among the items."""
    found = [next((i for i in items if i.expr == expr), None) for expr in exprs]
    known = [item for item in found if item is not None]
    return tuple(Column(i.expr.type, i.name) for i in known) if len(known) == len(found) else ()


def order_key(value: Any) -> tuple[Any, ...]:
    """Sorts NULL before everything, and NaN behind."""
    return (0,) if value is None else (2,) if value != value else (1, value)


def by_columns(fields: Sequence[Field]) -> Callable[[Values], tuple[Any, ...]]:
    """The order of rows that are no packets: the temporal value, then all columns (SEMANTICS O1)."""
    temporal = [at for at, f in enumerate(fields) if f.temporal][:1]
    places = [*temporal, *range(len(fields))]
    return lambda values: tuple([order_key(values[at]) for at in places])
