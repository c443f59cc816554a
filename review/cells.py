"""Values of rows as people read them: the exact value, and beside it the name of a number, an instant, a size."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lowwater.plan.readings import Cell, Cells


def row_cells(cells: Cells, row: Mapping[str, Any]) -> list[Cell]:
    """Returns the cells of a row."""
    return [cells(name, value) for name, value in row.items()]


def named_text(cell: Callable[[Any], Cell], text: str) -> str:
    """Returns a value that a query of the rows gave as text with what is read beside it, such as `6 TCP`."""
    return f"{text} {cell(int(text)).beside}".rstrip() if re.fullmatch(r"-?\d{1,18}", text) else text


def plain(value: float) -> str:
    """Writes a number with separators and without an exponent, as long as it has at most fifteen digits.

    Example:
        >>> plain(4_806_840.0), plain(0.25), plain(1234.5678), plain(1e300)
        ('4,806,840', '0.25', '1,234.57', '1e+300')
    """
    if abs(value) < 1e15 and (value == int(value) or abs(value) >= 1e5):
        return f"{round(value):,}"
    return f"{value:,.6g}"


def read_number(cells: Callable[[Any], Cell], value: float) -> str:
    """Writes a number of a plot, and in brackets what is read beside it, such as `4,806,840 (4.81 MB)`."""
    beside = cells(value).beside
    return f"{plain(value)} ({beside})" if beside else plain(value)
