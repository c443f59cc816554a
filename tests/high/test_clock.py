"""Event time, boundaries, promises and reach: what the high stage computes without a JVM."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.errors import LowwaterError
from lowwater.high.boundaries import choose_boundaries
from lowwater.high.clock import END_MS, LATEST_MS, SLACK_MS, SPAN_MS, EventClock
from lowwater.high.feeds import Feed
from lowwater.high.reach import reach
from lowwater.high.timeline import Promise
from lowwater.plan.cuts import cut
from lowwater.plan.nodes import Cut, Group, JoinKind, Window
from lowwater.plan.temporal import END_OF_TIME, Step, Temporal
from tests.high.plans import COUNT, group, join
from tests.high.streams import FLOWS, column, leaf, write_rows

INSTANTS = st.integers(0, END_OF_TIME - 1)


@given(INSTANTS, INSTANTS, INSTANTS, INSTANTS)
def test_a_row_closes_only_after_its_last_instant(a: int, b: int, last: int, promise: int) -> None:
    clock = EventClock.over(min(a, b), max(a, b))
    assert (max(a, b) - min(a, b)) // clock.unit < SPAN_MS
    last = max(last, min(a, b))
    event, mark = int(clock.row_ms(np.array([last], np.int64))[0]), clock.promise_ms(promise)
    assert 1 < event <= LATEST_MS < SLACK_MS
    if event <= mark:
        assert last + 1 <= promise
    if clock.unit == 1 and event < LATEST_MS - 1 and last + 1 <= promise:
        assert event <= mark
    assert event <= clock.promise_ms(END_OF_TIME) - LATEST_MS


@given(INSTANTS, INSTANTS, st.integers(0, LATEST_MS))
def test_a_watermark_promises_no_more_than_it_holds(a: int, last: int, mark: int) -> None:
    clock = EventClock.over(a, a + 10**12)
    promised = clock.promised(mark)
    if promised is not None and promised < END_OF_TIME and last >= a:
        open_row = int(clock.row_ms(np.array([last], np.int64))[0]) > mark
        assert not open_row or last >= promised
    assert clock.promised(0) is None
    assert clock.promised(END_MS) == END_OF_TIME


@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 50)), st.integers(1, 1000), st.integers(1, 9))
def test_boundaries_are_few_and_close_at_the_end(rows: dict[int, int], step: int, most: int) -> None:
    closing = max([10, *rows])
    found = choose_boundaries(rows, closing, step, most)
    assert found[-1] == closing and len(found) <= most and found == sorted(set(found))
    assert all(boundary % step == 0 for boundary in found[:-1])
    steps = Counter[int]()
    for tick, count in rows.items():
        steps[-(-tick // step)] += count
    begin, largest = 0, max(steps.values(), default=0)
    for boundary in found:
        batch = [count for tick, count in rows.items() if begin < tick <= boundary]
        assert (batch or not rows) and sum(batch) <= steps.total() / most + largest
        begin = boundary


def test_boundaries_are_nearest_to_the_ends_of_the_shares() -> None:
    """Steps that have a little less than a share each make a micro-batch each."""
    hour = {at: 99 if at % 10 else 101 for at in range(1, 41)}
    assert choose_boundaries(hour, closing=40, step=10, most=4) == [10, 20, 30, 40]
    assert choose_boundaries({5: 1000, 15: 1, 25: 1, 35: 1}, closing=40, step=10, most=4) == [10, 40]


def test_a_lull_promises_by_its_ticks_and_a_punctuation_stays(tmp_path: Path) -> None:
    instants = np.array([100, 119, 120, 170, 900])
    assert Promise(100, 160, 20, 95).at(instants).tolist() == [95, 95, 115, 155, 155]
    null = (None,) * len(FLOWS)
    stored = [
        (*null, 40, "punctuation", 50, 50, 0),
        (*null, 95, "punctuation", 100, 160, 20),
        (1, 2, None, 3, 99, "row", 170, 170, 0),
        (*null, 150, "punctuation", 180, 180, 0),
    ]
    feed = Feed.scan(write_rows(tmp_path / "lull.parquet", FLOWS, stored))
    assert (feed.rows, feed.first, feed.last) == (1, 99, 99)
    assert feed.promised(np.array([10, 60, 130, 175, 400])).tolist() == [-END_OF_TIME, 40, 115, 155, 155]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LowwaterError, match=r"gone\.parquet"):
        Feed.scan([str(tmp_path / "gone.parquet")])


STEPS = st.one_of(
    st.builds(Step, st.just("add"), st.integers(-50, 50)),
    st.builds(Step, st.just("mul"), st.integers(1, 9)),
    st.builds(Step, st.just("div"), st.integers(1, 50)),
    st.just(Step("neg")),
)


@given(st.lists(STEPS, max_size=4), st.integers(-60, 60), st.integers(0, 20), st.integers(0, 20), st.data())
def test_reach_bounds_every_pair(steps: list[Step], shift: int, below: int, above: int, data: st.DataObject) -> None:
    left = Temporal((tuple(steps),))
    right = left.then(Step("add", shift))
    bounds = reach(Window(column("v"), column("v"), left, right, below, above))
    assert bounds is not None
    value = data.draw(st.integers(-500, 500))
    other = value + data.draw(st.integers(-below, above))
    l_first, l_last = left.first(value), left.last(value)
    r_first, r_last = right.first(other), right.last(other)
    assert r_last - l_first <= bounds[0] or l_first > l_last or r_first > r_last
    assert l_last - r_first <= bounds[1] or l_first > l_last or r_first > r_last


def test_clocks_of_different_speed_have_no_reach() -> None:
    slow = Temporal(((Step("div", 10),),))
    assert reach(Window(column("v"), column("v"), slow, slow.then(Step("mul", 2)), 1, 1)) is None


def test_only_state_above_an_outer_band_is_cut() -> None:
    sides = leaf("l", FLOWS), leaf("r", FLOWS)
    outer = join(JoinKind.LEFT, *sides, below=1, above=1)
    parts, top = cut(group(outer, [(FLOWS[0], column("l_tb"))], [COUNT]))
    assert [(part.name, part.node) for part in parts] == [("q-part1", outer)]
    assert isinstance(top, Group) and top.input == Cut("q", outer.fields, "q-part1")
    for whole in (outer, group(join(JoinKind.INNER, *sides, below=1), [(FLOWS[0], column("l_tb"))], [COUNT])):
        assert cut(whole) == ([], whole)
