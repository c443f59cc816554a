"""Draws a number over time as lines of an SVG: scales, points, marks, and a place to click for each part of time.

Beside `drawing`. The template escapes names; Python computes numbers only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowwater.instants import DAY, HOUR, SECOND, spoken_instant
from lowwater.lake.results.exploring import Curves
from lowwater.plan.readings import Cell

from ..cells import named_text, plain, read_number

WIDTH, HEIGHT, LEFT, BOTTOM = 1100, 280, 80, 34
MARKS = 5
"""Most marks of an axis, without the one at its begin."""
CLOCK_STEPS = [seconds * SECOND for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)]
HOUR_STEPS = [hours * HOUR for hours in (1, 2, 3, 6, 12, 24, 48, 168, 336, 672)]


@dataclass(frozen=True)
class Line:
    """A series: its name, the path of its line, and its sum."""

    name: str
    path: str
    total: str


@dataclass(frozen=True)
class Slot:
    """A part of time: its place, its tooltip, the address of its rows, and whether nothing is known of it."""

    x: float
    width: float
    text: str
    address: str
    absent: bool = False


@dataclass(frozen=True)
class CurvePlot:
    """A plot of lines; marks are (position, text)."""

    width: int
    height: int
    left: int
    bottom: int
    lines: tuple[Line, ...]
    slots: tuple[Slot, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]


def draw_curves(
    curves: Curves,
    address: Callable[[int, int], str],
    number: Callable[[Any], Cell] = lambda value: Cell(""),
    key: Callable[[Any], Cell] = lambda value: Cell(""),
) -> CurvePlot | None:
    """Draws the series of a plot; None without values.

    Args:
        address: (start, end) of a part of time, ns -> address of its rows.
        number: how a value of the number is shown.
        key: how a value of the key is shown.
    """

    parts = len(curves.curves[0].values) if curves.curves else 0
    known = [value for curve in curves.curves for value in curve.values if value is not None]
    most, least = max(known, default=0.0), min(known, default=0.0)
    least = min(0.0, least)
    if not parts or most <= least:
        return None
    bottom = HEIGHT - BOTTOM
    step = (WIDTH - LEFT - 10) / parts

    def y(value: float) -> float:
        return round(bottom - (bottom - 12) * (value - least) / (most - least), 1)

    lines = []
    for curve in curves.curves:
        points = [
            f"{'L' if at and curve.values[at - 1] is not None else 'M'}{LEFT + at * step:.1f} {y(value)} "
            f"{LEFT + (at + 1) * step:.1f} {y(value)}"
            for at, value in enumerate(curve.values)
            if value is not None
        ]
        lines.append(
            Line(
                named_text(key, curve.name),
                " ".join(points),
                "" if curve.total is None else read_number(number, curve.total),
            )
        )
    slots = []
    for at in range(parts):
        begin = curves.start + at * curves.step
        told = [
            (value, named_text(key, curve.name)) for curve in curves.curves if (value := curve.values[at]) is not None
        ]
        shown = ", ".join(f"{name}: {read_number(number, value)}".removeprefix(": ") for value, name in told)
        text = f"{spoken_instant(begin)}: {curves.absent.get(at, shown or 'no row')}"
        place = round(LEFT + at * step, 1), round(step, 2)
        slots.append(Slot(*place, text, address(begin, begin + curves.step), at in curves.absent))
    width = WIDTH - LEFT - 10
    span = curves.step * parts
    across = tuple(
        (round(LEFT + width * (at - curves.start) / span, 1), clock_label(at))
        for at in clock_marks(curves.start, curves.start + span)
    )
    up = tuple((y(value), number(value).beside or plain(value)) for value in _number_marks(least, most))
    return CurvePlot(WIDTH, HEIGHT, LEFT, bottom, tuple(lines), tuple(slots), across, up)


def clock_label(at: int) -> str:
    """Returns an instant (ns) as a mark of an axis: the day, and the time of day unless it is midnight.

    Example:
        >>> clock_label(0), clock_label(90_061 * SECOND)
        ('1 Jan 1970', '2 Jan 01:01:01')
    """
    text = spoken_instant(at).removesuffix(" UTC")
    if at % DAY == 0:
        return text.partition(",")[0]
    return re.sub(r" \d{4},", "", text)


def clock_marks(start: int, end: int) -> list[int]:
    """Returns round instants in [start, end), ns.

    Example:
        >>> [at // HOUR for at in clock_marks(21 * HOUR, 45 * HOUR)]
        [24, 30, 36, 42]
    """
    steps = [*CLOCK_STEPS, *HOUR_STEPS]
    step = next((step for step in steps if (end - start) / step <= MARKS), -(-(end - start) // MARKS))
    return list(range(-(-start // step) * step, end, step))


def _number_marks(least: float, most: float) -> list[float]:
    """Returns round numbers from the least value to the largest one: multiples of 1, 2 or 5 times a power of ten.

    Example:
        >>> _number_marks(-300, 2095)
        [0.0, 500.0, 1000.0, 1500.0, 2000.0]
    """
    power = 10.0 ** math.floor(math.log10((most - least) / MARKS))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if (most - least) / step <= MARKS)
    return [at * step for at in range(math.ceil(least / step), math.floor(most / step) + 1)]
