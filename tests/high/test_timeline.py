"""The ticks of rows and promises: beside their definition, written out."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lowwater.high.timeline import MOST, Timeline, grid
from lowwater.plan.temporal import END_OF_TIME

STEPS = st.lists(st.tuples(st.sampled_from((1, 10, 10, 10, 60)), st.sampled_from((0, 1, 10, 10, 10, 60))), min_size=1)


def drawn(steps: list[tuple[int, int]]) -> dict[int, int]:
    """What is promised at some instants: never less."""
    return dict(zip(*(itertools.accumulate(each) for each in zip(*steps, strict=True)), strict=True))


def timeline(said: dict[int, int]) -> Timeline:
    return Timeline.of(np.array([*said]), np.array([*said.values()]))


@given(STEPS, st.lists(st.integers(-5, 300)))
def test_a_row_has_the_first_tick_that_promises_it(steps: list[tuple[int, int]], lasts: list[int]) -> None:
    said = drawn(steps)
    expected = [min((tick for tick, promise in said.items() if promise > last), default=None) for last in lasts]
    found = timeline(said).ticks(np.array(lasts, np.int64)).tolist()
    assert [tick for tick, known in zip(found, expected, strict=True) if known is not None] == [
        known for known in expected if known is not None
    ]


@given(STEPS, st.booleans(), st.integers(-5, 300))
def test_punctuation_says_each_promise_at_its_tick(steps: list[tuple[int, int]], silent: bool, closing: int) -> None:
    said = ({0: -END_OF_TIME} if silent else {}) | drawn(steps)
    first: dict[int, int] = {}
    for tick, promise in said.items():
        first.setdefault(promise, tick)
    ticks: dict[int, int] = {}
    for each in timeline(said).below(closing):
        own = range(each.first, each.until + 1, each.period) if each.period else [each.first]
        assert not ticks or min(own) > max(ticks)
        ticks |= dict(zip(own, each.at(np.array(own)).tolist(), strict=True))
    assert ticks == {tick: promise for promise, tick in first.items() if -END_OF_TIME < promise < closing}


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.integers(1, 10**4))
def test_the_ticks_are_multiples_up_to_the_closing_one(first: int, length: int, step: int) -> None:
    found = grid(first, first + length, step)
    assert found[-1] == first + length and len(found) <= MOST + 2
    assert (np.diff(found) > 0).all() and (found[:-1] % step == 0).all() and (found >= first).all()
    if length // step <= MOST:
        assert found[:-1].tolist() == [*range(-(-first // step) * step, first + length, step)]
