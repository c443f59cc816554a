"""The split and the unsplit plan give the same rows: for random queries over random packets, and SQL gives them too."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.plan.batch_join_questions import CHAINS
from tests.plan.batch_plans import plans_of, same_rows
from tests.plan.batch_pools import CONTEXT, KNOWN, LINKS
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_rows import World, rounded
from tests.plan.batch_worlds import oracle, text, world

SEEDS = st.integers(0, 1 << 20)


def sql_rows(made: World, question: Question) -> Counter[tuple[Any, ...]]:
    """The rows that SQL gives."""
    with oracle(made) as connection:
        return Counter(tuple(rounded(value) for value in row) for row in connection.execute(question.sql).fetchall())


def check(question: Question, made: World) -> int:
    """Holds all plans of a question against one another and against SQL; how many rows there are."""
    for plans in plans_of(question.text, KNOWN, CONTEXT):
        rows = same_rows(plans, made)
    if question.sql:
        ours: Counter[tuple[Any, ...]] = Counter()
        for row, count in rows.items():
            ours[tuple(text(value) for value in row)] += count
        found = sql_rows(made, question)
        missing, extra = list((found - ours).items())[:4], list((ours - found).items())[:4]
        assert ours == found, f"missing {missing}, not in SQL {extra}"
    return rows.total()


@pytest.mark.slow
@pytest.mark.parametrize("family", {**FAMILIES, **CHAINS})
@pytest.mark.hypothesis
def test_every_plan_of_a_random_query_has_the_rows_of_sql(family: str) -> None:
    seen: list[int] = []

    @given({**FAMILIES, **CHAINS}[family](), SEEDS)
    def run(question: Question, seed: int) -> None:
        seen.append(check(question, world(seed, LINKS, catalog=CONTEXT.catalog)))

    run()
    # Some conditions exclude one another; a family without rows would hold nothing.
    assert any(seen)
