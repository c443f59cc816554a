"""Computes over columns the instants at which values of temporal attributes end and begin.

The vector form of `Temporal.last` and `Temporal.first` in `plan.temporal`, used by the operators of a slice and by the
published columns of instants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.plan.operators import Field, Window
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Component, Temporal

Integers = npt.NDArray[np.int64]

LATEST = END_OF_TIME - 1
"""The last instant at which a row can still change."""


def last(temporal: Temporal, values: Integers) -> Integers:
    """The last instants (ns) of rows with these values.

    Example:
        >>> from lowwater.plan.temporal import Step
        >>> last(Temporal(((Step("div", 10),),)), np.array([0, 2, -1])).tolist()
        [9, 29, -10]
    """
    if not len(values):
        return values
    lows, highs = int(values.min()), int(values.max())
    if all(_fits(steps, value, temporal.increasing) for steps in temporal.components for value in (lows, highs)):
        ends = [_bound(steps, values, temporal.increasing) for steps in temporal.components]
        instants: Integers = np.minimum(np.maximum.reduce(ends), LATEST)
        return instants
    return map_distinct(temporal.last, values)


def first(temporal: Temporal, values: Integers) -> Integers:
    """The first instants (ns) of values of a temporal attribute with one component.

    Example:
        >>> from lowwater.plan.temporal import Step
        >>> first(Temporal(((Step("div", 10),),)), np.array([0, 2, 3])).tolist()
        [-9, 20, 30]
    """
    if not len(values):
        return values
    (steps,), at_most = temporal.components, not temporal.increasing
    if all(_fits(steps, bound, at_most) for bound in (int(values.min()), int(values.max()))):
        return _bound(steps, values, at_most)
    return map_distinct(temporal.first, values)


def map_distinct(function: Callable[[int], int], values: Integers) -> Integers:
    """Maps a Python function over the distinct values of a column, limited to 64 bits."""
    distinct, places = np.unique(values, return_inverse=True)
    results = [max(-INT64_MAX, min(function(value), INT64_MAX)) for value in distinct.tolist()]
    return np.array(results, np.int64)[places]


def group_end(fields: Sequence[Field], keys: Sequence[pa.Array], rows: int) -> Integers:
    """The last instant of each group (ns); a group without a temporal value ends with the replay."""
    ends = np.full(rows, LATEST, np.int64)
    for field, key in zip(fields, keys, strict=True):
        if field.temporal and not field.temporal.origin:
            has_value = key.is_valid().to_numpy(zero_copy_only=False)
            instants = last(field.temporal, key.fill_null(0).to_numpy(zero_copy_only=False))
            ends = np.where(has_value, np.minimum(ends, instants), ends)
    return ends


def window_end(window: Window, values: Integers, left: bool) -> Integers:
    """`Window.last_left` or `Window.last_right` of each value."""
    end = window.last_left if left else window.last_right
    time, other = (window.left_time, window.right_time) if left else (window.right_time, window.left_time)
    rising = window.left_time.increasing
    reach = (window.above if rising else -window.below) if left else (window.below if rising else -window.above)
    if len(values) and max(abs(reach), -int(values.min()), int(values.max())) < 1 << 61:
        return np.maximum(last(time, values), last(other, values + reach))
    return map_distinct(end, values)


def _fits(steps: Component, value: int, at_most: bool) -> bool:
    """Whether every step of a value fits 64 bits."""
    for step in reversed(steps):
        if step.op == "neg":
            value, at_most = -value, not at_most
        else:
            value = step.largest(value) if at_most else step.smallest(value)
        if max(abs(value), abs(step.by)) > INT64_MAX >> 1:
            return False
    return True


def _bound(steps: Component, values: Integers, at_most: bool) -> Integers:
    """The bound of values carried through the steps, as in `plan.temporal`."""
    for step in reversed(steps):
        if step.op == "neg":
            values, at_most = -values, not at_most
        elif step.op == "add":
            values = values - step.by
        elif step.op == "mul":
            values = values // step.by if at_most else -(-values // step.by)
        elif step.op == "day":
            values = step.days.lasts(values) if at_most else step.days.firsts(values)
        elif at_most:
            values = values * step.by + np.where(values >= 0, step.by - 1, 0)
        else:
            values = values * step.by - np.where(values <= 0, step.by - 1, 0)
    return values
