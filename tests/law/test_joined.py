"""Joins over joins, and outer joins that a function of both sides decides, over random worlds beside SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from lowwater.errors import QueryError
from lowwater.plan.operators import Join, JoinKind, walk
from tests.breadth import each_push
from tests.law.cases import Case, case_of
from tests.law.compare import PROCESS, REFERENCE, plan_of
from tests.law.fuzz import check
from tests.law.joined import ALL, ONCE as KINDS_ONCE, OUTER, SHAPES, Grammar
from tests.law.questions import Question

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

CHAINS = (0, 3, 14, 22, 36, 45, 47, 48, 54, 63)
ONCE = (36, 1, 47)
"""Numbers of chains with joins that have a left row once: SEMI and ASOF."""
ACROSS = (0, 2, 5, 7, 9, 10)
"""Numbers of what runs on Spark: it has rows, and between them the chains have every form of a join."""


def once(seed: int) -> Case:
    kind = [*KINDS_ONCE][seed % len(KINDS_ONCE)]
    return case_of(seed, Grammar(Random(f"once {seed}"), kinds=ALL).chain(SHAPES[seed % len(SHAPES)], kind))


def chain(seed: int) -> Case:
    return case_of(seed, Grammar(Random(f"chain {seed}")).chain(SHAPES[seed % len(SHAPES)]))


def across(seed: int) -> Case:
    return case_of(seed, Grammar(Random(f"across {seed}")).across(OUTER[seed % len(OUTER)]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", each_push(CHAINS, 3))
def test_chains_of_joins(seed: int, runner: Runner) -> None:
    assert check(chain(seed), PROCESS, runner) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", each_push(ONCE, 3))
def test_chains_of_joins_that_have_a_left_row_once(seed: int, runner: Runner) -> None:
    assert check(once(seed), PROCESS, runner) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", each_push(ACROSS, 3))
def test_functions_of_both_sides(seed: int, runner: Runner) -> None:
    assert check(across(seed), PROCESS, runner) > 0


@pytest.mark.nightly
@pytest.mark.slow
def test_the_reference_engine_on_more_of_them() -> None:
    assert sum(check(chain(seed), REFERENCE) > 0 for seed in range(8)) > 3
    assert sum(check(across(seed), REFERENCE) > 0 for seed in range(6)) > 2


def test_every_form_of_a_join_stands_below_one_and_above_one(tmp_path: Path) -> None:
    """A full outer band stands above only: it has no time, so that nothing could close above it. ASOF has a band."""
    forms = {
        (kind, shape) for kind in JoinKind for shape in ("band", "equality") if not kind.nearest or shape == "band"
    }
    cases = [*map(chain, CHAINS), *map(once, range(24))]
    pairs = [pair for each in cases for pair in stacked(each, tmp_path)]
    assert {(each.kind, shape_of(each)) for pair in pairs for each in pair} == forms
    assert {each.kind for _, each in pairs} == {each.kind for each, _ in pairs} == set(JoinKind)


def test_nothing_joins_the_rows_of_a_full_outer_band(tmp_path: Path) -> None:
    text = (
        "DEFINE{query_name 'j';} SELECT A.time AS ta, B.time AS tb OUTER_JOIN FROM main1.TCP A, main2.TCP B "
        "WHERE A.time <= B.time AND B.time <= A.time + 2;\n"
        "DEFINE{query_name 'q';} SELECT C.time FROM j, control.TCP C WHERE j.ta = C.time"
    )
    with pytest.raises(QueryError, match="no predicate relates a temporal column of each side") as refused:
        plan_of([Question("q", text, "")], 1, tmp_path)
    assert "match by an equality of times in j" in str(refused.value)


def stacked(case: Case, folder: Path) -> Iterator[tuple[Join, Join]]:
    """The joins of a case with the nearest joins below them."""
    plan = plan_of(case.asked, 1, folder)
    (query,) = [each for each in plan.queries if each.name == "q"]
    for node in walk(query.logical):
        if isinstance(node, Join):
            for below in node.inputs():
                joins = [each for each in walk(below) if isinstance(each, Join)]
                yield from ((node, each) for each in joins[-1:])


def shape_of(node: Join) -> str:
    return "equality" if node.window.equality else "band"
