"""Which intervals a query set has: every one is in exactly one line, and lines do not grow with what is not there."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from lowwater.config import Link
from lowwater.instants import HOUR
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.intervals import Range, StatusInputs, StatusRow, Timetable, merged, set_status, timetable
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow
from lowwater.lake.words import DONE
from tests.breadth import examples
from tests.lake.test_coverage import row

LINK = Link(skew="1s")
COVERED = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), min_size=1, max_size=6)
RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda it: (it[0], it[0] + it[1])), max_size=6)


def hours(spans: list[Range]) -> Captures:
    """Captures that cover ranges of hours, counted from 1970."""
    return Captures([_covering(begin * HOUR, end * HOUR) for begin, end in spans])


def _covering(begin: int, end: int) -> Capture:
    return replace(row(0, 1), covers_from=begin, covers_to=end)


def in_hours(listed: list[Range]) -> list[Range]:
    return [(start // HOUR, end // HOUR) for start, end in listed]


def states(times: Timetable, replays: tuple[ReplayRow, ...] = (), **bounds: int) -> list[StatusRow]:
    def lacking(start: int, end: int) -> tuple[str, ...]:
        return ("a gap",) if times.in_gap(start, end) else ()

    inputs = StatusInputs("s", ("q",), times, lambda query, start, end: f"{start}", lacking=lacking)
    return list(set_status(inputs, replays, **bounds))


def published(first: int, last: int) -> ReplayRow:
    digest = f"{first * HOUR}"
    return ReplayRow("s", "q", first * HOUR, last * HOUR, "publish", "incomplete", 1, reason="gap", digest=digest)


def test_a_stretch_stands_as_it_ran_until_something_is_recorded_in_it() -> None:
    ends = [(0, 1), (50, 51)]
    times = timetable({"a": hours(ends)}, {"a": LINK}, HOUR, ends)
    ran = (published(1, 50),)
    assert [(each.state, each.intervals) for each in states(times, ran)] == [
        ("missing", 1),
        ("incomplete", 49),
        ("missing", 1),
    ]
    (within,) = states(times, ran, start=7 * HOUR, end=9 * HOUR)
    assert (within.state, within.start, within.intervals) == ("incomplete", 7 * HOUR, 2)
    ends = [(0, 1), (20, 21), (50, 51)]
    later = timetable({"a": hours(ends)}, {"a": LINK}, HOUR, ends)
    found = states(later, ran)
    assert [each.intervals for each in found] == [1, 19, 1, 29, 1]
    assert [each.state for each in found] == ["missing", "stale", "stale", "stale", "missing"]
    assert "a part of 1970-01-01T01:00:00Z to 1970-01-03T02:00:00Z" in found[2].why


def test_an_interval_that_reads_back_into_a_gap_is_apart_from_those_that_do_not() -> None:
    times = timetable({"a": hours([(0, 1), (5, 500)])}, {"a": LINK}, HOUR, [(0, 1)], reach=2 * HOUR)
    listed = in_hours(times.intervals())
    assert (1, 5) in listed and all((at, at + 1) in listed for at in (5, 6, 499)) and (8, 499) in listed


@settings(max_examples=examples(150), deadline=None)
@given(COVERED, COVERED, RANGES, st.integers(0, 5), RANGES, st.booleans())
def test_every_interval_is_in_one_line(
    first: list[Range], second: list[Range], occupied: list[Range], reach: int, runs: list[Range], bounded: bool
) -> None:
    links = {"a": hours([(at, at + size) for at, size in first]), "b": hours([(at, at + size) for at, size in second])}
    busy = merged(occupied)
    times = timetable(links, {"a": LINK, "b": Link(skew="2s")}, HOUR, busy, reach=reach * HOUR)
    ran = {(begin * HOUR, end * HOUR) for begin, end in runs if end > begin}
    window = (3, 25) if bounded else (0, 100)
    listed = in_hours(times.intervals(ran, *((3 * HOUR, 25 * HOUR) if bounded else ())))
    spans = [span for each in links.values() for span in each.spans]
    life = min(begin for begin, _ in spans) // HOUR, max(end for _, end in spans) // HOUR
    right = {at for at in range(*window) if life[0] <= at < life[1] or any(lo <= at < hi for lo, hi in busy) or bounded}
    numbers = [at for lo, hi in listed for at in range(lo, hi)]
    stand = {at for run in ran if not times.is_superseded(run) for at in range(run[0] // HOUR, run[1] // HOUR)}
    assert right <= set(numbers) <= right | stand
    alone = [at for at in numbers if at not in stand]
    assert len(alone) == len(set(alone)), "an interval is in two lines"
    records = {at for lo, hi in busy for at in range(lo, hi)}
    assert not [each for each in listed if each[1] - each[0] > 1 and records & set(range(*each))]


def test_intervals_of_another_length_that_were_published_again_are_listed_no_more() -> None:
    times = Timetable(2 * HOUR, (0, 2), ((0, 2),))
    hours = [ReplayRow("s", "q", at * HOUR, (at + 1) * HOUR, PUBLISH, DONE, at, digest="0") for at in range(4)]
    again = ReplayRow("s", "q", 0, 2 * HOUR, PUBLISH, DONE, 9, digest="0")
    assert in_hours([(each.start, each.end) for each in states(times, (*hours, again))]) == [
        (0, 2),
        (2, 3),
        (2, 4),
        (3, 4),
    ]
    late = replace(hours[1], finished_at=10)
    assert (1, 2) in in_hours([(each.start, each.end) for each in states(times, (*hours, again, late))])


@settings(max_examples=examples(300), deadline=None)
@given(RANGES, st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=8))
def test_what_is_done_is_what_is_visible_and_all_comes_to_be_done(occupied: list[Range], ran: list[Range]) -> None:
    """Counterexample: hours were run, then a day by other queries, then the settings were what they had been: the hours
    were `done`, with the rows of the day."""
    times = timetable({"a": hours([(0, 30)])}, {"a": LINK}, HOUR, merged(occupied))
    rows = [_done(at, at + length, number) for number, (at, length) in enumerate(ran)]
    for _ in range(3):
        found = states(times, tuple(rows))
        visible = {
            at * HOUR: row.interval
            for row in rows
            for at in range(row.interval_start // HOUR, row.interval_end // HOUR)
        }
        for each in found:
            seen = {visible.get(at, (0, 0)) for at in range(each.start, each.end, HOUR)}
            whole = len(seen) == 1 and all(first <= each.start and each.end <= last for first, last in seen)
            assert whole or each.state != "done", (each, seen)
        due = [row for row in found if row.state != "done"]
        rows += [_done(each.start // HOUR, each.end // HOUR, len(rows) + at) for at, each in enumerate(due)]
    assert not due


def _done(first: int, last: int, number: int) -> ReplayRow:
    return replace(published(first, last), state=DONE, finished_at=number)
