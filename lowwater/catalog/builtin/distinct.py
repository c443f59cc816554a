"""Counts of distinct values, exact and approximate.

A family of the shipped catalog. Both merge exactly for every partition and order of their input (O2). Values are equal
as in GROUP BY: -0.0 equals 0.0 and NaN equals itself.
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
"""Registers of the sketch: a standard error of 1.04 / sqrt(4096) = 1.6 %."""

_INDEX_BITS = REGISTERS.bit_length() - 1
_REST_BITS = 64 - _INDEX_BITS


class CountDistinct(Stateless):
    """`count_distinct(x)`, also written `COUNT(DISTINCT x)`: exact. State: the set of values."""

    def initialize(self) -> set[Any]:
        """No values."""
        return set()

    def iterate(self, state: set[Any], value: Any) -> set[Any]:
        """One value more."""
        # NaN is unequal to itself, and NULL never comes here, so None can stand for it.
        state.add(None if value != value else value)
        return state

    def merge(self, state: set[Any], other: set[Any]) -> set[Any]:
        """The values of both."""
        state |= other
        return state

    def output(self, state: set[Any]) -> int:
        """How many."""
        return len(state)


class ApproximateDistinct(Stateless):
    """`approx_count_distinct(x)`: HyperLogLog over 64 bits of BLAKE2b, read by Ertl's estimator. State: registers.

    A register holds the longest run of leading zeros, plus one, that a value of its part of the hashes has. Maxima do
    not depend on order or partition, so the value is the same in every run and on every machine.
    """

    def initialize(self) -> bytearray:
        """No values."""
        return bytearray(REGISTERS)

    def iterate(self, state: bytearray, value: Any) -> bytearray:
        """One value more."""
        digest = int.from_bytes(blake2b(_bytes_of(value), digest_size=8).digest(), "big")
        rest = digest & ((1 << _REST_BITS) - 1)
        run = _REST_BITS - rest.bit_length() + 1
        register = digest >> _REST_BITS
        if state[register] < run:
            state[register] = run
        return state

    def merge(self, state: bytearray, other: bytearray) -> bytearray:
        """The values of both."""
        return bytearray(map(max, state, other))

    def output(self, state: bytearray) -> float:
        """How many, about."""
        return _estimate(state)


class RunningDistinct(ApproximateDistinct):
    """`running_approx_count_distinct(x)`: the values of all epochs since the group began."""


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    if isinstance(value, int):
        return b"i" + value.to_bytes(16, "big", signed=True)
    if isinstance(value, float):
        # One form for every NaN, and one for both zeros.
        return b"f" + (b"nan" if value != value else struct.pack(">d", value + 0.0))
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    return b"a" + bytes(value)


def _estimate(registers: bytearray) -> float:
    """Ertl, New cardinality estimation algorithms for HyperLogLog sketches (2017), algorithm 6."""
    counts = [registers.count(run) for run in range(_REST_BITS + 2)]
    total = REGISTERS * _tau(1 - counts[_REST_BITS + 1] / REGISTERS)
    for run in range(_REST_BITS, 0, -1):
        total = 0.5 * (total + counts[run])
    total += REGISTERS * _sigma(counts[0] / REGISTERS)
    return REGISTERS * REGISTERS / (2 * math.log(2)) / total


def _sigma(share: float) -> float:
    if share == 1:
        return math.inf
    weight, total, before = 1.0, share, -1.0
    while total != before:
        share *= share
        before = total
        total += share * weight
        weight += weight
    return total


def _tau(share: float) -> float:
    if share in (0, 1):
        return 0.0
    weight, total, before = 1.0, 1 - share, -1.0
    while total != before:
        share = math.sqrt(share)
        before = total
        weight *= 0.5
        total -= (1 - share) ** 2 * weight
    return total / 3


AGGREGATES: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("count_distinct", (kind,), Type.INT, CountDistinct) for kind in EVERY),
    *(AggregateFunction("approx_count_distinct", (kind,), Type.FLOAT, ApproximateDistinct) for kind in EVERY),
    *(
        AggregateFunction("running_approx_count_distinct", (kind,), Type.FLOAT, RunningDistinct, running=True)
        for kind in EVERY
    ),
)
