"""The law for the reference engine: the rows of DuckDB over the admitted packets, however the replay is cut."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.plan.operators import Node
from lowwater.plan.properties import read_from
from lowwater.plan.temporal import END_OF_TIME
from lowwater.reference import ReferenceResult, evaluate
from tests.breadth import examples
from tests.reference.plans import CASES, Case
from tests.reference.streams import UNIT, Link, fill, random_links

PERIODS = st.sampled_from([1, 7, 10, 33, 600])
POLICIES = st.sampled_from(["periodic", "data-driven", "none"])
CUTS = st.lists(st.integers(9_900, 13_000), max_size=3, unique=True).map(sorted)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all examples: opening a database takes longer than all that an example asks of it."""
    with duckdb.connect(config={"threads": 1}) as opened:
        yield opened


def replay(plan: Node, links: Mapping[str, Link], start: int, end: int, period: int, policy: str) -> ReferenceResult:
    packets = {name: link.batches() for name, link in links.items()}
    skews = {name: link.skew for name, link in links.items()}
    return evaluate(plan, packets, skews, start, end, read_from(plan, start), period, policy)


def check_grammar(result: ReferenceResult) -> None:
    """Promises rise, at most one a tick, and no later row is below one (P1)."""
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(result.punctuation))
    ticks = [tick for tick, _ in result.punctuation]
    for last, tick in zip(result.lasts, result.ticks, strict=True):
        earlier = bisect_left(ticks, tick)
        assert earlier == 0 or last >= result.punctuation[earlier - 1][1]


def rows_of(result: ReferenceResult) -> Counter[tuple[object, ...]]:
    return Counter(result.rows)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@settings(max_examples=examples(12))
@given(links=random_links(), period=PERIODS, policy=POLICIES, cuts=CUTS)
def test_rows_are_those_of_sql(
    connection: duckdb.DuckDBPyConnection, case: Case, links: dict[str, Link], period: int, policy: str, cuts: list[int]
) -> None:
    fill(connection, links)
    expected = Counter(connection.sql(case.sql).fetchall())
    whole = replay(case.plan, links, 0, END_OF_TIME, period * UNIT, policy)
    assert rows_of(whole) == expected
    check_grammar(whole)
    bounds = [0, *(cut * UNIT for cut in cuts), END_OF_TIME]
    pieces = [replay(case.plan, links, a, b, period * UNIT, policy) for a, b in pairwise(bounds)]
    for piece in pieces:
        check_grammar(piece)
    owned = Counter((row, last) for piece in pieces for row, last in zip(piece.rows, piece.lasts, strict=True))
    assert owned == Counter(zip(whole.rows, whole.lasts, strict=True))


@settings(max_examples=examples(12))
@given(links=random_links(), period=PERIODS, policy=POLICIES, cuts=CUTS)
def test_rows_of_an_interval_need_no_later_records(
    links: dict[str, Link], period: int, policy: str, cuts: list[int]
) -> None:
    case, end = CASES["chain_OUTER"], (cuts or [10_500])[0] * UNIT
    cut = {n: Link(k.skew, [r for r in k.records if r["timestamp"] < end + k.skew]) for n, k in links.items()}
    assert rows_of(replay(case.plan, links, 0, end, period * UNIT, policy)) == rows_of(
        replay(case.plan, cut, 0, end, period * UNIT, "none")
    )
