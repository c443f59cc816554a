"""Implements the accumulators of a group, for native aggregates and for aggregates with four Python functions.

Below the grouping operators. An order-dependent aggregate stores its arguments and reads them in canonical order when
the engine asks for the result (SEMANTICS O1). It stores nothing if its rows arrive in that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

from lowwater.catalog import calls, expr as ex
from lowwater.catalog.functions import Native
from lowwater.errors import ValueOverflowError
from lowwater.plan.operators import Aggregate, Aggregation, Item
from lowwater.stream.values import (
    INT64_MAX,
    INT64_MIN,
    Evaluate,
    Faults,
    OnState,
    Value,
    Values,
    compile_expr,
)


class Accumulator(Protocol):
    """The accumulator of one aggregate of one group."""

    state: Any

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        """Adds a row.

        Args:
            arguments: the arguments of the aggregate in the row; none is None.
            order: the place of the row in the canonical order.
        """

    def result(self) -> Value:
        """Returns the value of the rows so far; an integer may exceed 64 bits."""

    def next_epoch(self) -> None:
        """Starts the next epoch of a running aggregation (SEMANTICS O4)."""


class Folded:
    """The accumulator of a native aggregate. State: the number of values and their fold."""

    def __init__(self, native: Native) -> None:
        self._fold = native.fold.of if native.fold is not None else None
        self._result = native.result
        self.state: tuple[int, Any] = (0, None)

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        """Adds the argument of a row; count ignores its argument."""
        number, value = self.state
        if self._fold is not None:
            value = arguments[0] if number == 0 else self._fold(value, arguments[0])
        self.state = number + 1, value

    def result(self) -> Value:
        """Returns the value of the aggregate."""
        value: Value = self._result(*self.state)
        return value

    def next_epoch(self) -> None:
        """Resets the state."""
        self.state = (0, None)


class UserDefined:
    """The accumulator of an aggregate with four functions, which all groups share. State: that of the functions."""

    def __init__(self, functions: calls.CheckedAggregate, running: bool, constants: Values) -> None:
        self._functions = functions
        self._running = running
        self._constants = constants
        self.state: Any = self._functions.initialize()

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        self.state = self._functions.iterate(self.state, *arguments)

    def result(self) -> Value:
        """Returns the value of OUTPUT."""
        value: Value = self._functions.output(self.state, *self._constants)
        return value

    def next_epoch(self) -> None:
        """Starts the next epoch with `reinit`. Without `reinit`, only a running aggregate keeps its state."""
        if self._functions.reinit is not None:
            self.state = self._functions.reinit(self.state)
        elif not self._running:
            self.state = self._functions.initialize()


class Ordered:
    """The accumulator of an order-dependent aggregate over unordered rows. State: (place, arguments) pairs.

    Args:
        make: creates the accumulator that reads the rows in order.
    """

    def __init__(self, make: Callable[[], Accumulator]) -> None:
        self._make = make
        self.state: list[tuple[Any, ...]] = []

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        self.state.append((order, arguments))

    def result(self) -> Value:
        """Returns the value over the rows in canonical order."""
        inner = self._make()
        for order, arguments in sorted(self.state, key=lambda pair: pair[0]):
            inner.add(arguments, order)
        return inner.result()

    def next_epoch(self) -> None:
        """Drops the stored arguments."""
        self.state = []


class Aggregates:
    """The aggregates of an operator: creates the accumulators of groups, adds rows and returns the values.

    Args:
        in_order: whether rows arrive in canonical order.
        on_state: evaluates stateful functions in arguments; None without such functions.
    """

    def __init__(
        self,
        query: str,
        aggregates: Sequence[Aggregate],
        names: Sequence[str],
        items: Sequence[Item],
        in_order: bool = False,
        on_state: OnState | None = None,
    ) -> None:
        self._query, self._aggregates, self._items, self._in_order = query, aggregates, items, in_order
        self._taken: list[list[Evaluate]] = []
        self._constants: list[Values] = []
        for aggregate in aggregates:
            exprs = [expr for expr in (aggregate.argument, *aggregate.more) if expr is not None]
            closures = [compile_expr(expr, names, Faults(), on_state) for expr in exprs]
            taken = len(aggregate.taken)
            self._taken.append(closures[:taken])
            self._constants.append(tuple([closure(()) for closure in closures[taken:]]))

    def fresh(self) -> list[Accumulator]:
        return [make() for make in self._makers]

    def arguments(self, values: Values) -> tuple[Values, ...]:
        """Returns the arguments of a row, one tuple per aggregate."""
        return tuple([tuple([closure(values) for closure in closures]) for closures in self._taken])

    def add(self, group: Iterable[Accumulator], arguments: Sequence[Values], order: tuple[Any, ...]) -> None:
        """Adds a row to a group. An aggregate ignores a row with NULL among its arguments."""
        for accumulator, values in zip(group, arguments, strict=True):
            if None not in values:
                accumulator.add(values, order)

    def results(self, group: Iterable[Accumulator]) -> Iterator[Value]:
        """Yields the values of a group. Raises ValueOverflowError if an integer exceeds 64 bits (SEMANTICS O3)."""
        for aggregate, accumulator in zip(self._aggregates, group, strict=True):
            try:
                value = accumulator.result()
            except ValueOverflowError:  # the aggregate detects the overflow, but does not know its query
                raise overflow(self._query, aggregate, self._items) from None
            if aggregate.type is ex.Type.INT and isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
                raise overflow(self._query, aggregate, self._items)
            yield float(value) if aggregate.type is ex.Type.FLOAT and isinstance(value, int) else value

    @cached_property
    def _makers(self) -> list[Callable[[], Accumulator]]:
        return [self._maker(a, constants) for a, constants in zip(self._aggregates, self._constants, strict=True)]

    def _maker(self, aggregate: Aggregate, constants: Values) -> Callable[[], Accumulator]:
        native, udaf = aggregate.native, aggregate.udaf
        if native is not None:
            return partial(Folded, native)
        assert udaf is not None, aggregate.function
        functions = calls.CheckedAggregate(udaf)
        fresh = partial(UserDefined, functions, udaf.running, constants)
        # An aggregate without a merge reads the rows in canonical order, even if its `ordered` is False.
        return fresh if self._in_order or (functions.merges and not udaf.ordered) else partial(Ordered, fresh)


def overflow(query: str, aggregate: Aggregate, items: Sequence[Item]) -> ValueOverflowError:
    """Returns the error for an aggregate whose value exceeds 64 bits (SEMANTICS O3). `items`: the select items of the
    query; an item that is the aggregate names the column in the message."""
    value = ex.Column(aggregate.type, aggregate.name)
    column = next((item.name for item in items if item.expr == value), aggregate.name)
    at = "at {}:{}, ".format(*aggregate.place) if aggregate.place[0] else ""
    message = f"query {query}, {at}column {column}: the {aggregate.function} of a group does not fit 64 bits"
    return ValueOverflowError(message, "sum over shorter epochs or finer groups, scale the argument down, or write avg")


def kept_values(group: Iterable[Accumulator]) -> Iterator[Value]:
    """Yields the plain values in the states of the accumulators of a group."""
    stack: list[Any] = [accumulator.state for accumulator in group]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            stack += value
        else:
            yield bytes(value) if isinstance(value, bytearray) else value


def results_of(node: Aggregation) -> list[str]:
    """Returns the names of the columns that HAVING and the select items read: keys, then aggregates."""
    return [item.name for item in node.keys] + [aggregate.name for aggregate in node.aggregates]


def compile_keys(keys: Sequence[Item], names: Sequence[str]) -> list[Evaluate]:
    """Compiles group keys into closures."""
    return [compile_key(item.expr, names) for item in keys]


def compile_key(expr: ex.Expr, names: Sequence[str]) -> Evaluate:
    """Compiles a key of groups or of a join. Both zeros of a float give one key, and so do all NaN."""
    closure = compile_expr(expr, names, Faults())
    if expr.type is not ex.Type.FLOAT:
        return closure

    def canonical(row: Values) -> float | None:
        value: float | None = closure(row)
        return None if value is None else math.nan if value != value else value + 0.0

    return canonical
