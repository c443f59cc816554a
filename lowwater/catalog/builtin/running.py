"""Running aggregates: they keep something of their state from epoch to epoch, so they need CLOSING_WHEN.

A family of the shipped catalog. Each says in `reinit` what it keeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from lowwater.catalog.builtin.base import Stateless, exact, finite, summable
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction


@dataclass(frozen=True)
class Sums:
    """Sums of the latest epochs.

    Attributes:
        size: how many epochs are kept; 0 before the first value.
        latest: the sums, that of the current epoch first.
    """

    size: int = 0
    latest: tuple[float, ...] = (0,)


class MovingSum(Stateless):
    """`moving_sum(x, n)`: the sum over this epoch and the n - 1 before it. It fails where n is below 1."""

    def __init__(self, whole: bool = True) -> None:
        """`whole`: whether the values are integers."""
        self.whole = whole

    def initialize(self) -> Sums:
        """No values."""
        return Sums()

    def iterate(self, state: Sums, value: float, size: int) -> Sums:
        """One value more in the current epoch."""
        added = value if self.whole else summable(value)
        return Sums(size, (state.latest[0] + added, *state.latest[1:]))

    def reinit(self, state: Sums) -> Sums:
        """The current epoch becomes the one before, and the oldest is forgotten."""
        return replace(state, latest=(0, *state.latest)[: max(state.size, 1)])

    def output(self, state: Sums) -> float | None:
        """The sum of the epochs."""
        if state.size < 1:
            return None
        total = sum(state.latest[: state.size])
        return exact(int(total), "moving_sum") if self.whole else finite(float(total))


class DecayingSum(MovingSum):
    """`moving_sum_exp(x, n, alpha)`: as moving_sum, an epoch that lies i epochs back weighted by alpha ** i."""

    def output(self, state: Sums, alpha: float = 1.0) -> float | None:
        """The weighted sum of the epochs."""
        if state.size < 1:
            return None
        try:
            return finite(float(sum(each * alpha**age for age, each in enumerate(state.latest[: state.size]))))
        except (OverflowError, ZeroDivisionError):
            return None


class RunningSum(Stateless):
    """`running_sum(x)` and `running_sum_max(x)`: the sum since the group began, and its maximum in the epoch.

    The maximum counts the sum at the beginning of the epoch, which is 0 in the first one. State: both.
    """

    def __init__(self, maximum: bool = False) -> None:
        """`maximum`: whether the output is the maximum."""
        self.maximum = maximum

    def initialize(self) -> tuple[int, int]:
        """Nothing summed."""
        return 0, 0

    def iterate(self, state: tuple[int, int], value: int) -> tuple[int, int]:
        """One value more."""
        total = state[0] + value
        return total, max(state[1], total)

    def reinit(self, state: tuple[int, int]) -> tuple[int, int]:
        """The sum goes on; the maximum begins with it."""
        return state[0], state[0]

    def output(self, state: tuple[int, int]) -> int:
        """The sum, or its maximum."""
        return exact(state[1], "running_sum_max") if self.maximum else exact(state[0], "running_sum")


class RunningArray(Stateless):
    """`running_array_aggr(x)`: all integers since the group began, divided by commas. State: their texts."""

    def initialize(self) -> list[str]:
        """None yet."""
        return []

    def iterate(self, state: list[str], value: int) -> list[str]:
        """One value more."""
        state.append(str(value))
        return state

    def output(self, state: list[str]) -> str:
        """The list."""
        return ",".join(state)


@dataclass(frozen=True)
class Texts:
    """What CAT_aggr_diff holds: the text of the epoch and the latest string."""

    text: str = ""
    latest: str = ""


class Handovers(Stateless):
    """`CAT_aggr_diff(x)`: the strings that differ from the one before, divided by `:`.

    An epoch begins with the latest string of the one before, so that the first change is seen.
    """

    def initialize(self) -> Texts:
        """No strings."""
        return Texts()

    def iterate(self, state: Texts, value: str) -> Texts:
        """One string more, where it is another."""
        if value == state.latest:
            return state
        return Texts(f"{state.text}:{value}" if state.text else value, value)

    def reinit(self, state: Texts) -> Texts:
        """Only the latest string stays."""
        return Texts(state.latest, state.latest)

    def output(self, state: Texts) -> str:
        """The whole."""
        return state.text


@dataclass(frozen=True)
class Steps:
    """The step function that time_avg integrates.

    Attributes:
        area: integral over the current epoch, up to the latest step.
        value: the value of the latest step.
        time: the time of the latest step.
        window: length of an epoch, in the unit of the times.
        first: time of the first step of all; None before it.
        stepped: whether the current epoch has a step.
    """

    area: float = 0.0
    value: float = 0.0
    time: int = 0
    window: int = 0
    first: int | None = field(default=None)
    stepped: bool = False


class TimeAverage(Stateless):
    """`time_avg(x, t, window)`: the average of a value over time, each sample holding until the next one.

    An epoch is `window` long and begins at a multiple of it; that of the first sample counts from the sample on. An
    epoch without samples has the latest value. It fails where the window is below 1.
    """

    def initialize(self) -> Steps:
        """No samples."""
        return Steps()

    def iterate(self, state: Steps, value: float, time: int, window: int) -> Steps:
        """One sample more.

        Args:
            state: samples so far.
            value: value of the sample, which holds until the next one.
            time: instant of the sample, in the unit of t.
            window: length of an epoch, in the same unit.
        """
        if window < 1:
            return replace(state, window=window)
        area = 0.0
        if state.first is not None:
            since = state.time if state.stepped else time // window * window
            area = state.area + (time - since) * state.value
        return Steps(area, value, time, window, time if state.first is None else state.first, True)

    def reinit(self, state: Steps) -> Steps:
        """The latest value holds on."""
        return replace(state, area=0.0, stepped=False)

    def output(self, state: Steps) -> float | None:
        """The average over the epoch."""
        if state.window < 1 or state.first is None:
            return None
        if not state.stepped:
            return finite(state.value)
        end = (state.time // state.window + 1) * state.window
        begin = max(end - state.window, state.first)
        return finite((state.area + (end - state.time) * state.value) / (end - begin))


_number, _whole = Type.FLOAT, Type.INT

AGGREGATES: tuple[AggregateFunction, ...] = (
    AggregateFunction("moving_sum", (_whole, _whole), _whole, MovingSum, taken=2, constant=(1,), running=True),
    AggregateFunction(
        "moving_sum", (_number, _whole), _number, partial(MovingSum, whole=False), taken=2, constant=(1,), running=True
    ),
    AggregateFunction(
        "moving_sum_exp",
        (_number, _whole, _number),
        _number,
        partial(DecayingSum, whole=False),
        taken=2,
        constant=(1,),
        running=True,
    ),
    AggregateFunction("running_sum", (_whole,), _whole, RunningSum, running=True),
    AggregateFunction(
        "running_sum_max", (_whole,), _whole, partial(RunningSum, maximum=True), running=True, ordered=True
    ),
    AggregateFunction("running_array_aggr", (_whole,), Type.STRING, RunningArray, running=True, ordered=True),
    AggregateFunction("CAT_aggr_diff", (Type.STRING,), Type.STRING, Handovers, running=True, ordered=True),
    AggregateFunction(
        "time_avg", (_number, _whole, _whole), _number, TimeAverage, taken=3, constant=(2,), running=True, ordered=True
    ),
)
