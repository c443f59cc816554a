"""Draws a number over time as lines of an SVG: scales, points, marks, and a place to click for each part of time.

Beside `drawing`. The template escapes names; Python computes numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowwater.instants import spoken_instant
from lowwater.lake.results.curves import Curves

WIDTH, HEIGHT, LEFT, BOTTOM = 1100, 280, 80, 34
MARKS = 5


@dataclass(frozen=True)
class Line:
    """A series: its name, the path of its line, and its sum."""

    name: str
    path: str
    total: str


@dataclass(frozen=True)
class Slot:
    """A part of time: its place, its tooltip, and the address of its rows."""

    x: float
    width: float
    text: str
    address: str


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


def draw_curves(curves: Curves, address: Callable[[int, int], str]) -> CurvePlot | None:
    """Draws the series of a plot; None without values.

    Args:
        curves: the series.
        address: (start, end) of a part of time, ns -> address of its rows.
    """
    parts = len(curves.curves[0].values) if curves.curves else 0
    most = max((value for curve in curves.curves for value in curve.values), default=0.0)
    least = min(0.0, min((value for curve in curves.curves for value in curve.values), default=0.0))
    if not parts or most <= least:
        return None
    bottom = HEIGHT - BOTTOM
    step = (WIDTH - LEFT - 10) / parts

    def y(value: float) -> float:
        return round(bottom - (bottom - 12) * (value - least) / (most - least), 1)

    lines = []
    for curve in curves.curves:
        points = [
            f"{LEFT + at * step:.1f} {y(value)} {LEFT + (at + 1) * step:.1f} {y(value)}"
            for at, value in enumerate(curve.values)
        ]
        lines.append(Line(curve.name, f"M{' L'.join(points)}", f"{sum(curve.values):,.6g}"))
    slots = []
    for at in range(parts):
        begin = curves.start + at * curves.step
        largest = max(curves.curves, key=lambda curve: curve.values[at])
        total = sum(curve.values[at] for curve in curves.curves)
        text = f"{spoken_instant(begin)}: {total:,.6g} in all, most {largest.name}"
        slots.append(Slot(round(LEFT + at * step, 1), round(step, 2), text, address(begin, begin + curves.step)))
    across = tuple(
        (
            round(LEFT + (WIDTH - LEFT - 10) * at / MARKS, 1),
            spoken_instant(curves.start + curves.step * parts * at // MARKS),
        )
        for at in range(MARKS)
    )
    up = tuple((y(least + (most - least) * at / 4), f"{least + (most - least) * at / 4:,.4g}") for at in range(5))
    return CurvePlot(WIDTH, HEIGHT, LEFT, bottom, tuple(lines), tuple(slots), across, up)
