"""Aggregates of four Python functions: averages, distinct values, quantiles, ordered values, heavy hitters."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

from lowwater.catalog.builtin.base import EVERY, Stateless, finite, summable
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction
from lowwater.catalog.limits import FRACTION, SHARE
from lowwater.catalog.values import format_ip, format_mac

# Implements the averages extr_avg and POSAVG. Their states merge for every partition of the input (O2), POSAVG up to
# rounding.

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


AVERAGES: tuple[AggregateFunction, ...] = (
    AggregateFunction("extr_avg", (Type.INT,), Type.FLOAT, IntegerAverage),
    AggregateFunction("POSAVG", (Type.FLOAT,), Type.FLOAT, PositiveAverage),
)


# Counts distinct values, exactly or approximately. The states merge exactly for every partition and order of the
# input (O2). Values are equal as in GROUP BY: -0.0 equals 0.0 and NaN equals itself.

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


DISTINCT: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("count_distinct", (kind,), Type.INT, CountDistinct) for kind in EVERY),
    *(AggregateFunction("approx_count_distinct", (kind,), Type.FLOAT, ApproximateDistinct) for kind in EVERY),
    *(
        AggregateFunction("running_approx_count_distinct", (kind,), Type.FLOAT, RunningDistinct, running=True)
        for kind in EVERY
    ),
)


# Computes exact quantiles of the values of a group. `quantile_of(x, phi)` is the order statistic of rank ceil(phi *
# n): the smallest value that is not below a fraction phi of the values. For phi = 0 it is the smallest value. The
# median is the quantile for phi = 0.5: the lower middle value for an even number. A quantile is always a value of the
# group, never an interpolation. The states merge exactly for every partition (O2); they hold every distinct value.


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

QUANTILES: tuple[AggregateFunction, ...] = (
    *(
        AggregateFunction("quantile_of", (kind, Type.FLOAT), kind, Quantile, limits=((1, FRACTION),))
        for kind in _NUMERIC
    ),
    *(AggregateFunction("median_of", (kind,), kind, Median) for kind in _NUMERIC),
)


# Implements aggregates that depend on the order of their input: first, last, changes, concatenation. One engine
# process reads all values in canonical order (O1), so the aggregates have no merge. In a query with CLOSING_WHEN,
# every epoch starts with an empty state. FIRST and LAST keep their state instead.


class First(Stateless):
    """`FIRST(x)`: the first value since the start of the group, earlier epochs included."""

    def initialize(self) -> Any:
        """Returns an empty state."""
        return None

    def iterate(self, state: Any, value: Any) -> Any:
        """Keeps the first value."""
        return value if state is None else state

    def reinit(self, state: Any) -> Any:
        """Keeps the state for the next epoch."""
        return state

    def output(self, state: Any) -> Any:
        """Returns the value; None without values."""
        return state


class Last(First):
    """`LAST(x)`: the last value; the last value of an earlier epoch if the current epoch has no values."""

    def iterate(self, state: Any, value: Any) -> Any:
        """Keeps the last value."""
        return value


class Changes(Stateless):
    """`count_diff(x)`: the number of values that differ from their predecessor. The first value counts as different.

    State: the number, and the latest value.
    """

    def initialize(self) -> tuple[int, Any]:
        """Returns an empty state."""
        return 0, None

    def iterate(self, state: tuple[int, Any], value: Any) -> tuple[int, Any]:
        """Adds a value to the state."""
        count, before = state
        same = value == before or (value != value and before != before)
        return count + (count == 0 or not same), value

    def reinit(self, state: tuple[int, Any]) -> tuple[int, Any]:
        """Returns an empty state for the next epoch."""
        return self.initialize()

    def output(self, state: tuple[int, Any]) -> int:
        """Returns the number of changes."""
        return state[0]


class Catenation(Stateless):
    """`CAT_aggr(separator, x)`: the concatenation of the strings, with separators between them.

    State: the strings and separators.
    """

    def initialize(self) -> list[str]:
        """Returns an empty state."""
        return []

    def iterate(self, state: list[str], separator: str, value: str) -> list[str]:
        """Adds a string to the state."""
        if state:
            state.append(separator)
        # Leading empty strings add no text, so no separator follows them.
        if state or value:
            state.append(value)
        return state

    def reinit(self, state: list[str]) -> list[str]:
        """Returns an empty state for the next epoch."""
        return []

    def output(self, state: list[str]) -> str:
        """Returns the concatenation."""
        return "".join(state)


ORDERED: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("FIRST", (kind,), kind, First, ordered=True) for kind in EVERY),
    *(AggregateFunction("LAST", (kind,), kind, Last, ordered=True) for kind in EVERY),
    *(AggregateFunction("count_diff", (kind,), Type.INT, Changes, ordered=True) for kind in EVERY),
    AggregateFunction("CAT_aggr", (Type.STRING, Type.STRING), Type.STRING, Catenation, taken=2, ordered=True),
)


# Finds heavy hitters: the values whose frequency in a group is at least phi. `heavy_hitters(x, phi)` is lossy
# counting (Manku and Motwani, 2002) with the error e = phi / 10. It reads the values in canonical order (O1), so
# every run gives the same result. For n values, the result holds the values with a count of at least (phi - e) * n:
# every value of frequency phi or more, and no value of a frequency below phi - e. A count is too small by at most e *
# n. The state holds at most (1 / e) * log(e * n) values.

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

HEAVY: tuple[AggregateFunction, ...] = tuple(
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
