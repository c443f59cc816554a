"""Counts distinct values, exactly or approximately.

A family of the built-in catalog. The states merge exactly for every partition and order of the input (O2). Values are
equal as in GROUP BY: -0.0 equals 0.0 and NaN equals itself.
"""

from __future__ import annotations

import math
import struct
from hashlib import blake2b
from typing import Any

from lowwater.catalog.builtin.base import EVERY, Stateless
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction

REGISTERS = 4096
"""Number of registers in the sketch: gives a standard error of 1.04 / sqrt(4096) = 1.6 %."""

_INDEX_BITS = REGISTERS.bit_length() - 1
_REST_BITS = 64 - _INDEX_BITS


class CountDistinct(Stateless):
    """`count_distinct(x)`, also written `COUNT(DISTINCT x)`: exact. State: the set of values."""

    def initialize(self) -> set[Any]:
        """Returns an empty state."""
        return set()

    def iterate(self, state: set[Any], value: Any) -> set[Any]:
        """Adds a value to the state."""
        # NaN is unequal to itself. None stands for NaN, because no argument is NULL.
        state.add(None if value != value else value)
        return state

    def merge(self, state: set[Any], other: set[Any]) -> set[Any]:
        """Merges two sets."""
        state |= other
        return state

    def output(self, state: set[Any]) -> int:
        """Returns the number of distinct values."""
        return len(state)


class ApproximateDistinct(Stateless):
    """`approx_count_distinct(x)`: HyperLogLog over 64 bits of BLAKE2b, with Ertl's estimator. State: registers.

    The first bits of a hash select a register. The register holds one plus the longest run of leading zeros in the
    other bits. Maxima do not depend on order or partition, so every run on every machine gives the same value.
    """

    def initialize(self) -> bytearray:
        """Returns an empty state."""
        return bytearray(REGISTERS)

    def iterate(self, state: bytearray, value: Any) -> bytearray:
        """Adds a value to the state."""
        digest = int.from_bytes(blake2b(_bytes_of(value), digest_size=8).digest(), "big")
        rest = digest & ((1 << _REST_BITS) - 1)
        run = _REST_BITS - rest.bit_length() + 1
        register = digest >> _REST_BITS
        if state[register] < run:
            state[register] = run
        return state

    def merge(self, state: bytearray, other: bytearray) -> bytearray:
        """Merges two states: the maximum of each register."""
        return bytearray(map(max, state, other))

    def output(self, state: bytearray) -> float:
        """Returns the estimate of the number of distinct values."""
        return _estimate(state)


class RunningDistinct(ApproximateDistinct):
    """`running_approx_count_distinct(x)`: counts the values of all epochs since the start of the group."""


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    if isinstance(value, int):
        return b"i" + value.to_bytes(16, "big", signed=True)
    if isinstance(value, float):
        # Every NaN has the same bytes, and so have both zeros.
        return b"f" + (b"nan" if value != value else struct.pack(">d", value + 0.0))
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    return b"a" + bytes(value)


def _estimate(registers: bytearray) -> float:
    """Estimates the number of distinct values.

    Ertl, New cardinality estimation algorithms for HyperLogLog sketches (2017), algorithm 6.
    """
    counts = [registers.count(run) for run in range(_REST_BITS + 2)]
    total = REGISTERS * _tau(1 - counts[_REST_BITS + 1] / REGISTERS)
    for run in range(_REST_BITS, 0, -1):
        total = 0.5 * (total + counts[run])
    total += REGISTERS * _sigma(counts[0] / REGISTERS)
    return REGISTERS * REGISTERS / (2 * math.log(2)) / total


def _sigma(ratio: float) -> float:
    if ratio == 1:
        return math.inf
    weight, total, before = 1.0, ratio, -1.0
    while total != before:
        ratio *= ratio
        before = total
        total += ratio * weight
        weight += weight
    return total


def _tau(ratio: float) -> float:
    if ratio in (0, 1):
        return 0.0
    weight, total, before = 1.0, 1 - ratio, -1.0
    while total != before:
        ratio = math.sqrt(ratio)
        before = total
        weight *= 0.5
        total -= (1 - ratio) ** 2 * weight
    return total / 3


AGGREGATES: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("count_distinct", (kind,), Type.INT, CountDistinct) for kind in EVERY),
    *(AggregateFunction("approx_count_distinct", (kind,), Type.FLOAT, ApproximateDistinct) for kind in EVERY),
    *(
        AggregateFunction("running_approx_count_distinct", (kind,), Type.FLOAT, RunningDistinct, running=True)
        for kind in EVERY
    ),
)
