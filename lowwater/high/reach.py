"""How far apart in time the rows of a match can lie: the bound by which Spark forgets rows of a band join.

Derived from the step chains of `plan.temporal` alone, conservatively; read by the lowering of joins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lowwater.plan.nodes import Window
from lowwater.plan.temporal import Component, Temporal


@dataclass(frozen=True)
class _Line:
    """Instants behind a value v: between slope * v + low and slope * v + high."""

    slope: Fraction
    low: Fraction
    high: Fraction


def _instants(steps: Component) -> _Line:
    slope, low, high = Fraction(1), Fraction(0), Fraction(0)
    for step in reversed(steps):
        if step.op == "neg":
            slope, low, high = -slope, -high, -low
        elif step.op == "add":
            low, high = low - step.by, high - step.by
        elif step.op == "mul":
            slope, low, high = slope / step.by, low / step.by - 1, high / step.by + 1
        else:
            slope, low, high = slope * step.by, low * step.by - step.by + 1, high * step.by + step.by - 1
    return _Line(slope, low, high)


def _hull(*times: Temporal) -> list[_Line] | None:
    """One line for each attribute, all of one slope; None where the slopes differ."""
    lines = [[_instants(steps) for steps in time.components] for time in times]
    slope = lines[0][0].slope
    if any(line.slope != slope for group in lines for line in group):
        return None
    return [_Line(slope, min(line.low for line in group), max(line.high for line in group)) for group in lines]


def reach(window: Window) -> tuple[int, int] | None:
    """Bounds (ns) on how much later a matching right row can end than its left row, and a left row than its right row.

    None where the two attributes run at different speeds, so that no bound holds.

    Example:
        >>> from lowwater.catalog.expr import Column, Type
        >>> from lowwater.plan.temporal import Step, Temporal
        >>> seconds = Temporal(((Step("div", 1_000_000_000),),))
        >>> time = Column(Type.INT, "time")
        >>> reach(Window(time, time, seconds, seconds, below=1, above=2))
        (3999999998, 2999999998)
    """
    lines = _hull(window.left_time, window.right_time)
    if lines is None:
        return None
    left, right = lines
    slope = left.slope
    forward = max(slope * window.above, -slope * window.below) + right.high - left.low
    backward = max(slope * window.below, -slope * window.above) + left.high - right.low
    return max(0, math.ceil(forward)), max(0, math.ceil(backward))
