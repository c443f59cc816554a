"""Quantiles, exact over all values of a group.

A family of the shipped catalog. `quantile_of(x, phi)` is the smallest value v of the group such that at least the share
phi of its values are at most v: the order statistic of rank ceil(phi * n), and for phi = 0 the smallest value. The
median is that of phi = 0.5, for an even number the lower of the two in the middle. It is always a value of the group,
never one between two. The states merge exactly for every partition (O2); they hold every distinct value.
"""

from __future__ import annotations

import math
from fractions import Fraction

from lowwater.catalog.builtin.base import Stateless
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction


class Quantile(Stateless):
    """`quantile_of(x, phi)`. State: how often each value came, None standing for NaN, which is above all others."""

    def initialize(self) -> dict[float | None, int]:
        """No values."""
        return {}

    def iterate(self, state: dict[float | None, int], value: float) -> dict[float | None, int]:
        """One value more."""
        key = None if value != value else value
        state[key] = state.get(key, 0) + 1
        return state

    def merge(self, state: dict[float | None, int], other: dict[float | None, int]) -> dict[float | None, int]:
        """The values of both."""
        for key, count in other.items():
            state[key] = state.get(key, 0) + count
        return state

    def output(self, state: dict[float | None, int], phi: float) -> float | None:
        """The value of the rank; None for no values, or where phi is no share."""
        if not state or not 0 <= phi <= 1:
            return None
        # The share as it is written, so that 0.07 of 100 values is the seventh and not, by rounding, the eighth.
        rank = max(math.ceil(Fraction(repr(phi)) * sum(state.values())), 1)
        for value in sorted(key for key in state if key is not None):
            rank -= state[value]
            if rank <= 0:
                return value
        return math.nan


class Median(Quantile):
    """`median_of(x)`: `quantile_of(x, 0.5)`."""

    def output(self, state: dict[float | None, int], phi: float = 0.5) -> float | None:
        """The lower of the values in the middle; None for no values."""
        return super().output(state, phi)


_NUMERIC = (Type.INT, Type.FLOAT)

AGGREGATES: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("quantile_of", (kind, Type.FLOAT), kind, Quantile) for kind in _NUMERIC),
    *(AggregateFunction("median_of", (kind,), kind, Median) for kind in _NUMERIC),
)
