"""The column `link` and durations over random worlds, on both engines beside SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.breadth import examples
from tests.law.cases import Case, case_of
from tests.law.compare import PROCESS, REFERENCE
from tests.law.fuzz import check
from tests.law.linked import question

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

BLOCKS, BLOCK = 4, 10
"""Tests, and random cases of each in `make test`; `make fuzz` has more."""


def linked(seed: int) -> Case:
    return case_of(seed, question(seed))


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize("first", range(BLOCKS))
def test_the_reference_engine_beside_sql(first: int) -> None:
    seeds = range(first, first + BLOCKS * examples(BLOCK), BLOCKS)
    assert sum(check(linked(seed), REFERENCE) > 0 for seed in seeds) > len(seeds) // 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_process_beside_the_reference_engine_and_sql(seed: int, runner: Runner) -> None:
    check(linked(seed), PROCESS, runner)
