"""Captures whose recorder may have been stopped: silences at their ends that are long beside those inside (T5)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from lowwater.config import Link
from lowwater.instants import SECOND
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.coverage import silence_text, silences
from tests.lake.support import at
from tests.lake.test_coverage import empty, row
from tests.lake.test_restarts import every

HOUR = 3600
LINK = Link()


def hour(number: int, records: Iterable[float], covers: tuple[float, float] | None = None) -> Capture:
    """A capture of an hour with records at these seconds of it."""
    begin, end = covers or (number * HOUR, (number + 1) * HOUR)
    times = [number * HOUR + each for each in records]
    lull = max((after - before for before, after in pairwise(times)), default=0)
    stamps = {name: at(each) for name, each in zip(("first", "last"), (times[0], times[-1]), strict=True)}
    return row(
        begin, end, declared_from=at(begin), declared_to=at(end), rotated=True, lull=round(lull * SECOND),
        packets=len(times), smallest=stamps["first"], largest=stamps["last"], **stamps,
    )  # fmt: skip


def found(captures: list[Capture], link: Link = LINK, start: float = 0, end: float = 1e6) -> list[tuple[float, float]]:
    base = at(0)
    return [
        ((each.since - base) / SECOND, (each.until - base) / SECOND)
        for each in silences(Captures(captures), link, at(start), at(end))
    ]


def test_a_tail_of_forty_minutes_behind_records_each_ten_seconds() -> None:
    stopped = hour(0, every(0, 1200))
    assert found([stopped]) == [(1190, 3600)], "in the first hour of a lake too"
    history = [hour(n, every(0, HOUR)) for n in range(8)]
    assert found([*history, replace(hour(8, every(0, 1200)))]) == [(8 * HOUR + 1190, 9 * HOUR)]
    (silence,) = silences(Captures([stopped]), LINK, at(0), at(HOUR))
    assert silence_text(silence) == (
        "0.pcap covers 2027-01-15T08:19:50Z to 2027-01-15T09:00:00Z behind its last record, 40 min 10 s, but its "
        "records are at most 10 s apart"
    )


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (every(0, HOUR), "to its end"),
        (every(0, HOUR - 20), "three lulls are none"),
        (every(0, HOUR, 900), "a keepalive each quarter of an hour"),
        ([5, 20, 1200], "too few records to say anything"),
        ([7], "a single one"),
        ([*every(0, 300), *every(1500, 1600)], "it was silent as long before"),
        ([n / 1000 for n in range(3_592_000 // 1000 * 100)], "some seconds"),
    ],
)
def test_what_quiet_links_do_is_no_silence(records: list[float], why: str) -> None:
    if why == "some seconds":
        records = [each * 10 for each in records]
    assert found([hour(0, records)]) == [], why


def test_records_of_captures_before_tell_of_one_with_too_few() -> None:
    """The recorder was stopped a moment after the file of the hour was opened, or before a packet came."""
    history = [hour(n, every(0, HOUR)) for n in range(3)]
    assert found([*history, hour(3, [2])]) == [(3 * HOUR + 2, 4 * HOUR)]
    nothing = replace(empty(3 * HOUR, 4 * HOUR), lull=None, rotated=True)
    assert found([*history, nothing]) == [(3 * HOUR, 4 * HOUR)]
    texts = [
        silence_text(each)
        for last in (hour(3, [2]), nothing)
        for each in silences(Captures([*history, last]), LINK, at(0), at(1e6))
    ]
    assert texts == [
        "10800.pcap covers 2027-01-15T11:00:02Z to 2027-01-15T12:00:00Z behind its last record, 59 min 58 s, but "
        "records of the link before it are at most 10 s apart",
        "10800.pcap covers 2027-01-15T11:00:00Z to 2027-01-15T12:00:00Z without a record, 1 h, but records of the link "
        "before it are at most 10 s apart",
    ]
    assert found([hour(0, [2]), nothing]) == [], "nothing is known of the link"
    nights = [
        hour(n, every(0, HOUR)) if n % 24 < 12 else replace(empty(n * HOUR, (n + 1) * HOUR), rotated=True)
        for n in range(96)
    ]
    assert len(found(nights)) == 3, "the first hours of the first night"


def test_random_stops_of_busy_links_are_found_and_quiet_ones_are_not() -> None:
    rng = random.Random(4)
    for _ in range(40):
        step, stop = rng.uniform(0.5, 20), rng.uniform(900, 3000)
        times = [0.0]
        while times[-1] < stop:
            times.append(times[-1] + rng.uniform(0.5, 1.5) * step)
        assert [begin for begin, _ in found([hour(0, times)])] == [pytest.approx(times[-1], abs=1e-6)]
    random_hours = [sorted(rng.uniform(0, HOUR) for _ in range(rng.randrange(1, 200))) for _ in range(200)]
    assert sum(bool(found([hour(0, records)])) for records in random_hours) <= 1
