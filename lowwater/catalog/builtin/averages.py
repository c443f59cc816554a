"""Implements the averages extr_avg and POSAVG.

A family of the built-in catalog. Their states merge for every partition of the input (O2), POSAVG up to rounding.
"""

from __future__ import annotations

from lowwater.catalog.builtin.base import Stateless, finite, summable
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction

NO_AVERAGE = -1.0


class IntegerAverage(Stateless):
    """`extr_avg(x)`: the average of integers. State: exact sum and number of values."""

    def initialize(self) -> tuple[int, int]:
        """Returns an empty state."""
        return 0, 0

    def iterate(self, state: tuple[int, int], value: int) -> tuple[int, int]:
        """Adds a value to the state."""
        return state[0] + value, state[1] + 1

    def merge(self, state: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        """Adds the sums and the numbers of two states."""
        return state[0] + other[0], state[1] + other[1]

    def output(self, state: tuple[int, int]) -> float | None:
        """Divides the sum by the number, with one rounding; None without values."""
        return state[0] / state[1] if state[1] else None


class PositiveAverage(Stateless):
    """`POSAVG(x)`: the average of values that are not negative; -1 without such values. State: sum and number."""

    def initialize(self) -> tuple[float, int]:
        """Returns an empty state."""
        return 0.0, 0

    def iterate(self, state: tuple[float, int], value: float) -> tuple[float, int]:
        """Adds a value to the state, unless it is negative or NaN."""
        return (state[0] + summable(value), state[1] + 1) if value >= 0 else state

    def merge(self, state: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        """Adds the sums and the numbers of two states."""
        return state[0] + other[0], state[1] + other[1]

    def output(self, state: tuple[float, int]) -> float | None:
        """Divides the sum by the number."""
        return finite(state[0] / state[1]) if state[1] else NO_AVERAGE


AGGREGATES: tuple[AggregateFunction, ...] = (
    AggregateFunction("extr_avg", (Type.INT,), Type.FLOAT, IntegerAverage),
    AggregateFunction("POSAVG", (Type.FLOAT,), Type.FLOAT, PositiveAverage),
)
