"""Draws a number by one column as bars, and by two, or by day and hour, as a grid of shades; each leads to its rows.

Beside `curve_drawing`. The template escapes names; Python computes numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowwater.instants import DAY, format_instant
from lowwater.lake.results.exploring import Grid
from lowwater.plan.readings import Cell

from ..cells import plain, read_number

BAR = 400
"""Width of the longest bar, in units of the view box."""
LEFT, WIDE, HIGH = 150, 44, 20
"""Room for the names of rows, width and height of a field."""
SHADES = 5
LONGEST = 20
"""Most characters of a name; the list below has all of them."""

Named = Callable[[str], str]
"""Shows a value of a column with its name, such as `6 TCP`."""
Address = Callable[[int, int], str]
"""(place of a row, place of a column) -> address of the rows behind it."""


@dataclass(frozen=True)
class GridBar:
    """A value of the column: its name, its bar, its value, and the address of its rows."""

    name: str
    x: float
    width: float
    value: Cell
    address: str


@dataclass(frozen=True)
class Field:
    """A field of a grid; `shade` is 0 for nothing, else 1 to SHADES."""

    x: int
    y: int
    shade: int
    text: str
    address: str


@dataclass(frozen=True)
class GridPlot:
    """A grid: names of rows by their y, of columns by their x, and its fields; `least` and `most` are of its values."""

    width: int
    height: int
    top: int
    rows: tuple[tuple[int, str], ...]
    columns: tuple[tuple[int, str], ...]
    fields: tuple[Field, ...]
    least: str
    most: str


def day_of(number: str) -> int:
    """Returns the begin of a day by its number since 1970, ns."""
    return int(number) * DAY


def day_name(number: str) -> str:
    """Returns a day by its number since 1970, as a date."""
    return format_instant(day_of(number))[:10]


def draw_bars(grid: Grid, number: Callable[[Any], Cell], named: Named, address: Address) -> tuple[GridBar, ...]:
    """Draws the values of one column, the largest first; a value that is not known has no bar."""
    known = [value for value in grid.values.values() if value is not None]
    least, most = min([0.0, *known]), max([0.0, *known])
    scale = BAR / (most - least) if most > least else 0.0
    bars = []
    for at, name in enumerate(grid.rows):
        value = grid.values.get((at, 0))
        if value is None:
            bars.append(GridBar(named(name), 0.0, 0.0, Cell(grid.absent[at, 0]), address(at, 0)))
            continue
        left = (min(value, 0.0) - least) * scale
        shown = Cell(plain(value), number(value).beside)
        bars.append(GridBar(named(name), round(left, 2), round(abs(value) * scale, 2), shown, address(at, 0)))
    return tuple(bars)


def draw_grid(grid: Grid, number: Callable[[Any], Cell], row: Named, column: Named, address: Address) -> GridPlot:
    """Draws the values of two columns as shades, on a logarithmic scale where they span more than two decades."""
    known = [value for value in grid.values.values() if value is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    is_log = least > 0 and most > 100 * least

    def shade(value: float) -> int:
        low, high, at = (math.log(each) for each in (least, most, value)) if is_log else (min(0.0, least), most, value)
        return 1 + min(SHADES - 1, int(SHADES * (at - low) / (high - low))) if high > low else SHADES

    top = 20 + 5 * max((len(short(column(name))) for name in grid.columns), default=0)
    fields = []
    for (at, beyond), value in sorted(grid.values.items()):
        text = f"{row(grid.rows[at])}, {column(grid.columns[beyond])}: "
        text += grid.absent[at, beyond] if value is None else read_number(number, value)
        place = LEFT + beyond * WIDE, top + at * HIGH
        fields.append(Field(*place, 0 if value is None else shade(value), text, address(at, beyond)))
    return GridPlot(
        LEFT + WIDE * len(grid.columns) + 60,
        top + HIGH * len(grid.rows) + 10,
        top,
        tuple((top + HIGH * at + 14, short(row(name))) for at, name in enumerate(grid.rows)),
        tuple((LEFT + WIDE * at + WIDE // 2, short(column(name))) for at, name in enumerate(grid.columns)),
        tuple(fields),
        read_number(number, least),
        read_number(number, most),
    )


def short(name: str) -> str:
    """Returns a name, shortened where there is no room for it."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
