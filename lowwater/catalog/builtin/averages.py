"""Averages that GSQL ships beside avg.

A family of the shipped catalog. Both merge for every partition of their input (O2), POSAVG up to rounding.
"""

from __future__ import annotations

from lowwater.catalog.builtin.base import Stateless, finite, summable
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction

NO_AVERAGE = -1.0


class IntegerAverage(Stateless):
    """`extr_avg(x)`: the average of integers. State: their exact sum and number."""

    def initialize(self) -> tuple[int, int]:
        """No values."""
        return 0, 0

    def iterate(self, state: tuple[int, int], value: int) -> tuple[int, int]:
        """One value more."""
        return state[0] + value, state[1] + 1

    def merge(self, state: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        """The values of both."""
        return state[0] + other[0], state[1] + other[1]

    def output(self, state: tuple[int, int]) -> float | None:
        """Sum by number, rounded once; None for no values."""
        return state[0] / state[1] if state[1] else None


class PositiveAverage(Stateless):
    """`POSAVG(x)`: the average of the values that are not negative, -1 where there is none. State: sum and number."""

    def initialize(self) -> tuple[float, int]:
        """No values."""
        return 0.0, 0

    def iterate(self, state: tuple[float, int], value: float) -> tuple[float, int]:
        """One value more, where it counts; NaN does not."""
        return (state[0] + summable(value), state[1] + 1) if value >= 0 else state

    def merge(self, state: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        """The values of both."""
        return state[0] + other[0], state[1] + other[1]

    def output(self, state: tuple[float, int]) -> float | None:
        """Sum by number."""
        return finite(state[0] / state[1]) if state[1] else NO_AVERAGE


AGGREGATES: tuple[AggregateFunction, ...] = (
    AggregateFunction("extr_avg", (Type.INT,), Type.FLOAT, IntegerAverage),
    AggregateFunction("POSAVG", (Type.FLOAT,), Type.FLOAT, PositiveAverage),
)
