"""Finds heavy hitters: the values whose frequency in a group is at least phi.

A family of the built-in catalog. `heavy_hitters(x, phi)` is lossy counting (Manku and Motwani, 2002) with the error
e = phi / 10. It reads the values in canonical order (O1), so every run gives the same result. For n values, the result
holds the values with a count of at least (phi - e) * n: every value of frequency phi or more, and no value of a
frequency below phi - e. A count is too small by at most e * n. The state holds at most (1 / e) * log(e * n) values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from lowwater.catalog.builtin.base import EVERY, Stateless
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction
from lowwater.catalog.limits import SHARE
from lowwater.catalog.values import format_ip, format_mac

ERROR_SHARE = Fraction(1, 10)


@dataclass
class Counts:
    """The state of lossy counting.

    Attributes:
        total: the number of values so far.
        entries: value -> (its count, the largest number of its occurrences that the state may have missed).
        phi: the least frequency; None before the first value, or if it is not in (0, 1].
    """

    total: int = 0
    entries: dict[Any, tuple[int, int]] = field(default_factory=dict)
    phi: Fraction | None = None


class HeavyHitters(Stateless):
    """`heavy_hitters(x, phi)`: `value:count` pairs with commas between them, sorted by falling count, then by value.

    A backslash escapes commas and backslashes of strings. The count follows the last colon of a pair.
    """

    def __init__(self, show: Callable[[Any], str] = str) -> None:
        """Initializes the aggregate.

        Args:
            show: formats a value as text.
        """
        self.show = show

    def initialize(self) -> Counts:
        """Returns an empty state."""
        return Counts()

    def iterate(self, state: Counts, value: Any, phi: float) -> Counts:
        """Adds a value to the state. After every bucket of 1/e values, drops the values that became rare."""
        state.phi, width = _share(phi)
        if state.phi is None:
            return state
        bucket = state.total // width
        state.total += 1
        # NaN is unequal to itself. None stands for NaN, because no argument is NULL.
        key = None if value != value else value
        count, lost = state.entries.get(key, (0, bucket))
        state.entries[key] = (count + 1, lost)
        if state.total % width == 0:
            state.entries = {key: pair for key, pair in state.entries.items() if sum(pair) > bucket + 1}
        return state

    def reinit(self, state: Counts) -> Counts:
        """Returns an empty state for the next epoch."""
        return Counts()

    def output(self, state: Counts) -> str | None:
        """Returns the pairs; None without values, or if phi is not in (0, 1]."""
        if state.phi is None:
            return None
        least = state.phi * (1 - ERROR_SHARE) * state.total
        heavy = [(-count, key is None, key, count) for key, (count, _) in state.entries.items() if count >= least]
        return ",".join(f"{'nan' if absent else self.show(key)}:{count}" for _, absent, key, count in sorted(heavy))


@lru_cache(maxsize=64)
def _share(phi: float) -> tuple[Fraction | None, int]:
    """Returns phi as its decimal text states it, and 1/e. The first is None if phi is not in (0, 1]."""
    if not 0 < phi <= 1:
        return None, 1
    exact = Fraction(repr(phi))
    return exact, math.ceil(1 / (exact * ERROR_SHARE))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(",", "\\,")


def _flag(value: bool) -> str:
    return "TRUE" if value else "FALSE"


_SHOW: dict[Type, Callable[[Any], str]] = {
    Type.IP: format_ip,
    Type.MAC: format_mac,
    Type.STRING: _escaped,
    Type.BOOL: _flag,
}

AGGREGATES: tuple[AggregateFunction, ...] = tuple(
    AggregateFunction(
        "heavy_hitters",
        (kind, Type.FLOAT),
        Type.STRING,
        partial(HeavyHitters, _SHOW.get(kind, str)),
        taken=2,
        constant=(1,),
        ordered=True,
        limits=((1, SHARE),),
    )
    for kind in EVERY
)
