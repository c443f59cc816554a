"""Units of time, for durations in queries and windows.

Below `words`, which distinguishes a unit behind a number from a name.
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
"""Name of a unit, in lower case -> its length, ns."""


def nanoseconds(value: int | float, unit: str) -> Fraction:
    """Returns a duration in ns, exactly: 0.1 is a tenth, not the nearest float.

    Args:
        value: the number of units, as written.
        unit: a key of UNITS, in any case.

    Example:
        >>> nanoseconds(0.1, "US")
        Fraction(100, 1)
    """
    return Fraction(repr(value)) * UNITS[unit.lower()]


def unit_name(length: Fraction | int) -> str:
    """Returns the plural name of the unit of this length; empty if no unit has it.

    Args:
        length: the length of the unit, ns.

    Example:
        >>> unit_name(1_000)
        'microseconds'
    """
    return max((name for name, unit in UNITS.items() if unit == length), key=len, default="")
