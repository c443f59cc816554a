"""Days of local calendars against zoneinfo, instant by instant."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog.localdays import DAY, local_days, of_instant, of_instants, zone_names
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import examples

EPOCH = date(1970, 1, 1)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Sao_Paulo",  # changes at midnight
    "Asia/Beirut",  # changes at midnight
    "Pacific/Apia",  # leaves 2011-12-30 out
    "America/St_Johns",  # went back from 00:01 to 23:01
    "Africa/Monrovia",  # 44 minutes and 30 seconds behind UTC until 1972
    "Pacific/Kiritimati",
)
INSTANTS = st.integers(0, END_OF_TIME // 10**9)


def local(second: int, zone: str) -> int:
    """The local date of an instant in days since 1970-01-01, as zoneinfo says."""
    return (datetime.fromtimestamp(second, ZoneInfo(zone)).date() - EPOCH).days


def seconds(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp())  # type: ignore[misc,arg-type]


def begun(second: int, zone: str) -> int:
    """The latest local date at the instant or at a whole minute of the day before it."""
    minutes = range(second // 60 * 60 - DAY, second + 1, 60)
    return max(local(at, zone) for at in (second, *minutes))


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.sampled_from(sorted(zone_names())) | st.sampled_from(ZONES), INSTANTS)
def test_the_day_is_the_latest_date_that_has_begun(zone: str, second: int) -> None:
    day = of_instant(second, zone)
    assert day == begun(second, zone)
    days = local_days(zone)
    first, last = days.first(day), days.last(day)
    assert first <= second <= last
    assert [of_instant(at, zone) for at in (first - 1, first, last, last + 1)] == [
        begun(at, zone) for at in (first - 1, first, last, last + 1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_days_never_go_back_and_columns_equal_single_values(zone: str) -> None:
    days = local_days(zone)
    assert (np.diff(days.begins) >= 0).all()
    edges = [0, -1, -(2**62), 2**62, END_OF_TIME // 10**9, *days.begins[:3].tolist(), *days.begins[-3:].tolist()]
    edges += [edge - 1 for edge in edges]
    around = np.concatenate([days.begins[::499], days.begins[::499] - 1, np.array(edges)])
    values = of_instants(around.tolist(), zone)
    assert values == [of_instant(second, zone) for second in around.tolist()]
    known = np.array(values)
    inside = np.abs(known) < 2**40
    assert days.firsts(known[inside]).tolist() == [days.first(day) for day in known[inside].tolist()]
    assert days.lasts(known[inside]).tolist() == [days.last(day) for day in known[inside].tolist()]
    assert all(days.first(day) <= at <= days.last(day) for day, at in zip(values, around.tolist(), strict=True) if day)
    assert of_instants([None, 0, None], zone) == [None, of_instant(0, zone), None]
    assert (days.begins % days.grain == 0).all()


def hours(zone: str, day: date) -> float:
    number = (day - EPOCH).days
    return (local_days(zone).last(number) + 1 - local_days(zone).first(number)) / 3600


@pytest.mark.parametrize(
    ("zone", "day", "length"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),  # 00:00 does not exist
        ("America/Sao_Paulo", date(2018, 2, 17), 25),  # 00:00 is 23:00
        ("Asia/Beirut", date(2021, 3, 28), 23),
        ("Pacific/Apia", date(2011, 12, 30), 0),
        ("Pacific/Apia", date(2011, 12, 29), 24),
        ("America/St_Johns", date(2010, 11, 6), 24),  # the hour that comes twice is of the later day
        ("America/St_Johns", date(2010, 11, 7), 25),
    ],
)
def test_days_have_the_hours_of_the_clock_on_the_wall(zone: str, day: date, length: int) -> None:
    assert hours(zone, day) == length
    assert hours(zone, day + timedelta(days=3)) == 24


def test_an_hour_that_comes_twice_is_of_the_later_day() -> None:
    again = seconds(2010, 11, 7, 2, 45)  # 23:15 of the 6th, the second time; 00:00 of the 7th was at 02:30
    assert local(again, "America/St_Johns") == (date(2010, 11, 6) - EPOCH).days
    assert of_instant(again, "America/St_Johns") == (date(2010, 11, 7) - EPOCH).days
