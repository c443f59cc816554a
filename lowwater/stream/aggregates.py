"""The aggregates of one group: those that every engine has of its own, and those with four functions of Python.

Below the operators that group. An aggregate whose value depends on the order of its input keeps the arguments and sees
them in canonical order when it is asked (SEMANTICS O1), unless its rows come in that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from lowwater.catalog.calls import CheckedAggregate
from lowwater.catalog.expr import Column, Expr, Type
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
    """One aggregate of one group.

    Attributes:
        state: all that it keeps, as plain values.
    """

    state: Any

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        """Absorbs the arguments of a row, none of them None."""

    def result(self) -> Value:
        """The value so far; an integer may be too large for 64 bits."""

    def next_epoch(self) -> None:
        """Begins the next epoch of a running aggregation (SEMANTICS O4)."""


class Folded:
    """An aggregate that every engine has of its own. State: how many values, and their fold."""

    def __init__(self, native: Native) -> None:
        self._fold = native.fold.of if native.fold is not None else None
        self._result = native.result
        self.state: tuple[int, Any] = (0, None)

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        """Absorbs the argument of a row; count has none, or one that it does not look at."""
        number, value = self.state
        if self._fold is not None:
            value = arguments[0] if number == 0 else self._fold(value, arguments[0])
        self.state = number + 1, value

    def result(self) -> Value:
        """The value of the aggregate."""
        value: Value = self._result(*self.state)
        return value

    def next_epoch(self) -> None:
        """Empties it."""
        self.state = (0, None)


class UserDefined:
    """An aggregate by its four functions, which the groups share. State: theirs."""

    def __init__(self, functions: CheckedAggregate, running: bool, constants: Values) -> None:
        self._functions = functions
        self._running = running
        self._constants = constants
        self.state: Any = self._functions.initialize()

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        """One row more."""
        self.state = self._functions.iterate(self.state, *arguments)

    def result(self) -> Value:
        """What OUTPUT gives."""
        value: Value = self._functions.output(self.state, *self._constants)
        return value

    def next_epoch(self) -> None:
        """What the aggregate keeps: all of it where it is running and does not say."""
        if self._functions.reinit is not None:
            self.state = self._functions.reinit(self.state)
        elif not self._running:
            self.state = self._functions.initialize()


class Ordered:
    """An aggregate whose rows come in any order. State: the arguments with their places."""

    def __init__(self, make: Callable[[], Accumulator]) -> None:
        self._make = make
        self.state: list[tuple[Any, ...]] = []

    def add(self, arguments: Values, order: tuple[Any, ...]) -> None:
        """Keeps the arguments."""
        self.state.append((order, arguments))

    def result(self) -> Value:
        """The aggregate of the rows in canonical order."""
        inner = self._make()
        for order, arguments in sorted(self.state, key=lambda pair: pair[0]):
            inner.add(arguments, order)
        return inner.result()

    def next_epoch(self) -> None:
        """Empties it."""
        self.state = []


class Aggregates:
    """The aggregates of an operator: makes those of a group, adds rows to them, gives their values.

    Args:
        query: for messages.
        aggregates: the aggregates of the node.
        names: columns of the input.
        items: the items of the node, for messages.
        in_order: whether rows come in canonical order.
        on_state: the stateful functions in arguments, if any.
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
        self._functions: dict[str, CheckedAggregate] = {}
        self._taken: list[list[Evaluate]] = []
        self._constants: list[Values] = []
        for aggregate in aggregates:
            written = [e for e in (aggregate.argument, *aggregate.more) if e is not None]
            closures = [compile_expr(e, names, Faults(), on_state) for e in written]
            taken = len(aggregate.taken)
            self._taken.append(closures[:taken])
            self._constants.append(tuple([closure(()) for closure in closures[taken:]]))

    def fresh(self) -> list[Accumulator]:
        """The accumulators of a new group."""
        return [self._make(a, constants) for a, constants in zip(self._aggregates, self._constants, strict=True)]

    def arguments(self, values: Values) -> tuple[Values, ...]:
        """The arguments that a row gives to each aggregate."""
        return tuple([tuple([closure(values) for closure in closures]) for closures in self._taken])

    def add(self, group: Iterable[Accumulator], arguments: Sequence[Values], order: tuple[Any, ...]) -> None:
        """Adds a row to a group; an aggregate with NULL among its arguments does not see it."""
        for accumulator, given in zip(group, arguments, strict=True):
            if None not in given:
                accumulator.add(given, order)

    def results(self, group: Iterable[Accumulator]) -> Iterator[Value]:
        """The values of a group.

        Raises:
            ValueOverflowError: an integer does not fit 64 bits (SEMANTICS O3).
        """
        for aggregate, accumulator in zip(self._aggregates, group, strict=True):
            try:
                value = accumulator.result()
            except ValueOverflowError:  # of an aggregate that finds it by itself and knows no query
                raise overflow(self._query, aggregate, self._items) from None
            if aggregate.type is Type.INT and isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
                raise overflow(self._query, aggregate, self._items)
            yield value

    def _make(self, aggregate: Aggregate, constants: Values) -> Accumulator:
        native, udaf = aggregate.native, aggregate.udaf
        if native is not None:
            return Folded(native)
        assert udaf is not None, aggregate.function
        if aggregate.name not in self._functions:
            self._functions[aggregate.name] = CheckedAggregate(udaf)
        functions = self._functions[aggregate.name]

        def fresh() -> UserDefined:
            return UserDefined(functions, udaf.running, constants)

        # Without a merge the rows are seen in canonical order, whatever the aggregate says of itself.
        return fresh() if self._in_order or (functions.merges and not udaf.ordered) else Ordered(fresh)


def overflow(query: str, aggregate: Aggregate, items: Sequence[Item]) -> ValueOverflowError:
    """The error of an aggregate of a group that does not fit 64 bits (SEMANTICS O3).

    Args:
        query: name of the query.
        aggregate: the aggregate.
        items: select items of the query, of which one may give the aggregate its name.
    """
    own = Column(aggregate.type, aggregate.name)
    column = next((item.name for item in items if item.expr == own), aggregate.name)
    at = "at {}:{}, ".format(*aggregate.place) if aggregate.place[0] else ""
    message = f"query {query}, {at}column {column}: the {aggregate.function} of a group does not fit 64 bits"
    return ValueOverflowError(message, "sum over shorter epochs or finer groups, scale the argument down, or write avg")


def kept_values(group: Iterable[Accumulator]) -> Iterator[Value]:
    """The values in the states of a group's aggregates, one after the other."""
    stack: list[Any] = [accumulator.state for accumulator in group]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            stack += [*one, *one.values()]
        elif isinstance(one, tuple | list | set | frozenset):
            stack += one
        else:
            yield bytes(one) if isinstance(one, bytearray) else one


def results_of(node: Aggregation) -> list[str]:
    """The columns that HAVING and the select items read: keys, then aggregates."""
    return [item.name for item in node.keys] + [aggregate.name for aggregate in node.aggregates]


def compile_keys(keys: Sequence[Item], names: Sequence[str]) -> list[Evaluate]:
    """Closures of group keys; both zeros of a float are one key and one value, and so are all NaN."""
    return [_key(item.expr, names) for item in keys]


def _key(expr: Expr, names: Sequence[str]) -> Evaluate:
    closure = compile_expr(expr, names, Faults())
    if expr.type is not Type.FLOAT:
        return closure

    def canonical(row: Values) -> float | None:
        value: float | None = closure(row)
        return None if value is None else math.nan if value != value else value + 0.0

    return canonical
