"""The law by both runners: the first cases of `fuzz`, and all that ever failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.breadth import USUAL, each_push, examples
from tests.law.cases import FAMILIES
from tests.law.compare import PROCESS, SPARK
from tests.law.found import FOUND
from tests.law.fuzz import DIFFERENT, REFUSED, SAME, accepted, check, run_case

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.timeout(1800)

CASES = 8 if examples(USUAL) < USUAL else 24
"""Of the process three times as many in `make fuzz`, which runs more of the other two, behind those of its ledger."""

FIRST = 3
"""The first number of the cases of the process: so few have more than half of the families."""

ON_SPARK = (7, 10)
"""Numbers of what runs on Spark: each has rows, and they have four families."""


@pytest.mark.slow
@pytest.mark.hypothesis
def test_rows_of_the_process_are_those_of_the_oracles(runner: Runner) -> None:
    """Of cases that it runs, so many; `python -m tests.law.fuzz --engine process --seed N` shows one."""
    ran, families, rows, seed = 0, set[str](), 0, FIRST
    while ran < CASES:
        found = run_case(seed, PROCESS, runner)
        assert found.outcome != DIFFERENT, found
        ran, rows, seed = ran + (found.outcome != REFUSED), rows + found.rows, seed + 1
        families.update(found.families)
    assert rows > 10 * CASES and len(families) > len(FAMILIES) // 2


@pytest.mark.spark
@pytest.mark.parametrize("seed", ON_SPARK)
def test_rows_of_spark_are_those_of_the_oracles(seed: int, on_spark: Runner) -> None:
    found = run_case(seed, SPARK, on_spark)
    assert (found.outcome, found.refused) == (SAME, {}), found
    assert found.rows > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FOUND))
def test_what_failed_once(name: str, runner: Runner) -> None:
    run, why = accepted(FOUND[name], PROCESS)
    assert not why
    check(run, PROCESS, runner)


@pytest.mark.spark
@pytest.mark.parametrize("name", each_push(FOUND, 16))
def test_what_failed_once_on_spark(name: str, on_spark: Runner) -> None:
    run, why = accepted(FOUND[name], SPARK)
    assert not why
    check(run, SPARK, on_spark)
