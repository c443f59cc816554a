"""The calendar in UTC, of instants in microseconds: months, quarters and years, and what `date_part` gives.

Beside the expressions, as `localdays`. The functions of periods take Python integers of any size, and arrays of numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DAY = 86_400_000_000
"""Microseconds of a day; each period begins at a multiple of it."""

MONTHS = {"month": 1, "quarter": 3, "year": 12}
"""Period whose length is uneven -> its months."""


def date(days: Any) -> tuple[Any, Any, Any]:
    """Returns year, month and day of the month of a number of days since 1970-01-01.

    Example:
        >>> date(0), date(-1), date(19_782)
        ((1970, 1, 1), (1969, 12, 31), (2024, 2, 29))
    """
    # Years begin in March here, so that the leap day is the last one; an era has 400 years.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    rest = day - (365 * year + year // 4 - year // 100)
    month = (5 * rest + 2) // 153
    return year + 400 * era + month // 10, month + 3 - 12 * (month // 10), rest - (153 * month + 2) // 5 + 1


def _first_day(months: Any) -> Any:
    """The first day, since 1970-01-01, of a month that is counted from that of the year 0."""
    era, year = divmod(months // 12 - (months % 12 < 2), 400)
    return 146_097 * era + 365 * year + year // 4 - year // 100 + (153 * ((months + 10) % 12) + 2) // 5 - 719_468


def begin(value: Any, months: int, later: int = 0) -> Any:
    """Returns the begin of the period of so many months in which an instant lies, or of one that is `later` periods on.

    Example:
        >>> begin(45 * DAY, 1) // DAY, begin(45 * DAY, 12, later=1) // DAY
        (31, 365)
    """
    year, month, _ = date(value // DAY)
    return DAY * _first_day(((12 * year + month - 1) // months + later) * months)


def last(value: Any, months: int) -> Any:
    """Returns the last instant whose period begins at `value` or before."""
    return begin(value, months, later=1) - 1


def first(value: Any, months: int) -> Any:
    """Returns the first instant whose period begins at `value` or later."""
    return begin(value - 1, months, later=1)


def _week(days: int) -> tuple[int, int]:
    """The year and number of the week of ISO 8601: it belongs to the year of its Thursday."""
    thursday = days - (days + 3) % 7 + 3
    year = date(thursday)[0]
    return year, (thursday - _first_day(12 * year)) // 7 + 1


PARTS: dict[str, Callable[[int], int]] = {
    "year": lambda days: int(date(days)[0]),
    "quarter": lambda days: (int(date(days)[1]) + 2) // 3,
    "month": lambda days: int(date(days)[1]),
    "day": lambda days: int(date(days)[2]),
    "doy": lambda days: int(days - _first_day(12 * date(days)[0])) + 1,
    "dow": lambda days: (days + 4) % 7,
    "isodow": lambda days: (days + 3) % 7 + 1,
    "week": lambda days: _week(days)[1],
    "isoyear": lambda days: _week(days)[0],
}
"""Part of a date -> its value of the days since 1970-01-01, numbered as DuckDB does: `dow` is 0 on Sundays."""


def part(name: str, value: int) -> int:
    """Returns a part of the date of an instant.

    Example:
        >>> part("week", 0), part("isodow", -1), part("doy", 31 * DAY)
        (1, 3, 32)
    """
    return PARTS[name](value // DAY)


def period(name: str, value: int) -> int:
    """Returns the begin of the month, quarter or year of an instant."""
    return int(begin(value, MONTHS[name]))
