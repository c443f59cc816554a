"""The aggregates of one group where they are Python: those of the catalog by their four functions, and the common ones.

Below the stateful operators of the lowering. A state is one picklable value, so that those of many groups are one blob.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from operator import add, and_, or_, xor
from typing import Any

from lowwater.catalog.builtin.base import in_range
from lowwater.catalog.calls import Guarded
from lowwater.catalog.expr import Type
from lowwater.errors import ValueOverflowError
from lowwater.plan.nodes import Aggregate
from lowwater.reference.values import Faults, compile_expr

Step = Callable[..., Any]


def _nan_last(better: Callable[[Any, Any], bool], nan_wins: bool) -> Step:
    """The better of two values; NaN is above all numbers, as on Spark."""

    def chosen(a: Any, b: Any) -> Any:
        if a != a or b != b:
            return a if (a != a) == nan_wins else b
        return b if better(b, a) else a

    return chosen


_FOLDS: dict[str, Step] = {
    "sum": add,
    "avg": add,
    "min": _nan_last(lambda b, a: b < a, False),
    "max": _nan_last(lambda b, a: b > a, True),
    "and_aggr": and_,
    "or_aggr": or_,
    "xor_aggr": xor,
}


class Fold:
    """An aggregate that Spark has of its own. State: how many values, and their fold."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._fold = _FOLDS.get(function)

    def begin(self) -> Any:
        """No values."""
        return 0, None

    def step(self, state: Any, *values: Any) -> Any:
        """One value more; count does not look at it."""
        number, found = state
        if self._fold is None:
            return number + 1, None
        return number + 1, values[0] if number == 0 else self._fold(found, values[0])

    def result(self, state: Any) -> Any:
        """The value of the aggregate; a sum that is NaN has none (V2)."""
        number, found = state
        if self._function == "count":
            return number
        found = found / number if self._function == "avg" and number else found
        return None if found != found and self._function in ("sum", "avg") else found

    def after(self, state: Any) -> Any:
        """What stays at the end of an epoch: nothing (O4)."""
        return self.begin()


class Declared:
    """An aggregate by its four functions. State: theirs."""

    def __init__(self, aggregate: Aggregate) -> None:
        udaf = aggregate.udaf
        assert udaf is not None
        functions = Guarded(udaf)
        self.begin: Step = functions.initialize
        self.step: Step = functions.iterate
        self._output = functions.output
        self._constants = [compile_expr(expr, (), Faults())(()) for expr in aggregate.more[max(udaf.taken, 1) - 1 :]]
        kept: Step = (lambda state: state) if udaf.running else (lambda state: self.begin())
        self.after: Step = functions.reinit or kept

    def result(self, state: Any) -> Any:
        """What OUTPUT gives."""
        return self._output(state, *self._constants)


class Accumulators:
    """The aggregates of an operator, over rows that bring the arguments of all of them one after another.

    Args:
        query: for messages.
        aggregates: of the node.
    """

    def __init__(self, query: str, aggregates: Sequence[Aggregate]) -> None:
        self.query, self.aggregates = query, tuple(aggregates)

    def __reduce__(self) -> tuple[Any, ...]:
        return Accumulators, (self.query, self.aggregates)

    @cached_property
    def _made(self) -> list[tuple[Fold | Declared, int, int]]:
        found, at = [], 0
        for aggregate in self.aggregates:
            size = len(arguments(aggregate))
            own = aggregate.udaf is not None and aggregate.udaf.make is not None
            found.append((Declared(aggregate) if own else Fold(aggregate.function), at, at + size))
            at += size
        return found

    def begin(self) -> list[Any]:
        """The states of a new group."""
        return [one.begin() for one, _, _ in self._made]

    def add(self, states: list[Any], values: Sequence[Any]) -> None:
        """One row more; an aggregate with NULL among its arguments does not see it."""
        for at, (one, first, end) in enumerate(self._made):
            given = values[first:end]
            if None not in given:
                states[at] = one.step(states[at], *given)

    def results(self, states: Sequence[Any]) -> tuple[Any, ...]:
        """The values of a group.

        Raises:
            ValueOverflowError: an integer does not fit 64 bits (O3).
        """
        made = zip(self.aggregates, self._made, states, strict=True)
        return tuple([self._result(aggregate, one, state) for aggregate, (one, _, _), state in made])

    def _result(self, aggregate: Aggregate, one: Fold | Declared, state: Any) -> Any:
        with suppress(ValueOverflowError):  # of an aggregate that finds it by itself and knows no query
            value = one.result(state)
            if aggregate.type is not Type.INT or value is None or in_range(value) is not None:
                return value
        at = ", at {}:{}".format(*aggregate.place) if aggregate.place[0] else ""
        raise ValueOverflowError(
            f"query {self.query}{at}: the {aggregate.function} {aggregate.name} does not fit 64 bits",
            "sum over shorter epochs or finer groups, or scale the argument down",
        )

    def after(self, states: Sequence[Any]) -> list[Any]:
        """The states at the beginning of the next epoch (O4)."""
        return [one.after(state) for (one, _, _), state in zip(self._made, states, strict=True)]


def arguments(aggregate: Aggregate) -> list[Any]:
    """The expressions that ITERATE takes of a row; the others are constants for OUTPUT."""
    written = [expr for expr in (aggregate.argument, *aggregate.more) if expr is not None]
    return written[: aggregate.udaf.taken] if aggregate.udaf is not None else written
