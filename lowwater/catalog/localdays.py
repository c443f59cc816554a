"""Days of the local calendar of a time zone, as a function of the clock that never goes back.

Beside the expressions: the value of `local_day` here, and its inverse for the planner and the engines. The value at an
instant is the latest local date that has begun at it or before, in days since 1970-01-01. So where clocks are set back
over midnight, the hour that comes twice belongs to the later day; and a date that a zone leaves out has no instant.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from math import gcd
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

DAY = 86400
_FIRST, _LAST = -2, 53_378
"""Days of the table: all that the clock can have (SEMANTICS T3). Before and after it every day has 24 hours."""


@lru_cache
def zone_names() -> frozenset[str]:
    """The time zones of the tz database, without the machine's own."""
    return frozenset(available_timezones() - {"localtime"})


class LocalDays:
    """The days of a zone: when each begins, in seconds since the epoch.

    Attributes:
        begins: when the days from `_FIRST` on begin. A day that the zone leaves out begins with the next one.
    """

    def __init__(self, zone: str) -> None:
        clock = ZoneInfo(zone)

        def offset(second: int) -> int:
            shift = datetime.fromtimestamp(second, clock).utcoffset()
            assert shift is not None
            return shift.days * DAY + shift.seconds

        days = np.arange(_FIRST - 1, _LAST + 2, dtype=np.int64)
        offsets = [offset(day * DAY) for day in days.tolist()]
        before, at, after = (np.array(offsets[start : len(offsets) - 2 + start]) for start in range(3))
        self.begins: Integers = days[1:-1] * DAY - at
        for index in np.flatnonzero((before != at) | (at != after)).tolist():
            self.begins[index] = _begin(int(days[index + 1]) * DAY, offset)

    def values(self, seconds: Integers) -> Integers:
        places = np.searchsorted(self.begins, seconds, "right")
        inside = places + (_FIRST - 1)
        early = _FIRST + (np.minimum(seconds, self.begins[0]) - self.begins[0]) // DAY
        late = _LAST + (np.maximum(seconds, self.begins[-1]) - self.begins[-1]) // DAY
        return np.where(places == 0, early, np.where(places == len(self.begins), late, inside))

    def firsts(self, days: Integers) -> Integers:
        inside = np.clip(days, _FIRST, _LAST)
        return self.begins[inside - _FIRST] + (days - inside) * DAY

    def lasts(self, days: Integers) -> Integers:
        return self.firsts(days + 1) - 1

    def value(self, second: int) -> int:
        """The day of an instant, without a bound of 64 bits."""
        early, late = (int(self.begins[index]) for index in (0, -1))
        if second < early:
            return _FIRST + (second - early) // DAY
        if second >= late:
            return _LAST + (second - late) // DAY
        return int(np.searchsorted(self.begins, second, "right")) + _FIRST - 1

    def first(self, day: int) -> int:
        """The first second of a day, without a bound of 64 bits."""
        inside = min(max(day, _FIRST), _LAST)
        return int(self.begins[inside - _FIRST]) + (day - inside) * DAY

    def last(self, day: int) -> int:
        return self.first(day + 1) - 1

    @cached_property
    def grain(self) -> int:
        """The greatest number of seconds that divides the beginnings of all days."""
        return gcd(*self.begins.tolist())

    @cached_property
    def digest(self) -> str:
        """Identifies the days; it changes with the rules of the zone in the tz database."""
        return hashlib.sha256(self.begins.astype("<i8").tobytes()).hexdigest()


@lru_cache(16)
def local_days(zone: str) -> LocalDays:
    """The days of a zone, computed once: 20 ms."""
    return LocalDays(zone)


def _begin(midnight: int, offset: Callable[[int], int]) -> int:
    """The first second with a date, searched where the clocks are set within a day of it.

    Args:
        midnight: when the date begins in UTC.
        offset: what the zone adds to UTC at a second; it changes at most once in each half.
    """
    start = midnight - DAY
    for half in (midnight, midnight + DAY):
        # The change is the first second in (start, half] with the offset of `half`.
        change = bisect_left(range(start, half + 1), True, key=lambda second: offset(second) == offset(half)) + start
        for since, until in ((start, change), (change, half)):
            begin = max(since, midnight - offset(since))
            if begin < until:
                return begin
        start = half
    return midnight + DAY


def of_instants(seconds: Sequence[int | None], zone: str) -> list[int | None]:
    """The local days of instants, in seconds; None for None.

    Example:
        >>> of_instants([1774738799, None, 1774738800], "Europe/Berlin")  # 2026-03-28T22:59:59Z
        [20540, None, 20541]
    """
    known = np.array([second for second in seconds if second is not None], np.int64)
    days = iter(local_days(zone).values(known).tolist())
    return [None if second is None else next(days) for second in seconds]


def of_instant(second: int, zone: str) -> int:
    """The local day of an instant, in seconds."""
    return local_days(zone).value(second)
