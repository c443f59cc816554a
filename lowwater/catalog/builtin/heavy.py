"""Heavy hitters: the values that make up a share of their group.

A family of the shipped catalog. `heavy_hitters(x, phi)` is Manku and Motwani's lossy counting (2002) with the error
e = phi / 10, over the canonical order (O1), so it is the same in every run. Of n values it gives those whose count is
at least (phi - e) * n: every value that makes up the share phi is among them, none that makes up less than phi - e, and
a count is too small by at most e * n. The state holds at most (1 / e) * log(e * n) values.
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
from lowwater.catalog.values import format_ip, format_mac

ERROR_SHARE = Fraction(1, 10)


@dataclass
class Counts:
    """State of the lossy count.

    Attributes:
        total: how many values came.
        known: value -> its count, and how many may have been lost before it was known.
        phi: the share; None before the first value or where it is none.
    """

    total: int = 0
    known: dict[Any, tuple[int, int]] = field(default_factory=dict)
    phi: Fraction | None = None


class HeavyHitters(Stateless):
    """`heavy_hitters(x, phi)`: `value:count` pairs divided by commas, the largest count first, then the least value.

    In strings a comma and a backslash have a backslash before them; the count follows the last colon of a pair.
    """

    def __init__(self, show: Callable[[Any], str] = str) -> None:
        """`show`: the text of a value."""
        self.show = show

    def initialize(self) -> Counts:
        """No values."""
        return Counts()

    def iterate(self, state: Counts, value: Any, phi: float) -> Counts:
        """One value more; those that became rare are forgotten at the end of a bucket of 1/e values."""
        state.phi, width = _share(phi)
        if state.phi is None:
            return state
        bucket = state.total // width
        state.total += 1
        # NaN is unequal to itself; NULL never comes here, so None can stand for it.
        key = None if value != value else value
        count, lost = state.known.get(key, (0, bucket))
        state.known[key] = (count + 1, lost)
        if state.total % width == 0:
            state.known = {key: pair for key, pair in state.known.items() if sum(pair) > bucket + 1}
        return state

    def reinit(self, state: Counts) -> Counts:
        """A new epoch counts from 0."""
        return Counts()

    def output(self, state: Counts) -> str | None:
        """The pairs; None for no values, or where phi is no share."""
        if state.phi is None:
            return None
        least = state.phi * (1 - ERROR_SHARE) * state.total
        heavy = [(-count, key is None, key, count) for key, (count, _) in state.known.items() if count >= least]
        return ",".join(f"{'nan' if absent else self.show(key)}:{count}" for _, absent, key, count in sorted(heavy))


@lru_cache(maxsize=64)
def _share(phi: float) -> tuple[Fraction | None, int]:
    """The share as it is written, and 1/e; None where it is none."""
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
    )
    for kind in EVERY
)
