"""Implements running aggregates, which keep a part of their state between epochs and need CLOSING_WHEN.

A family of the built-in catalog. `reinit` of an aggregate returns the state for the next epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from lowwater.catalog.builtin.base import Stateless, exact, finite, summable
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import AggregateFunction
from lowwater.catalog.limits import at_least


@dataclass(frozen=True)
class Sums:
    """The sums of the latest epochs.

    Attributes:
        size: the number of epochs in the moving sum; 0 before the first value.
        latest: the sums, newest epoch first.
    """

    size: int = 0
    latest: tuple[float, ...] = (0,)


class MovingSum(Stateless):
    """`moving_sum(x, n)`: the sum over the current epoch and the n - 1 epochs before it. It fails if n is below 1."""

    def __init__(self, whole: bool = True) -> None:
        """Initializes the aggregate.

        Args:
            whole: whether the values are integers.
        """
        self.whole = whole

    def initialize(self) -> Sums:
        """Returns an empty state."""
        return Sums()

    def iterate(self, state: Sums, value: float, size: int) -> Sums:
        """Adds a value to the sum of the current epoch."""
        term = value if self.whole else summable(value)
        return Sums(size, (state.latest[0] + term, *state.latest[1:]))

    def reinit(self, state: Sums) -> Sums:
        """Starts a sum for the next epoch and drops the sum of the oldest epoch."""
        return replace(state, latest=(0, *state.latest)[: max(state.size, 1)])

    def output(self, state: Sums) -> float | None:
        """Returns the sum over the epochs."""
        if state.size < 1:
            return None
        total = sum(state.latest[: state.size])
        return exact(int(total), "moving_sum") if self.whole else finite(float(total))


class DecayingSum(MovingSum):
    """`moving_sum_exp(x, n, alpha)`: a moving sum with the weight alpha ** i for the epoch i epochs ago."""

    def output(self, state: Sums, alpha: float = 1.0) -> float | None:
        """Returns the weighted sum over the epochs."""
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
        """Initializes the aggregate.

        Args:
            maximum: whether the output is the maximum.
        """
        self.maximum = maximum

    def initialize(self) -> tuple[int, int]:
        """Returns an empty state."""
        return 0, 0

    def iterate(self, state: tuple[int, int], value: int) -> tuple[int, int]:
        """Adds a value to the state."""
        total = state[0] + value
        return total, max(state[1], total)

    def reinit(self, state: tuple[int, int]) -> tuple[int, int]:
        """Keeps the sum; the maximum of the next epoch starts with the sum."""
        return state[0], state[0]

    def output(self, state: tuple[int, int]) -> int:
        """Returns the sum or its maximum."""
        return exact(state[1], "running_sum_max") if self.maximum else exact(state[0], "running_sum")


class RunningArray(Stateless):
    """`running_array_aggr(x)`: all integers since the start of the group, with commas between. State: their texts."""

    def initialize(self) -> list[str]:
        """Returns an empty state."""
        return []

    def iterate(self, state: list[str], value: int) -> list[str]:
        """Adds a value to the state."""
        state.append(str(value))
        return state

    def output(self, state: list[str]) -> str:
        """Returns the list."""
        return ",".join(state)


@dataclass(frozen=True)
class Texts:
    """The state of CAT_aggr_diff.

    Attributes:
        text: the strings of the epoch, with `:` between them.
        latest: the latest string.
    """

    text: str = ""
    latest: str = ""


class Handovers(Stateless):
    """`CAT_aggr_diff(x)`: the strings that differ from their predecessor, with `:` between them.

    An epoch starts with the latest string of the epoch before, so that the result shows the first change.
    """

    def initialize(self) -> Texts:
        """Returns an empty state."""
        return Texts()

    def iterate(self, state: Texts, value: str) -> Texts:
        """Adds a string if it differs from the latest string."""
        if value == state.latest:
            return state
        return Texts(f"{state.text}:{value}" if state.text else value, value)

    def reinit(self, state: Texts) -> Texts:
        """Keeps only the latest string."""
        return Texts(state.latest, state.latest)

    def output(self, state: Texts) -> str:
        """Returns the text of the epoch."""
        return state.text


@dataclass(frozen=True)
class Steps:
    """The step function that time_avg integrates. A sample starts a step.

    Attributes:
        area: the integral over the current epoch, up to the latest step.
        value: the value of the latest step.
        time: the time of the latest step.
        window: the length of an epoch, in the unit of the times.
        first: the time of the first step; None before the first step.
        stepped: whether the current epoch has a step.
    """

    area: float = 0.0
    value: float = 0.0
    time: int = 0
    window: int = 0
    first: int | None = field(default=None)
    stepped: bool = False


class TimeAverage(Stateless):
    """`time_avg(x, t, window)`: the average of a value over time. A sample is valid until the next sample.

    An epoch has the length `window` and starts at a multiple of `window`. The first epoch counts from the first sample.
    An epoch without samples has the latest value. The aggregate fails if `window` is below 1.
    """

    def initialize(self) -> Steps:
        """Returns an empty state."""
        return Steps()

    def iterate(self, state: Steps, value: float, time: int, window: int) -> Steps:
        """Adds a sample to the state.

        Args:
            state: the step function up to the sample.
            value: the value of the sample.
            time: the instant of the sample, in the unit of t.
            window: the length of an epoch, in the unit of t.
        """
        if window < 1:
            return replace(state, window=window)
        area = 0.0
        if state.first is not None:
            since = state.time if state.stepped else time // window * window
            area = state.area + (time - since) * state.value
        return Steps(area, value, time, window, time if state.first is None else state.first, True)

    def reinit(self, state: Steps) -> Steps:
        """Keeps the latest value and starts a new integral."""
        return replace(state, area=0.0, stepped=False)

    def output(self, state: Steps) -> float | None:
        """Returns the average over the epoch."""
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
