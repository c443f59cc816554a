"""Formats the measures of a frame for messages and pages.

Every expectation and every page uses it. The name of a column tells whether it holds a share, a duration or a count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lowwater.instants import SECOND, format_duration

_SHARES = ("_share", "_drift", "_warning", "_critical")
_COLUMN, _PART = re.compile(r"\{(\w+):?([\w ]*)\}"), re.compile(r"\[([^][]*)\]")


def count(number: int, noun: str = "") -> str:
    """Formats a number with its noun in singular or plural.

    Example:
        >>> count(1000, "record"), count(1, "row"), count(2, "query"), count(12_345)
        ('1,000 records', '1 row', '2 queries', '12,345')
    """
    text = f"{number:,}"
    if not noun or abs(number) == 1:
        return f"{text} {noun}".strip()
    return f"{text} {noun[:-1]}ies" if noun.endswith("y") else f"{text} {noun}s"


def percent(share: float) -> str:
    """Formats a share in per cent, with four digits.

    Example:
        >>> percent(0.12), percent(0.000123456)
        ('12%', '0.01235%')
    """
    return f"{share * 100:.4g}%"


def span(duration: int) -> str:
    """Formats a duration (ns); above a second it is rounded to milliseconds.

    Example:
        >>> span(20_000_000_000), span(1_201_234_567_890), span(1_500_000), span(0)
        ('20s', '1,201.235s', '1.5ms', '0s')
    """
    if duration > SECOND and duration % SECOND:
        return f"{duration / SECOND:,.3f}".rstrip("0").rstrip(".") + "s"
    return format_duration(duration)


def label(column: str) -> str:
    """Returns the heading of a column.

    Example:
        >>> label("gap_ns"), label("violating_share"), label("not_owned")
        ('gap', 'violating share', 'not owned')
    """
    return column.removesuffix("_ns").replace("_", " ")


def shown(column: str, value: Any) -> str:
    """Formats a value by the name of its column.

    Example:
        >>> shown("gap_ns", 5_000_000_000), shown("failed_share", 0.5), shown("read", 1000), shown("link", "main1")
        ('5s', '50%', '1,000', 'main1')
        >>> shown("volume", None)
        'not covered'
    """
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return "not covered"
    if column.endswith("_ns"):
        return span(int(value))
    return percent(value) if column.endswith(_SHARES) else count(value)


def filled(text: str, row: Mapping[str, Any]) -> str:
    """Fills the columns of a row into a text: `{read}`, or `{read:record}` with a noun. A part in brackets is left out
    where one of its columns is 0, empty or NULL.

    Example:
        >>> filled("{gap_ns} missing[; first: {first}]", {"gap_ns": 5_000_000_000, "first": ""})
        '5s missing'
        >>> filled("{read:record}[; first: {first}]", {"read": 1, "first": "a"})
        '1 record; first: a'
    """

    def part(match: re.Match[str]) -> str:
        return "" if any(not row[name] for name, _ in _COLUMN.findall(match[1])) else match[1]

    def value(match: re.Match[str]) -> str:
        found = row[match[1]]
        return count(found, match[2]) if match[2] else shown(match[1], found)

    return _COLUMN.sub(value, _PART.sub(part, text))
