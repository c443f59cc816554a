"""Days of a query set in one line: given intervals with words, then whether a report of each day may go out."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from zoneinfo import ZoneInfo

import pytest

from lowwater.catalog.localdays import local_days
from lowwater.instants import HOUR, SECOND, parse_instant
from lowwater.lake import words
from lowwater.replay.schedule.day_states import Stretch, day_states

NIGHT = parse_instant("2026-03-28T00:00:00Z")


def hours(begin: int, *of: str) -> list[Stretch]:
    return [Stretch("q", begin + at * HOUR, begin + (at + 1) * HOUR, 1, word, "why") for at, word in enumerate(of)]


def answers(found: list[Stretch], zone: str = "UTC") -> list[str]:
    return [f"{each.day:%d} {each.answer}" for each in day_states(found, local_days(zone))]


def test_a_day_is_whole_if_each_of_its_intervals_is() -> None:
    assert answers(hours(NIGHT, *["done"] * 24)) == ["28 yes"]


def test_the_gravest_word_speaks_with_its_first_reason() -> None:
    found = hours(NIGHT, *["done"] * 20, "incomplete", "missing", "missing", "done")
    assert answers(found) == ["28 no: 2 of 24 intervals are missing: why; 1 of 24 intervals is incomplete"]


def test_time_that_is_of_no_interval_is_missing() -> None:
    found = [*hours(NIGHT, *["done"] * 10), *hours(NIGHT + 11 * HOUR, *["done"] * 13)]
    assert answers(found) == ["28 no: nothing was recorded 28 Mar 2026, 10:00 to 11:00 UTC"]


def test_a_day_between_two_others_without_an_interval_is_missing() -> None:
    found = [*hours(NIGHT, *["done"] * 24), *hours(NIGHT + 48 * HOUR, *["done"] * 24)]
    lost = "nothing was recorded 29 Mar 2026, 00:00 to 30 Mar 2026, 00:00 UTC"
    assert answers(found) == ["28 yes", f"29 no: {lost}", "30 yes"]


def test_a_warning_lets_it_go_out_and_is_told() -> None:
    assert answers(hours(NIGHT, *["done"] * 23, "warned")) == ["28 yes: 1 of 24 intervals is warned: why"]


def test_the_day_of_a_zone_on_which_clocks_go_forward_has_23_hours() -> None:
    begin = parse_instant("2026-03-28T23:00:00Z")
    assert answers(hours(begin, *["done"] * 23), "Europe/Berlin") == ["29 yes"]


def test_a_stretch_counts_as_many_intervals_as_it_has() -> None:
    whole = Stretch("q", NIGHT - 5 * HOUR, NIGHT + 19 * HOUR, 24, "missing", "no run")
    assert answers([whole, *hours(NIGHT + 19 * HOUR, *["done"] * 5)])[1:] == [
        "28 no: 19 of 24 intervals are missing: no run"
    ]


@pytest.mark.parametrize("seed", range(40))
def test_days_are_those_of_the_calendar(seed: int) -> None:
    """Drawn intervals in drawn zones; each hour is counted at the local dates of its two ends, by Python's calendar."""
    chosen = random.Random(seed)
    zone = chosen.choice(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
    begin = parse_instant("2026-01-01T00:00:00Z") + chosen.randrange(300 * 24) * HOUR
    found = hours(begin, *chosen.choices([*words.WORDS], weights=[1] * (len(words.WORDS) - 1) + [20], k=120))
    expected: dict[datetime.date, Counter[str]] = {}
    for each in found:
        ends = {
            datetime.datetime.fromtimestamp(at, ZoneInfo(zone)).date()
            for at in (each.start // SECOND, each.end // SECOND - 1)
        }
        for day in ends:
            expected.setdefault(day, Counter())[each.word] += 1
    states = day_states(found, local_days(zone))
    assert {state.day: Counter(state.counts) for state in states} == expected
    for state in states:
        assert [*state.counts] == sorted(state.counts, key=words.gravity)
        known = sum(each.start < state.end and state.start < each.end for each in found)
        assert known == sum(state.counts.values())
        assert bool(state.unrecorded) == (not found[0].start <= state.start < state.end <= found[-1].end)
