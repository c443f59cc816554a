"""The units of time: how durations are written, in windows and beside columns.

Below `words`, which tells a unit behind a number from a name.
"""

from __future__ import annotations

from fractions import Fraction

SECOND = 1_000_000_000
UNITS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * SECOND),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * SECOND),
    **dict.fromkeys(("d", "day", "days"), 86400 * SECOND),
}
"""Unit, in lower case -> ns."""


def nanoseconds(value: int | float, unit: str) -> Fraction:
    """A duration as it is written, exactly: 0.1 is a tenth.

    Example:
        >>> nanoseconds(0.1, "US")
        Fraction(100, 1)
    """
    return Fraction(repr(value)) * UNITS[unit.lower()]


def unit_name(length: Fraction | int) -> str:
    """The plural of a unit of so many ns, empty where it has no name.

    Example:
        >>> unit_name(1_000)
        'microseconds'
    """
    return max((name for name, each in UNITS.items() if each == length), key=len, default="")
