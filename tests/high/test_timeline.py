"""The ticks of rows and promises: beside their definition, written out."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from lowwater.errors import QueryError
from lowwater.high.streams import StreamFiles
from lowwater.high.timeline import Timeline, grid
from lowwater.limits import TIMELINE_TICKS
from lowwater.plan.temporal import END_OF_TIME
from tests.breadth import some
from tests.plan.golden import names, plan

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
    assert found[-1] == first + length and len(found) <= TIMELINE_TICKS + 2
    assert (np.diff(found) > 0).all() and (found[:-1] % step == 0).all() and (found >= first).all()
    if length // step <= TIMELINE_TICKS:
        assert found[:-1].tolist() == [*range(-(-first // step) * step, first + length, step)]


@pytest.mark.slow
@pytest.mark.parametrize("name", some(names(), 3))
def test_punctuation_rows_have_the_columns_that_explain_names(name: str, tmp_path: Path) -> None:
    """Those in one row are joint, those in rows of their own individual (SEMANTICS P5)."""
    try:
        queries = plan(name).queries
    except QueryError:
        pytest.skip("does not plan: its golden says why")
    for query in queries:
        folder = tmp_path / query.name
        folder.mkdir()
        stream = StreamFiles(folder, query.high.fields, (0, 100), 100)
        stream.close(100, Timeline(np.array([10, 50]), np.array([8, 40])))
        said = query.high.punctuation(None)
        rows = pq.read_table(stream.files[0]).to_pylist()
        found = {tuple(f.name for f in query.high.fields if row[f.name] is not None) for row in rows}
        assert len(rows) == 3 and found == {said.columns}
        assert said.joint is (len(said.columns) > 1)
