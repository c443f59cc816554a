"""G1: the verdicts on flush policies, over rates that are given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from experiments import g1
from experiments.frame import Measurement
from tests.experiments.broken import said

PAPER = {"IOP": 0.4, "OOP": 0.76, "OOP(sf)": 0.8, g1.SCALED: 0.8}


def rows(rate: Callable[[str, int, str], float]) -> list[Measurement]:
    return [
        {
            "policy": policy,
            "groups": groups,
            "size": size,
            **dict.fromkeys(("sustained", "bare", "small"), rate(policy, groups, size)),
            **dict.fromkeys(("served", "busy", "rows", "longest", "system", "faults", "step"), 1),
        }
        for policy in (*g1.POLICIES, g1.SCALED)
        for groups in g1.GROUPS
        for size in g1.SIZES
    ]


def paper(policy: str, groups: int, size: str) -> float:
    if groups == 1 << 16:
        return 0.8
    return PAPER[policy] * (0.5 if policy == "IOP" and size == "1" else 1)


def test_the_numbers_of_the_paper_hold() -> None:
    assert said(g1.EXPERIMENT, rows(paper)) == [True] * 5


def test_a_policy_without_effect_turns_the_verdicts() -> None:
    found = g1.EXPERIMENT.verdicts(rows(lambda policy, groups, size: 0.4))
    assert [each.holds for each in found] == [False, False, True, False, False]
    assert found[0].cause and found[1].cause


@pytest.mark.parametrize("policy", [*g1.POLICIES, g1.SCALED])
def test_a_point_knows_its_longest_step(policy: str) -> None:
    point = g1.measure(g1.query(), policy, 1 << 10, "2", 20_000, 1, g1.CAPACITY)
    assert 0 < point.sustained <= point.served and 0 <= point.system <= point.longest
    assert point.small <= point.bare and 0 <= point.step < 5
