"""Buckets of time and parts of a day as arithmetic, which every engine and the planner have (SEMANTICS V6).

Called by the binder; EXPLAIN asks `written` for the words back.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from lowwater.catalog import expr as ex, periods

ORIGIN = 946_857_600_000_000
"""Monday 2000-01-03, in us: buckets are counted from it, as in DuckDB, so that those of weeks begin on Mondays."""

WIDTHS = {
    "microsecond": 1,
    "microseconds": 1,
    "millisecond": 1_000,
    "milliseconds": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": periods.DAY,
    "week": 7 * periods.DAY,
}
"""Word of `date_trunc` -> its width in us. Other periods are uneven."""

PARTS = {
    "hour": (3_600_000_000, 24),
    "minute": (60_000_000, 60),
    "second": (1_000_000, 60),
    "millisecond": (1_000, 60_000),
    "milliseconds": (1_000, 60_000),
    "microsecond": (1, 60_000_000),
    "microseconds": (1, 60_000_000),
}
"""Part of a day -> its unit in us, and the number of its values."""

WIDEST = 10_000 * periods.DAY
"""The widest bucket, in us: wider ones have no place in 64 bits."""

_REACH = 1 << 61
"""Units by which a value is moved at least before it is divided: division truncates toward zero (V2)."""


def moment(value: ex.Expr, unit: Fraction) -> ex.Expr:
    """Returns the instant of a time. `unit`: of the time, in ns."""
    if value.type is ex.Type.INSTANT:
        return value
    scale = unit / 1000
    if scale.denominator == 1:
        return ex.Binary(ex.Type.INSTANT, "*", value, _number(scale.numerator))
    finer = value if scale.numerator == 1 else ex.Binary(ex.Type.INT, "*", value, _number(scale.numerator))
    return ex.Binary(ex.Type.INSTANT, "/", finer, _number(scale.denominator))


def bucket(value: ex.Expr, unit: Fraction, width: int) -> ex.Expr:
    """Returns the begin of the bucket of a time, counted from ORIGIN. `unit`: of the time, in ns. `width`: in us, at
    most WIDEST."""
    if unit >= 1000 or 1000 % unit:
        value, unit = moment(value, unit), Fraction(1000)
    count, shift, less = _numbers(unit, width)
    moved = ex.Binary(ex.Type.INSTANT, "+", value, _number(shift))
    number = ex.Binary(ex.Type.INSTANT, "/", moved, _number(count))
    return ex.Binary(ex.Type.INSTANT, "-", ex.Binary(ex.Type.INSTANT, "*", number, _number(width)), _number(less))


def _numbers(unit: Fraction, width: int) -> tuple[int, int, int]:
    """Units of a bucket, units that are added before the division, and us that are taken off behind it."""
    count = int(width * 1000 / unit)
    shift = -(-_REACH // count) * count - int(ORIGIN * 1000 / unit) % count
    return count, shift, int(shift * unit / 1000)


def part(value: ex.Expr, name: str) -> ex.Expr:
    """Returns a part of the day of an instant; of `epoch` the seconds since 1970, with a fraction."""
    if name == "epoch":
        return ex.Binary(ex.Type.FLOAT, "/", value, ex.Const(ex.Type.FLOAT, 1e6))
    unit, values = PARTS[name]
    number = ex.Binary(ex.Type.INSTANT, "/", ex.Binary(ex.Type.INSTANT, "+", value, _number(_DAYS)), _number(unit))
    return ex.Binary(ex.Type.INT, "%", number, _number(values))


_DAYS = -(-_REACH // periods.DAY) * periods.DAY


def _number(value: int) -> ex.Const:
    return ex.Const(ex.Type.INT, value)


def written(expr: ex.Expr) -> tuple[str, int | str, ex.Expr] | None:
    """Returns what an expression of this module was: the word, the width in us or the name of the part (empty if it has
    neither), and the time. None for any other expression.

    Example:
        >>> stamp = ex.Column(ex.Type.INT, "timestamp")
        >>> written(bucket(stamp, Fraction(1), 60_000_000)) == ("time_bucket", 60_000_000, stamp)
        True
    """
    match list(_spine(expr, 4)):
        case [("-", less), ("*", width), ("/", count), ("+", shift), ex.Expr() as inner] if count:
            fits = width * 1000 % count == 0 and _numbers(Fraction(width * 1000, count), width) == (count, shift, less)
            return ("time_bucket", width, inner) if fits else None
    match list(_spine(expr, 3)):
        case [("%", values), ("/", unit), ("+", days), ex.Expr() as inner] if days == _DAYS:
            name = next((name for name, known in PARTS.items() if known == (unit, values)), "")
            return ("date_part", name, inner) if name else None
    if isinstance(expr, ex.Binary) and expr == part(expr.left, "epoch"):
        return "date_part", "epoch", expr.left
    if isinstance(expr, ex.Binary) and expr.type is ex.Type.INSTANT and expr.op in ("/", "*"):
        return "to_timestamp", "", expr.left
    return None


def _spine(expr: ex.Expr, most: int) -> Iterator[tuple[str, int] | ex.Expr]:
    """Yields operators with an integer constant on the right, from the outermost on, then the rest."""
    for _ in range(most):
        by = expr.right if isinstance(expr, ex.Binary) else None
        if not (isinstance(expr, ex.Binary) and isinstance(by, ex.Const) and type(by.value) is int and not by.param):
            break
        yield expr.op, by.value
        expr = expr.left
    yield expr
