"""Aggregates of four Python functions, and running ones, which keep a part of their state between epochs."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

from lowwater.catalog.builtin.numbers import EVERY, Stateless, exact, finite, summable
from lowwater.catalog.expr import SUMMABLE, Type
from lowwater.catalog.functions import FRACTION, SHARE, AggregateFunction, at_least
from lowwater.catalog.values import format_ip, format_mac
from lowwater.instants import format_moment

# Aggregates of four Python functions: averages, distinct values, quantiles, ordered values, heavy hitters.

# Averages: extr_avg and POSAVG. Their states merge for every partition of the input (O2), POSAVG up to rounding.

NO_AVERAGE = -1.0


class IntegerAverage(Stateless):
    """`extr_avg(x)`: the average of integers. State: exact sum and number of values."""

    def initialize(self) -> tuple[int, int]:
        return 0, 0

    def iterate(self, state: tuple[int, int], value: int) -> tuple[int, int]:
        return state[0] + value, state[1] + 1

    def merge(self, state: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return state[0] + other[0], state[1] + other[1]

    def output(self, state: tuple[int, int]) -> float | None:
        """Divides the sum by the number, with one rounding; None without values."""
        return state[0] / state[1] if state[1] else None


class PositiveAverage(Stateless):
    """`POSAVG(x)`: the average of values that are not negative; -1 without such values. State: sum and number."""

    def initialize(self) -> tuple[float, int]:
        return 0.0, 0

    def iterate(self, state: tuple[float, int], value: float) -> tuple[float, int]:
        """Adds a value to the state, unless it is negative or NaN."""
        return (state[0] + summable(value), state[1] + 1) if value >= 0 else state

    def merge(self, state: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        return state[0] + other[0], state[1] + other[1]

    def output(self, state: tuple[float, int]) -> float | None:
        return finite(state[0] / state[1]) if state[1] else NO_AVERAGE


# Variances. Sums of values and of squares are exact whole numbers, of floats in units of the least float, so that no
# order or division of the input changes a bit of the result (O2).

_LEAST = 1074
"""The least float is 2 to the power of minus this."""

Powers = tuple[int, int, int]
"""The number of values, their sum and that of their squares; a number below 0 after a float that has no sum (V2)."""


class Spread(Stateless):
    """The variance of a sample or of a whole population, or the square root of it. State: `Powers`."""

    def __init__(self, sample: bool, root: bool, floats: bool) -> None:
        self._sample, self._root, self._scale = sample, root, _LEAST if floats else 0

    def initialize(self) -> Powers:
        return 0, 0, 0

    def iterate(self, state: Powers, value: float) -> Powers:
        if state[0] < 0 or (self._scale and not abs(value) <= SUMMABLE):
            return -1, 0, 0
        over, under = value.as_integer_ratio()
        whole = (over << self._scale) // under
        return state[0] + 1, state[1] + whole, state[2] + whole * whole

    def merge(self, state: Powers, other: Powers) -> Powers:
        if min(state[0], other[0]) < 0:
            return -1, 0, 0
        return state[0] + other[0], state[1] + other[1], state[2] + other[2]

    def output(self, state: Powers) -> float | None:
        """Returns the value, the variance rounded once; None for too few values."""
        number, total, squares = state
        by = number - self._sample
        if by <= 0:
            return None
        try:
            variance = float(Fraction(number * squares - total * total, (number * by) << 2 * self._scale))
        except OverflowError:
            return None
        return math.sqrt(variance) if self._root else variance


_SPREADS = {
    ("var_samp", "variance"): (True, False),
    ("var_pop",): (False, False),
    ("stddev_samp", "stddev"): (True, True),
    ("stddev_pop",): (False, True),
}

AVERAGES: tuple[AggregateFunction, ...] = (
    AggregateFunction("extr_avg", (Type.INT,), Type.FLOAT, IntegerAverage),
    AggregateFunction("POSAVG", (Type.FLOAT,), Type.FLOAT, PositiveAverage),
    *(
        AggregateFunction(name, (kind,), Type.FLOAT, partial(Spread, *form, kind is Type.FLOAT))
        for names, form in _SPREADS.items()
        for name in names
        for kind in (Type.INT, Type.FLOAT)
    ),
)


# Distinct values. The states merge exactly for every partition and order of the input (O2). Values are equal as in
# GROUP BY: -0.0 equals 0.0 and NaN equals itself.

REGISTERS = 4096
"""Number of registers in the sketch: gives a standard error of 1.04 / sqrt(4096) = 1.6 %."""

_INDEX_BITS = REGISTERS.bit_length() - 1
_REST_BITS = 64 - _INDEX_BITS


class CountDistinct(Stateless):
    """`count_distinct(x)`, also written `COUNT(DISTINCT x)`: exact. State: the set of values."""

    def initialize(self) -> set[Any]:
        return set()

    def iterate(self, state: set[Any], value: Any) -> set[Any]:
        # NaN is unequal to itself. None stands for NaN, because no argument is NULL.
        state.add(None if value != value else value)
        return state

    def merge(self, state: set[Any], other: set[Any]) -> set[Any]:
        state |= other
        return state

    def output(self, state: set[Any]) -> int:
        return len(state)


class ApproximateDistinct(Stateless):
    """`approx_count_distinct(x)`: HyperLogLog over 64 bits of BLAKE2b, with Ertl's estimator. State: registers.

    The first bits of a hash select a register. The register holds one plus the longest run of leading zeros in the
    other bits. Maxima do not depend on order or partition, so every run on every machine gives the same value.
    """

    def initialize(self) -> bytearray:
        return bytearray(REGISTERS)

    def iterate(self, state: bytearray, value: Any) -> bytearray:
        digest = int.from_bytes(blake2b(_bytes_of(value), digest_size=8).digest(), "big")
        rest = digest & ((1 << _REST_BITS) - 1)
        run = _REST_BITS - rest.bit_length() + 1
        register = digest >> _REST_BITS
        if state[register] < run:
            state[register] = run
        return state

    def merge(self, state: bytearray, other: bytearray) -> bytearray:
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


# Quantiles. `quantile_of(x, phi)` is the order statistic of rank ceil(phi * n): the smallest value that is not below a
# fraction phi of the values. For phi = 0 it is the smallest value. The median is the quantile for phi = 0.5: the lower
# middle value for an even number. A quantile is always a value of the group, never an interpolation. The states merge
# exactly for every partition (O2); they hold every distinct value.


class Quantile(Stateless):
    """`quantile_of(x, phi)`. State: value -> its number of occurrences. None stands for NaN, the greatest value."""

    def initialize(self) -> dict[float | None, int]:
        return {}

    def iterate(self, state: dict[float | None, int], value: float) -> dict[float | None, int]:
        key = None if value != value else value + 0  # one zero, as of min and max
        state[key] = state.get(key, 0) + 1
        return state

    def merge(self, state: dict[float | None, int], other: dict[float | None, int]) -> dict[float | None, int]:
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


class Interpolated(Quantile):
    """`quantile_cont(x, phi)`: the value at phi of the way through the values in order, between two of them where that
    lies there. State as of `quantile_of`."""

    def output(self, state: dict[float | None, int], phi: float) -> float | None:
        """Returns the value, rounded once; None without values, or if phi is not in [0, 1]."""
        if not state or not 0 <= phi <= 1:
            return None
        at = Fraction(repr(phi)) * (sum(state.values()) - 1)
        below, above = (self._of_rank(state, rank) for rank in (math.floor(at), math.ceil(at)))
        if below == above or not (math.isfinite(below) and math.isfinite(above)):
            return float(below) if at.denominator == 1 or below == above else finite(below + above)
        return float(Fraction(below) + (Fraction(above) - Fraction(below)) * (at - math.floor(at)))

    @staticmethod
    def _of_rank(state: dict[float | None, int], rank: int) -> float:
        """The value with so many before it; NaN is above all numbers."""
        for value in sorted(key for key in state if key is not None):
            rank -= state[value]
            if rank < 0:
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
    *(
        AggregateFunction("quantile_cont", (kind, Type.FLOAT), Type.FLOAT, Interpolated, limits=((1, FRACTION),))
        for kind in _NUMERIC
    ),
)


# arg_max and arg_min. Of rows that are equal in the other expression the least value is taken, so that no order of rows
# decides (O2).


class OfExtreme(Stateless):
    """`arg_max(x, y)`, `arg_min(x, y)`. State: the keys of y and x, and x; None without rows."""

    def __init__(self, most: bool) -> None:
        self._most = most

    def initialize(self) -> Any:
        return None

    def iterate(self, state: Any, value: Any, by: float) -> Any:
        return self.merge(state, ((by != by, by), (value != value, value), value))

    def merge(self, state: Any, other: Any) -> Any:
        if state is None or other is None:
            return other if state is None else state
        if state[0] == other[0] or (state[0][0] and other[0][0]):  # NaN is above all numbers, and equals itself
            return min(state, other, key=lambda each: each[1])
        return (max if self._most else min)(state, other, key=lambda each: each[0])

    def output(self, state: Any) -> Any:
        """Returns the value; None without rows."""
        return None if state is None else state[2]


EXTREMES: tuple[AggregateFunction, ...] = tuple(
    AggregateFunction(name, (kind, by), kind, partial(OfExtreme, name == "arg_max"), taken=2)
    for name in ("arg_max", "arg_min")
    for kind in EVERY
    for by in _NUMERIC
)


# Ordered aggregates: first, last, changes, concatenation. One engine process reads all values in canonical order (O1),
# so the aggregates have no merge. In a query with CLOSING_WHEN, every epoch starts with an empty state. FIRST and LAST
# keep their state instead.


class First(Stateless):
    """`FIRST(x)`: the first value since the start of the group, earlier epochs included."""

    def initialize(self) -> Any:
        return None

    def iterate(self, state: Any, value: Any) -> Any:
        return value if state is None else state

    def reinit(self, state: Any) -> Any:
        return state

    def output(self, state: Any) -> Any:
        """Returns the value; None without values."""
        return state


class Last(First):
    """`LAST(x)`: the last value; the last value of an earlier epoch if the current epoch has no values."""

    def iterate(self, state: Any, value: Any) -> Any:
        return value


class Changes(Stateless):
    """`count_diff(x)`: the number of values that differ from their predecessor. The first value counts as different.

    State: the number, and the latest value.
    """

    def initialize(self) -> tuple[int, Any]:
        return 0, None

    def iterate(self, state: tuple[int, Any], value: Any) -> tuple[int, Any]:
        count, before = state
        same = value == before or (value != value and before != before)
        return count + (count == 0 or not same), value

    def reinit(self, state: tuple[int, Any]) -> tuple[int, Any]:
        return self.initialize()

    def output(self, state: tuple[int, Any]) -> int:
        return state[0]


class Catenation(Stateless):
    """`CAT_aggr(separator, x)`: the concatenation of the strings, with separators between them.

    State: the strings and separators.
    """

    def initialize(self) -> list[str]:
        return []

    def iterate(self, state: list[str], separator: str, value: str) -> list[str]:
        if state:
            state.append(separator)
        # Leading empty strings add no text, so no separator follows them.
        if state or value:
            state.append(value)
        return state

    def reinit(self, state: list[str]) -> list[str]:
        return []

    def output(self, state: list[str]) -> str:
        return "".join(state)


ORDERED: tuple[AggregateFunction, ...] = (
    *(AggregateFunction("FIRST", (kind,), kind, First, ordered=True) for kind in EVERY),
    *(AggregateFunction("LAST", (kind,), kind, Last, ordered=True) for kind in EVERY),
    *(AggregateFunction("count_diff", (kind,), Type.INT, Changes, ordered=True) for kind in EVERY),
    AggregateFunction("CAT_aggr", (Type.STRING, Type.STRING), Type.STRING, Catenation, taken=2, ordered=True),
)


# Heavy hitters. `heavy_hitters(x, phi)` is lossy counting (Manku and Motwani, 2002) with the error e = phi / 10. It
# reads the values in canonical order (O1), so every run gives the same result. For n values, the result holds the
# values with a count of at least (phi - e) * n: every value of frequency phi or more, and no value of a frequency below
# phi - e. A count is too small by at most e * n. The state holds at most (1 / e) * log(e * n) values.

ERROR_SHARE = Fraction(1, 10)


@dataclass
class Counts:
    """The state of lossy counting."""

    total: int = 0
    # value -> (its count, the largest number of its occurrences that the state may have missed)
    entries: dict[Any, tuple[int, int]] = field(default_factory=dict)
    phi: Fraction | None = None  # the least frequency; None before the first value, or if it is not in (0, 1]


class HeavyHitters(Stateless):
    """`heavy_hitters(x, phi)`: `value:count` pairs with commas between them, sorted by falling count, then by value.

    A backslash escapes commas and backslashes of strings. The count follows the last colon of a pair.
    """

    def __init__(self, show: Callable[[Any], str] = str) -> None:
        self.show = show

    def initialize(self) -> Counts:
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
    Type.INSTANT: format_moment,
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


# Running aggregates. `reinit` of an aggregate returns the state for the next epoch.


@dataclass(frozen=True)
class Sums:
    """The sums of the latest epochs."""

    size: int = 0  # the number of epochs in the moving sum; 0 before the first value
    latest: tuple[float, ...] = (0,)  # the sums, newest epoch first


class MovingSum(Stateless):
    """`moving_sum(x, n)`: the sum over the current epoch and the n - 1 epochs before it. It fails if n is below 1."""

    def __init__(self, whole: bool = True) -> None:
        self.whole = whole

    def initialize(self) -> Sums:
        return Sums()

    def iterate(self, state: Sums, value: float, size: int) -> Sums:
        term = value if self.whole else summable(value)
        return Sums(size, (state.latest[0] + term, *state.latest[1:]))

    def reinit(self, state: Sums) -> Sums:
        """Starts a sum for the next epoch and drops the sum of the oldest epoch."""
        return replace(state, latest=(0, *state.latest)[: max(state.size, 1)])

    def output(self, state: Sums) -> float | None:
        if state.size < 1:
            return None
        total = sum(state.latest[: state.size])
        return exact(int(total), "moving_sum") if self.whole else finite(float(total))


class DecayingSum(MovingSum):
    """`moving_sum_exp(x, n, alpha)`: a moving sum with the weight alpha ** i for the epoch i epochs ago."""

    def output(self, state: Sums, alpha: float = 1.0) -> float | None:
        if state.size < 1:
            return None
        try:
            return finite(float(sum(total * alpha**age for age, total in enumerate(state.latest[: state.size]))))
        except (OverflowError, ZeroDivisionError):
            return None


class RunningSum(Stateless):
    """`running_sum(x)` and `running_sum_max(x)`: the sum since the start of the group, and its maximum in the epoch.

    The maximum includes the sum at the start of the epoch, which is 0 in the first epoch. State: sum and maximum.
    """

    def __init__(self, maximum: bool = False) -> None:
        self.maximum = maximum

    def initialize(self) -> tuple[int, int]:
        return 0, 0

    def iterate(self, state: tuple[int, int], value: int) -> tuple[int, int]:
        total = state[0] + value
        return total, max(state[1], total)

    def reinit(self, state: tuple[int, int]) -> tuple[int, int]:
        """Keeps the sum; the maximum of the next epoch starts with the sum."""
        return state[0], state[0]

    def output(self, state: tuple[int, int]) -> int:
        return exact(state[1], "running_sum_max") if self.maximum else exact(state[0], "running_sum")


class RunningArray(Stateless):
    """`running_array_aggr(x)`: all integers since the start of the group, with commas between. State: their texts."""

    def initialize(self) -> list[str]:
        return []

    def iterate(self, state: list[str], value: int) -> list[str]:
        state.append(str(value))
        return state

    def output(self, state: list[str]) -> str:
        return ",".join(state)


@dataclass(frozen=True)
class Texts:
    """The state of CAT_aggr_diff."""

    text: str = ""  # the strings of the epoch, with `:` between them
    latest: str = ""


class Handovers(Stateless):
    """`CAT_aggr_diff(x)`: the strings that differ from their predecessor, with `:` between them.

    An epoch starts with the latest string of the epoch before, so that the result shows the first change.
    """

    def initialize(self) -> Texts:
        return Texts()

    def iterate(self, state: Texts, value: str) -> Texts:
        if value == state.latest:
            return state
        return Texts(f"{state.text}:{value}" if state.text else value, value)

    def reinit(self, state: Texts) -> Texts:
        return Texts(state.latest, state.latest)

    def output(self, state: Texts) -> str:
        return state.text


@dataclass(frozen=True)
class Steps:
    """The step function that time_avg integrates. A sample starts a step."""

    area: float = 0.0
    value: float = 0.0
    time: int = 0
    window: int = 0  # the length of an epoch, in the unit of the times
    first: int | None = field(default=None)  # the time of the first step; None before the first step
    stepped: bool = False  # whether the current epoch has a step


class TimeAverage(Stateless):
    """`time_avg(x, t, window)`: the average of a value over time. A sample is valid until the next sample.

    An epoch has the length `window` and starts at a multiple of `window`. The first epoch counts from the first sample.
    An epoch without samples has the latest value. The aggregate fails if `window` is below 1.
    """

    def initialize(self) -> Steps:
        return Steps()

    def iterate(self, state: Steps, value: float, time: int, window: int) -> Steps:
        if window < 1:
            return replace(state, window=window)
        area = 0.0
        if state.first is not None:
            since = state.time if state.stepped else time // window * window
            area = state.area + (time - since) * state.value
        return Steps(area, value, time, window, time if state.first is None else state.first, True)

    def reinit(self, state: Steps) -> Steps:
        return replace(state, area=0.0, stepped=False)

    def output(self, state: Steps) -> float | None:
        if state.window < 1 or state.first is None:
            return None
        if not state.stepped:
            return finite(state.value)
        end = (state.time // state.window + 1) * state.window
        begin = max(end - state.window, state.first)
        return finite((state.area + (end - state.time) * state.value) / (end - begin))


_number, _whole = Type.FLOAT, Type.INT
_EPOCHS = ((1, at_least(1)),)

RUNNING: tuple[AggregateFunction, ...] = (
    AggregateFunction(
        "moving_sum", (_whole, _whole), _whole, MovingSum, taken=2, constant=(1,), running=True, limits=_EPOCHS
    ),
    AggregateFunction(
        "moving_sum",
        (_number, _whole),
        _number,
        partial(MovingSum, whole=False),
        taken=2,
        constant=(1,),
        running=True,
        limits=_EPOCHS,
    ),
    AggregateFunction(
        "moving_sum_exp",
        (_number, _whole, _number),
        _number,
        partial(DecayingSum, whole=False),
        taken=2,
        constant=(1,),
        running=True,
        limits=_EPOCHS,
    ),
    AggregateFunction("running_sum", (_whole,), _whole, RunningSum, running=True),
    AggregateFunction(
        "running_sum_max", (_whole,), _whole, partial(RunningSum, maximum=True), running=True, ordered=True
    ),
    AggregateFunction("running_array_aggr", (_whole,), Type.STRING, RunningArray, running=True, ordered=True),
    AggregateFunction("CAT_aggr_diff", (Type.STRING,), Type.STRING, Handovers, running=True, ordered=True),
    AggregateFunction(
        "time_avg",
        (_number, _whole, _whole),
        _number,
        TimeAverage,
        taken=3,
        constant=(2,),
        running=True,
        ordered=True,
        limits=((2, at_least(1)),),
    ),
)
