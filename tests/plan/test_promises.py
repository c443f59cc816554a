"""What plans say of time, held against the rows of the batch evaluator: `_last`, promises and read ranges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from lowwater.plan.context import Links
from lowwater.plan.operators import Node, walk
from lowwater.plan.properties import horizon, read_from
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME, Temporal
from tests.breadth import some
from tests.plan.batch import Batch
from tests.plan.batch_join_questions import CHAINS
from tests.plan.batch_plans import plans_of
from tests.plan.batch_pools import CONTEXT, KNOWN, LINKS
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_repository import DECLARED, QUERY_LINKS, READABLE
from tests.plan.batch_rows import Row, World, multiset
from tests.plan.batch_worlds import BASE, SECOND, world

EVERY = {**FAMILIES, **CHAINS}
CLOCKED = [family for family in EVERY if family != "row_windows"]
"""Windows of rows are no function of the clock (I4)."""

SEEDS = st.integers(0, 1 << 20)
NUMBERS = st.integers(0, 1 << 20)


def plans(question: Question) -> list[Node]:
    """The plans of the output, with and without low level."""
    found = plans_of(question.text, KNOWN, CONTEXT)[-1]
    return [found.bound, found.logical, found.high]


def packets(seed: int) -> World:
    """The world of a seed."""
    return world(seed, LINKS, catalog=CONTEXT.catalog)


def last_of(rows: list[Row], number: int) -> int:
    """The last instant of one of the rows, as there a bound is tight; the beginning of everything without rows."""
    lasts = sorted({row.last for row in rows if row.last < END_OF_TIME - 1})
    return lasts[number % len(lasts)] if lasts else BASE


def passes(time: Temporal, value: int, promise: int) -> bool:
    """Whether a value does not precede a promise."""
    return value >= promise if time.increasing else value <= promise


def promised(plan: Node, made: World) -> int:
    """Holds every value of every operator against what was promised while its row could still come; how many."""
    batch, count = Batch(made), 0
    for node in walk(plan):
        times = [(f.name, f.temporal) for f in node.fields if f.temporal and not f.temporal.origin]
        for row in batch.rows(node):
            # A row that is final after `last` may come until the promise passes it, and no longer.
            if row.last < END_OF_TIME - 1:
                for name, time in times:
                    value = row.values[name]
                    count += 1
                    assert value is None or passes(time, value, time.promise(row.last)), (node, name, row)
    return count


def settled(plan: Node, made: World, number: int) -> int:
    """Leaves out what comes after the last instant of a row: the rows up to there are the same; how many."""
    # Epochs without packets end too (O4), so both worlds last beyond the instant.
    made = replace(made, end=made.latest + 100 * SECOND)
    rows = Batch(made).rows(plan)
    instant = last_of(rows, number) + 1
    whole = [row for row in rows if row.last < instant]
    same(plan, whole, [row for row in Batch(made.before(instant)).rows(plan) if row.last < instant])
    return len(whole)


def ranged(plan: Node, made: World, number: int) -> int:
    """Leaves out what comes before the read range of a row's last instant: the rows from there on are the same."""
    rows = Batch(made).rows(plan)
    instant = last_of(rows, number)
    whole = [row for row in rows if row.last >= instant]
    less = replace(made, starts=read_from(plan, instant))
    same(plan, whole, [row for row in Batch(less).rows(plan) if row.last >= instant])
    ends = [row.last for row in whole if row.last < END_OF_TIME - 1]
    assert max(ends, default=0) <= horizon(plan, made.latest)
    return len(whole)


@pytest.mark.slow
@pytest.mark.parametrize("family", some(CLOCKED, 2))
@pytest.mark.hypothesis
def test_no_row_precedes_a_promise_that_was_made_before_it_was_final(family: str) -> None:
    seen: list[int] = []

    @given(EVERY[family](), SEEDS)
    def run(question: Question, seed: int) -> None:
        seen.extend(promised(plan, packets(seed)) for plan in plans(question))

    run()
    assert any(seen)


@pytest.mark.slow
@pytest.mark.parametrize("family", some(CLOCKED, 2))
@pytest.mark.hypothesis
def test_nothing_after_its_last_instant_changes_a_row(family: str) -> None:
    seen: list[int] = []

    @given(EVERY[family](), SEEDS, NUMBERS)
    def run(question: Question, seed: int, number: int) -> None:
        seen.extend(settled(plan, packets(seed), number) for plan in plans(question))

    run()
    assert any(seen)


@pytest.mark.slow
@pytest.mark.parametrize("family", EVERY)
@pytest.mark.hypothesis
def test_the_read_range_of_an_instant_is_enough_for_the_rows_from_there_on(family: str) -> None:
    seen: list[int] = []

    @given(EVERY[family](), SEEDS, NUMBERS)
    def run(question: Question, seed: int, number: int) -> None:
        seen.extend(ranged(plan, packets(seed), number) for plan in plans(question))

    run()
    assert any(seen)


@pytest.mark.slow
@pytest.mark.parametrize("path", READABLE, ids=lambda path: path.stem)
def test_time_in_the_plans_of_the_repository(path: Path) -> None:
    for found in plans_of(path.read_text(), QUERY_LINKS, DECLARED, (path.parent,)):
        made = world(1, found.links, 30, catalog=DECLARED.catalog)
        for plan in (found.bound, found.high):
            promised(plan, made)
            settled(plan, made, 7)
            ranged(plan, made, 7)


def same(plan: Node, whole: list[Row], part: list[Row]) -> None:
    """The rows of an evaluation of all packets and of one of some of them."""
    names = [f.name for f in plan.fields]
    missing, extra = multiset(whole, names) - multiset(part, names), multiset(part, names) - multiset(whole, names)
    assert not missing and not extra, f"missing {list(missing.items())[:4]}, too many {list(extra.items())[:4]}"


def test_a_selection_promises_only_columns_that_the_clock_moves() -> None:
    """EXPLAIN shows it: a column with an attribute of its own is promised by operators above, if by any."""
    text = """PROTOCOL FLOW {
        uint first get_csv_uint_pos1 (increasing, unit s, clock); uint last get_csv_uint_pos2 (increasing, unit s);
    }
    DEFINE { query_name 'one'; } SELECT last FROM main1.FLOW;
    DEFINE { query_name 'two'; } SELECT first, last FROM main1.FLOW"""
    one, two = plan_texts([("q.gsql", text)], Links(("main1",), kinds={"main1": "csv"})).lftas
    assert (one.punctuation.columns, two.punctuation.columns) == ((), ("first",))
    assert one.punctuation.reason == "no column is a function of the clock: only its clock makes progress"
