"""The rules of a link's time: who is late, and what a promise means for it (SEMANTICS T2)."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from lowwater.catalog.time import arrival_times, clock_of, is_late, promise_at, tick_after, tick_from
from lowwater.low.code.compiler import load

INSTANTS = st.lists(st.integers(0, 1 << 62), min_size=1, max_size=20)


@given(INSTANTS, st.integers(0, 1 << 62))
def test_one_rule_says_who_is_late_to_numbers_columns_and_kernels(stamps: list[int], skew: int) -> None:
    """Of each record and of one that is late by just the skew, which is admitted, and by 1 ns more, which is not."""
    clocks = np.maximum.accumulate(stamps).tolist()
    bounds = [max(stamps), max(stamps)]
    pairs = [*zip(clocks, stamps, strict=True), *zip(bounds, [bounds[0] - skew, bounds[0] - skew - 1], strict=True)]
    expected = [clock - stamp > skew for clock, stamp in pairs]
    assert expected[-2:] == [False, True]
    kernel = load((), compiled=False)["is_late"]
    assert [is_late(*pair, skew) for pair in pairs] == [kernel(*pair, skew) for pair in pairs] == expected
    assert is_late(*(np.array(each, np.int64) for each in zip(*pairs, strict=True)), skew).tolist() == expected


@given(INSTANTS, st.integers(-1, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 1 << 40))
def test_no_record_after_a_tick_precedes_its_promise(
    stamps: list[int], before: int, skew: int, delay: int, period: int
) -> None:
    clocks = arrival_times(np.array(stamps, np.int64), before).tolist()
    assert clocks == [max(before, *stamps[: at + 1]) for at in range(len(stamps))]
    promise = promise_at(tick_from(clocks[0], period), skew, delay)
    assert clock_of(promise, skew, delay) == tick_from(clocks[0], period) < tick_after(clocks[0], period) + 1
    for clock, stamp in zip(clocks, stamps, strict=True):
        assert clock < tick_from(clocks[0], period) or is_late(clock, stamp, skew) or stamp >= promise
