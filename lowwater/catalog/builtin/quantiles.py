"""Computes exact quantiles of the values of a group.

A family of the built-in catalog. `quantile_of(x, phi)` is the order statistic of rank ceil(phi * n): the smallest value
that is not below a fraction phi of the values. For phi = 0 it is the smallest value. The median is the quantile for
phi = 0.5: the lower middle value for an even number. A quantile is always a value of the group, never an interpolation.
The states merge exactly for every partition (O2); they hold every distinct value.
"""

from __future__ import annotations

import math
from fractions import Fraction

from lowwater.catalog.builtin.base import Stateless
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction
from lowwater.catalog.limits import FRACTION


class Quantile(Stateless):
    """`quantile_of(x, phi)`. State: value -> its number of occurrences. None stands for NaN, the greatest value."""

    def initialize(self) -> dict[float | None, int]:
        """Returns an empty state."""
        return {}

    def iterate(self, state: dict[float | None, int], value: float) -> dict[float | None, int]:
        """Adds a value to the state."""
        key = None if value != value else value
        state[key] = state.get(key, 0) + 1
        return state

    def merge(self, state: dict[float | None, int], other: dict[float | None, int]) -> dict[float | None, int]:
        """Adds the numbers of occurrences of two states."""
        for key, count in other.items():
            state[key] = state.get(key, 0) + count
        return state

    def output(self, state: dict[float | None, int], phi: float) -> float | None:
        """Returns the value of the rank; None without values, or if phi is not in [0, 1]."""
        if not state or not 0 <= phi <= 1:
            return None
        # The decimal text of phi, because the float 0.07 times 100 rounds up to rank 8 instead of 7.
        rank = max(math.ceil(Fraction(repr(phi)) * sum(state.values())), 1)
        for value in sorted(key for key in state if key is not None):
            rank -= state[value]
            if rank <= 0:
                return value
        return math.nan


class Median(Quantile):
    """`median_of(x)`: `quantile_of(x, 0.5)`."""

    def output(self, state: dict[float | None, int], phi: float = 0.5) -> float | None:
        """Returns the lower middle value; None without values."""
        return super().output(state, phi)


_NUMERIC = (Type.INT, Type.FLOAT)

AGGREGATES: tuple[AggregateFunction, ...] = (
    *(
        AggregateFunction("quantile_of", (kind, Type.FLOAT), kind, Quantile, limits=((1, FRACTION),))
        for kind in _NUMERIC
    ),
    *(AggregateFunction("median_of", (kind,), kind, Median) for kind in _NUMERIC),
)
