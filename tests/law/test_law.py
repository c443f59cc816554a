"""The law (SEMANTICS): the rows are a function of the admitted packets, and nothing else changes them."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, strategies as st

from lowwater.plan.queryset import plan_texts
from tests.law.cases import FAMILIES, case
from tests.law.compare import REFERENCE
from tests.law.found import FOUND
from tests.law.fuzz import SAME, Outcome, accepted, check, run_case
from tests.plan.batch_pools import CONTEXT, KNOWN
from tests.plan.batch_questions import Question, aggregations

CASES = 40
BLOCK = 20
FIRST = range(8, 8 + CASES, BLOCK)
"""The first numbers of the blocks: together they have each family."""


def test_a_number_names_one_case() -> None:
    assert case(7) == case(7) != case(8)


@cache
def outcomes(first: int) -> list[Outcome]:
    """Of a block of cases, which run once in a process."""
    return [run_case(seed, REFERENCE) for seed in range(first, first + BLOCK)]


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRST)
def test_rows_of_the_reference_engine_are_those_of_the_oracles(first: int) -> None:
    """`python -m tests.law.fuzz --seed N` shows a case that fails."""
    assert [outcome for outcome in outcomes(first) if outcome.outcome != SAME] == []


@pytest.mark.slow
def test_the_cases_hold_something() -> None:
    every = [outcome for first in FIRST for outcome in outcomes(first)]
    assert not any(outcome.refused for outcome in every)
    assert {family for outcome in every for family in outcome.families} == set(FAMILIES)
    assert sum(outcome.rows > 0 for outcome in every) > CASES * 6 // 10
    assert {name for outcome in every for name in outcome.beside} == {"SQL", "batch"}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FOUND))
def test_what_failed_once_on_the_reference_engine(name: str) -> None:
    run, _ = accepted(FOUND[name], REFERENCE)
    check(run, REFERENCE)


@pytest.mark.slow
@given(aggregations(), st.integers(1, 8))
def test_split_plans_read_the_same_packets_as_whole_ones(question: Question, slots: int) -> None:
    plan = plan_texts([("q.gsql", question.text)], KNOWN, 1 << slots, CONTEXT)
    (query,) = plan.queries
    assert query.high.fields == query.logical.fields
    assert {lfta.slots for lfta in plan.lftas if lfta.aggregates} <= {1 << slots}
