"""Words of time of SQL: time_bucket, date_trunc, date_part and its spelling EXTRACT, and CAST to TIMESTAMP.

Called by `expressions` where no function of a user has the name. Buckets and parts of a day become arithmetic
(`plan.buckets`), months and dates become calls of the catalog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.catalog import expr as ex, functions, periods
from lowwater.catalog.builtin.numbers import DATE_PART, DATE_TRUNC
from lowwater.gsql import nodes as syntax
from lowwater.gsql.printer import print_expression
from lowwater.plan import buckets
from lowwater.plan.bind.durations import Units, length_of, unit_in
from lowwater.plan.text import Text, place_of


@dataclass(frozen=True)
class Word:
    """A word of time."""

    count: int  # of its arguments
    form: str  # how it is written
    meaning: str


WORDS = {
    "time_bucket": Word(2, "time_bucket(INTERVAL '10 minutes', timestamp)", "the instant at which its bucket begins"),
    "date_trunc": Word(2, "date_trunc('hour', timestamp)", "the begin of its hour, day, week, month, ..., an instant"),
    "date_part": Word(2, "extract(hour FROM timestamp)", "the number of its hour, day, month, ..., in UTC"),
    "to_timestamp": Word(1, "CAST(timestamp AS TIMESTAMP)", "the instant of a column of time"),
}
"""Word in lower case -> what it is."""


def parts(word: str, node: syntax.Call, text: Text) -> tuple[syntax.Expression, syntax.Expression | None]:
    """Returns the time of a call, and what it is cut by: a duration, or the name of a period or part. A bucket takes
    both in either order. Raises QueryError if the call is none of these."""
    count, form = WORDS[word].count, WORDS[word].form
    if len(node.arguments) != count:
        raise text.error(node.place, f"{node.name} takes {count} argument{'s' * (count > 1)}", f"write {form}")
    if count == 1:
        return node.arguments[0], None
    first, second = node.arguments
    if word == "time_bucket" and length_of(second) is not None:
        first, second = second, first
    if word == "time_bucket" and length_of(first) is None:
        raise text.error(node.place, "the width of a bucket is a duration", f"write {form}")
    return second, first


def bind(
    word: str, node: syntax.Call, cut: syntax.Expression | None, time: ex.Expr, units: Units, text: Text
) -> ex.Expr:
    """Binds a call. Raises QueryError if the unit of the time is not known, or the width or word is none that it takes.

    Args:
        cut: what `parts` gave.
        time: the bound time.
        units: those of the columns.
    """
    unit = unit_in(time, units)
    shown = next(print_expression(each) for each in node.arguments if each is not cut)
    if time.type not in (ex.Type.INT, ex.Type.INSTANT) or unit is None:
        said = f"of type {time.type}" if time.type is not ex.Type.INT else "a number whose unit is not known"
        hint = "give it a column of time, such as timestamp (nanoseconds), timestamp_us or time (seconds)"
        raise text.error(node.place, f"{shown} is no time: it is {said}", hint)
    if word == "to_timestamp":
        return buckets.moment(time, unit)
    assert cut is not None
    if word == "time_bucket":
        return buckets.bucket(time, unit, _width(cut, text))
    name = _name(word, cut, text)
    if word == "date_trunc" and name in buckets.WIDTHS:
        return buckets.bucket(time, unit, buckets.WIDTHS[name])
    if word == "date_part" and (name == "epoch" or name in buckets.PARTS):
        return buckets.part(buckets.moment(time, unit), name)
    # The calendar is asked for days: there are few of them, and each is computed once.
    function = DATE_TRUNC if word == "date_trunc" else DATE_PART
    known = buckets.written(time)
    is_day = known is not None and known[:2] == ("time_bucket", periods.DAY)
    arguments = ex.Const(ex.Type.STRING, name), time if is_day else buckets.bucket(time, unit, periods.DAY)
    place = (node.place.line, node.place.column)
    return ex.Call(function.returns, function, arguments, place)


def _width(node: syntax.Expression, text: Text) -> int:
    length = length_of(node)
    assert length is not None
    width = length / 1000
    if width.denominator != 1 or not 0 < width <= buckets.WIDEST:
        days = buckets.WIDEST // periods.DAY
        hint = f"write a whole number of microseconds, at most {days:,} days; date_trunc('month', t) cuts by months"
        raise text.error(place_of(node), f"{print_expression(node)} is no width of a bucket", hint)
    return int(width)


def _name(word: str, node: syntax.Expression, text: Text) -> str:
    name = str(node.value).lower() if isinstance(node, syntax.Literal) and node.kind == "string" else ""
    known: Sequence[str] = (
        (*buckets.WIDTHS, *periods.MONTHS) if word == "date_trunc" else ("epoch", *buckets.PARTS, *periods.PARTS)
    )
    limit = functions.one_of(known)
    if not limit.admits(name):
        raise text.error(place_of(node), f"{word} takes {limit.says}", limit.advice(name))
    return name
