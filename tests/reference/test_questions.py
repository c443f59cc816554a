"""The law for every construct: random queries and packets, beside the batch evaluator, whole and in intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.catalog import state_json
from lowwater.catalog.builtin import supergroups
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Catalog, StateFunction
from lowwater.plan.context import Context
from lowwater.plan.queryset import plan_texts
from tests.breadth import examples
from tests.plan.batch_join_questions import CHAINS
from tests.plan.batch_plans import Plans, plans_of, rows_of as batch_rows
from tests.plan.batch_pools import CONTEXT, KNOWN
from tests.plan.batch_questions import FAMILIES, Question
from tests.plan.batch_rows import World
from tests.plan.batch_worlds import BASE, SECOND, world
from tests.reference.feeds import arriving, owned_rows, pieces, rows_of, whole, write_watch_list
from tests.reference.streams import check_grammar

pytestmark = pytest.mark.slow
PERIODS = st.sampled_from((SECOND // 10, SECOND, 5 * SECOND, 61 * SECOND))
POLICIES = st.sampled_from(("periodic", "data-driven", "none"))
CUTS = st.lists(st.integers(-10, 700), max_size=4, unique=True).map(
    lambda found: [BASE + cut * SECOND // 3 for cut in sorted(found)]
)


@dataclass
class Counted(supergroups.SamplingState):
    """A state that knows how often it was called, so that one call more or in another order gives other rows."""

    calls: int = 0


def counted(function: StateFunction) -> StateFunction:
    """The function as the batch evaluator has it."""

    def value(state: Counted, groups: int, *arguments: Any) -> Any:
        state.calls += 1
        found = crc32(repr((function.name, state.calls, list(arguments))).encode()) % 97
        return found % 3 != 0 if function.returns is Type.BOOL else found

    return replace(function, value=value)


def context() -> Context:
    known = CONTEXT.catalog
    catalog = Catalog(known.functions, known.aggregates, tuple(counted(each) for each in known.states))
    return replace(CONTEXT, catalog=catalog)


@pytest.fixture(autouse=True)
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch list of the worlds in the working folder, and states that count."""
    write_watch_list(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lowwater.stream.groups.STATE_CLASSES", dict.fromkeys(supergroups.STATE_CLASSES, Counted))
    monkeypatch.setitem(state_json._CLASSES, "Counted", Counted)


def check(plans: Plans, made: World, cuts: list[int], period: int, policy: str) -> int:
    """Holds the engine against the batch evaluator, and its intervals against the whole; how many rows there are."""
    found = whole(plans.logical, made, period, policy)
    check_grammar(found)
    expected, ours = batch_rows(plans.bound, made), rows_of(found)
    missing, extra = list((expected - ours).items())[:4], list((ours - expected).items())[:4]
    assert ours == expected, f"missing {missing}, too many {extra}"
    parts = pieces(plans.logical, made, cuts, period, policy)
    again, once = owned_rows(*parts), owned_rows(found)
    missing, extra = list((once - again).items())[:4], list((again - once).items())[:4]
    assert again == once, f"in intervals missing {missing}, too many {extra}"
    return ours.total()


@pytest.mark.parametrize("family", {**FAMILIES, **CHAINS})
@pytest.mark.hypothesis
def test_rows_are_those_of_the_batch_evaluator_whole_and_in_intervals(family: str) -> None:
    seen: list[int] = []

    @settings(max_examples=examples(12))
    @given({**FAMILIES, **CHAINS}[family](), st.integers(0, 1 << 20), CUTS, PERIODS, POLICIES)
    def run(question: Question, seed: int, cuts: list[int], period: int, policy: str) -> None:
        for plans in plans_of(question.text, KNOWN, context()):
            made = arriving(world(seed, plans.links, catalog=CONTEXT.catalog))
            count = check(plans, made, cuts, period, policy)
        seen.append(count)

    run()
    # Some conditions exclude one another; a family without rows would hold nothing.
    assert any(seen)


CARRIED = {
    "rows_and_epochs": (
        "SELECT wid, tb, k, count(*), FIRST(len) FROM [pair].ETH [RANGE 5 ROWS, SLIDE 3 ROWS] "
        "GROUP BY time/10 AS tb, srcIP AS k"
    ),
    "windows_of_windows_of_rows": (
        "DEFINE{query_name 'r';} SELECT wid AS w, srcIP AS k, sum(len) AS s FROM [pair].ETH "
        "[RANGE 5 ROWS, SLIDE 3 ROWS] GROUP BY srcIP; "
        "DEFINE{query_name 'q';} SELECT w2, count(*), sum(s) FROM r GROUP BY w/4 AS w2"
    ),
    "groups_of_running_groups": (
        "DEFINE{query_name 'r';} SELECT tb, srcIP AS k, count(*) AS n, running_sum(len) AS s FROM [pair].ETH "
        "GROUP BY time/7 AS tb, srcIP CLOSING_WHEN count(*) = 0; "
        "DEFINE{query_name 'q';} SELECT t2, k, count(*), sum(s), FIRST(n) FROM r GROUP BY tb/4 AS t2, k"
    ),
    "a_join_of_running_groups": (
        "DEFINE{query_name 'r';} SELECT tb, srcIP AS k, count(*) AS n, running_sum(len) AS s FROM [pair].ETH "
        "GROUP BY time/7 AS tb, srcIP CLOSING_WHEN count(*) = 0; "
        "DEFINE{query_name 'q';} SELECT A.tb, A.k, B.n FROM r A LEFT JOIN r B WHERE A.tb + 1 = B.tb AND A.k = B.k"
    ),
}
"""Operators above those that carry a state, and progress by rows and by the clock at once."""


@pytest.mark.parametrize("query", CARRIED.values(), ids=list(CARRIED))
def test_what_stands_above_a_state_is_carried_too(query: str) -> None:
    node, seen = plan_texts([("q.gsql", query)], KNOWN).queries[-1].logical, 0
    for seed in range(12):
        chance, made = Random(seed), arriving(world(seed, ("main1", "main2")))
        cuts = [BASE + cut * SECOND // 3 for cut in sorted(chance.sample(range(-5, 400), 3))]
        found = whole(node, made)
        parts = pieces(node, made, cuts, SECOND, chance.choice(("periodic", "none", "data-driven")))
        assert owned_rows(*parts) == owned_rows(found)
        seen += len(found.rows)
    assert seen
