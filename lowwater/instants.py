"""Parsing and formatting of durations and instants. Both are numbers of ns; instants count from the Unix epoch.

Below `config`: settings, command line options and messages share one form.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from fractions import Fraction

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
WEEK = 7 * DAY
LONGEST = 100 * 366 * DAY
"""The longest duration: instants of this time plus some of them are still 64-bit numbers."""
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": SECOND, "sec": SECOND, "second": SECOND, "m": 60 * SECOND}
_UNITS |= {"min": 60 * SECOND, "minute": 60 * SECOND, "h": HOUR, "hour": HOUR, "d": DAY, "day": DAY}
_UNITS |= {f"{name}s": _UNITS[name] for name in ("sec", "second", "min", "minute", "hour", "day")}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(value: object) -> int:
    """Parses a duration: a number of seconds, or a text such as "1s", "500ms", "10 min", "1.5h".

    Returns:
        Nanoseconds.

    Raises:
        ValueError: if it is no duration, is negative, is no whole number of nanoseconds, or is longer than LONGEST.

    Example:
        >>> parse_duration("500ms"), parse_duration("10 min"), parse_duration(0.5)
        (500000000, 600000000000, 500000000)
    """
    text = str(value).strip().lower()
    match = _DURATION.fullmatch(text)
    unit = match.group(2) or "s" if match else ""
    if isinstance(value, bool) or match is None or unit not in _UNITS:
        raise ValueError(f'{value!r} is no duration; write for example "1s", "500ms", "10 min" or "1h"')
    nanoseconds = Fraction(match.group(1)) * _UNITS[unit]
    if nanoseconds.denominator != 1:
        raise ValueError(f"{value!r} is finer than a nanosecond")
    if nanoseconds > LONGEST:
        raise ValueError(f"{value!r} is longer than 100 years")
    return int(nanoseconds)


def parse_instant(value: object) -> int:
    """Parses an instant in ISO 8601; without an offset it is UTC.

    Returns:
        Nanoseconds since the epoch.

    Raises:
        ValueError: if it is no instant, or before 1970.

    Example:
        >>> parse_instant("1970-01-01T00:00:01.5Z"), parse_instant("1970-01-02")
        (1500000000, 86400000000000)
    """
    text = value.isoformat() if isinstance(value, date) else str(value).strip()
    match = _INSTANT.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone or 'Z'}")
    except ValueError:
        raise ValueError(f'{value!r} is no instant; write for example "2026-01-31T13:00:00Z"') from None
    since = moment - _EPOCH
    instant = (since.days * 86400 + since.seconds) * SECOND + int((fraction or "0").ljust(9, "0"))
    if instant < 0:
        raise ValueError(f"{value!r} is before 1970")
    return instant


def parse_span(value: object) -> tuple[int, int]:
    """Parses FROM/TO, two instants as in `parse_instant`. Returns nanoseconds since the epoch; the first is smaller
    than the second.
    Raises ValueError if it has another form, or ends before it begins."""
    begin, mark, end = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not mark:
        raise ValueError(f"{value!r} is not of the form FROM/TO")
    span = parse_instant(begin), parse_instant(end)
    if span[0] >= span[1]:
        raise ValueError(f"{value!r} ends before it begins")
    return span


def meets(start: int, end: int, since: int | None, until: int | None) -> bool:
    """Whether [start, end) has an instant of [since, until), ns; a bound that is None is none."""
    return (since is None or end > since) and (until is None or start < until)


def format_instant(instant: int) -> str:
    """Formats an instant (ns since the epoch) in ISO 8601, UTC, with as few digits as possible.

    Example:
        >>> format_instant(1_500_000_000)
        '1970-01-01T00:00:01.5Z'
    """
    seconds, rest = divmod(instant, SECOND)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError):  # only a broken clock gives an instant beyond the calendar: show the number
        return f"{instant} ns"
    return f"{text}.{rest:09d}".rstrip("0") + "Z" if rest else f"{text}Z"


def format_moment(value: int) -> str:
    """Formats an instant in us, as `format_instant` does.

    Example:
        >>> format_moment(1_500_000)
        '1970-01-01T00:00:01.5Z'
    """
    return format_instant(value * 1000)


def parse_moment(text: str) -> int:
    """Parses an instant in us, as `parse_instant` does. Raises ValueError if the text is none, is before 1970, or has a
    part of a microsecond."""
    moment, rest = divmod(parse_instant(text), 1000)
    if rest:
        raise ValueError(f"{text!r} has a part of a microsecond")
    return moment


def range_words(start: int, end: int, intervals: int) -> str:
    """Names an interval by its begin, and a stretch by its begin, end (ns) and number of intervals.

    Example:
        >>> range_words(0, 3600 * 10**9, 1), range_words(0, 7200 * 10**9, 2)
        ('1970-01-01T00:00:00Z', '1970-01-01T00:00:00Z to 1970-01-01T02:00:00Z (2 intervals)')
    """
    begin = format_instant(start)
    return begin if intervals == 1 else f"{begin} to {format_instant(end)} ({intervals:,} intervals)"


def format_duration(duration: int) -> str:
    """Formats a duration (ns) exactly: in whole hours or minutes, else in the largest unit that gives at least one.

    Example:
        >>> format_duration(90_000_000_000), format_duration(1_500_000_000), format_duration(2_000)
        ('90s', '1.5s', '2us')
    """
    for unit in ("h", "min"):
        if duration and duration % _UNITS[unit] == 0:
            return f"{duration // _UNITS[unit]}{unit}"
    for unit in ("s", "ms", "us", "ns"):
        whole, rest = divmod(duration, _UNITS[unit])
        if whole:
            digits = len(str(_UNITS[unit])) - 1
            return f"{whole}.{rest:0{digits}d}".rstrip("0") + unit if rest else f"{whole}{unit}"
    return "0s"


def spoken_instant(instant: int) -> str:
    """Formats an instant (ns since the epoch) for people: day, time and zone; seconds only where they are not 0.

    Example:
        >>> spoken_instant(1_500_000_000), spoken_instant(HOUR)
        ('1 Jan 1970, 00:00:01 UTC', '1 Jan 1970, 01:00 UTC')
    """
    try:
        moment = datetime.fromtimestamp(instant // SECOND, UTC)
    except (OverflowError, ValueError):  # an instant beyond the calendar
        return format_instant(instant)
    return f"{moment.day} {moment:%b %Y, %H:%M}{f':{moment:%S}' if moment.second else ''} UTC"


def spoken_span(start: int, end: int) -> str:
    """Formats a range of instants (ns since the epoch) for people; names the day once if both are of one day.

    Example:
        >>> spoken_span(0, HOUR), spoken_span(23 * HOUR, 25 * HOUR)
        ('1 Jan 1970, 00:00 to 01:00 UTC', '1 Jan 1970, 23:00 to 2 Jan 1970, 01:00 UTC')
    """
    first, last = spoken_instant(start).removesuffix(" UTC"), spoken_instant(end)
    day, _, clock = last.partition(", ")
    return f"{first} to {clock}" if clock and first.startswith(f"{day}, ") else f"{first} to {last}"


def spoken_duration(duration: int) -> str:
    """Formats a duration (ns) for people: three digits, or hours, minutes and seconds.

    Example:
        >>> spoken_duration(19_412_345_678), spoken_duration(5_400 * SECOND), spoken_duration(1_234), spoken_duration(0)
        ('19.4 s', '1 h 30 min', '1.23 µs', '0 s')
    """
    if duration < 0:
        return f"-{spoken_duration(-duration)}"
    if duration < 60 * SECOND:
        unit = next((unit for unit in ("s", "ms", "us", "ns") if duration >= _UNITS[unit]), "s")
        return f"{duration / _UNITS[unit]:.3g} {unit.replace('u', 'µ')}"
    seconds = round(duration / SECOND)
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s")]
    return " ".join(f"{number} {unit}" for number, unit in [part for part in parts if part[0]][:2])
