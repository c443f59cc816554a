"""The law (SEMANTICS): the rows are a function of the admitted packets, and nothing else changes them.

The first cases of `fuzz`, which are random packets, queries and settings, and all that ever failed: on the reference
engine here, and the first of them on Spark in `test_law_spark`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.plan.queryset import plan_texts
from tests.law.cases import FAMILIES, case
from tests.law.compare import REFERENCE
from tests.law.found import FOUND
from tests.law.fuzz import SAME, Outcome, accepted, check, run_case
from tests.law.questions import Question, questions
from tests.plan.batch_pools import CONTEXT, KNOWN

CASES = 300
BLOCK = 50


def test_a_number_names_one_case() -> None:
    assert case(7) == case(7) != case(8)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """What has become of the cases so far."""
    return []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_rows_of_the_reference_engine_are_those_of_the_oracles(first: int, outcomes: list[Outcome]) -> None:
    """`python -m tests.law.fuzz --seed N` shows a case that fails."""
    found = [run_case(seed, REFERENCE) for seed in range(first, first + BLOCK)]
    assert [each for each in found if each.outcome != SAME] == []
    outcomes += found


@pytest.mark.slow
def test_the_cases_hold_something(outcomes: list[Outcome]) -> None:
    assert len(outcomes) == CASES and not any(each.refused for each in outcomes)
    assert {family for each in outcomes for family in each.families} == set(FAMILIES)
    assert sum(each.rows > 0 for each in outcomes) > CASES * 3 // 4
    assert {name for each in outcomes for name in each.beside} == {"SQL", "batch"}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FOUND))
def test_what_failed_once_on_the_reference_engine(name: str) -> None:
    run, _ = accepted(FOUND[name], REFERENCE)
    check(run, REFERENCE)


@given(questions(), st.integers(1, 8))
def test_split_plans_read_the_same_packets_as_whole_ones(question: Question, slots: int) -> None:
    plan = plan_texts([("q.gsql", question.text)], KNOWN, 1 << slots, CONTEXT)
    (query,) = plan.queries
    assert query.high.fields == query.logical.fields
    assert {lfta.slots for lfta in plan.lftas if lfta.aggregates} <= {1 << slots}
