"""Boundaries, promises and cuts: what the high stage computes without a JVM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, strategies as st

from lowwater.high.streams import StoredStream
from lowwater.high.timeline import ROW_COUNT_UNIT, Promise, boundaries
from lowwater.plan.context import Links
from lowwater.plan.operators import Cut, Group, JoinKind, Running
from lowwater.plan.queryset import plan_texts
from lowwater.plan.shares import by_slices, fragment_plan
from lowwater.plan.temporal import END_OF_TIME
from tests.high.plans import COUNT, group, join
from tests.high.streams import FLOWS, column, leaf, write_rows


@given(st.dictionaries(st.integers(0, 10**4), st.integers(1, 50)), st.integers(1, 9))
def test_boundaries_are_few_and_no_slice_is_empty(rows: dict[int, int], most: int) -> None:
    found = boundaries(rows, most)
    assert len(found) < most and found == sorted(set(found))
    begin = 0
    for boundary in (*found, (max(rows, default=0) + 1) * ROW_COUNT_UNIT):
        batch = [count for unit, count in rows.items() if begin <= unit * ROW_COUNT_UNIT < boundary]
        assert (batch or not rows) and sum(batch) <= sum(rows.values()) / most + max(rows.values(), default=0)
        begin = boundary


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
    feed = StoredStream().add(*write_rows(tmp_path / "lull.parquet", FLOWS, stored))
    assert (feed.rows, feed.tick, feed.chunks[0].low, feed.chunks[0].high) == (1, 170, 99, 99)
    assert feed.promised(np.array([10, 60, 130, 175, 400])).tolist() == [-END_OF_TIME, 40, 115, 155, 155]


CHAIN = """DEFINE{query_name 'r';} SELECT tb, destPort, sum(len) AS s FROM main1.TCP
GROUP BY time/10 AS tb, destPort CLOSING_WHEN sum(len) > 9;
DEFINE{query_name 'q';} SELECT tb, count(*) FROM r GROUP BY tb"""


def test_only_what_meets_a_state_that_outlives_a_slice_is_cut() -> None:
    plan = plan_texts([("q.gsql", CHAIN)], Links(("main1",)), 1).queries[-1].high
    parts, top = fragment_plan(plan)
    assert [type(part.node) for part in parts] == [Running]
    assert isinstance(top, Group) and isinstance(top.inputs()[0], Cut) and by_slices(top)
    sides = leaf("l", FLOWS), leaf("r", FLOWS)
    for kind in JoinKind:
        whole = group(join(kind, *sides, below=1), [(FLOWS[0], column("l_tb"))], [COUNT])
        assert fragment_plan(whole) == ([], whole) and by_slices(whole)
