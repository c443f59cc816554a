"""The law on Spark: the first cases of `fuzz`, and all that ever failed, on the session of the test process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.law.cases import FAMILIES
from tests.law.compare import SPARK
from tests.law.found import FOUND
from tests.law.fuzz import DIFFERENT, REFUSED, accepted, check, run_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

CASES = 12
"""`make fuzz` runs more, behind those of its ledger."""


def test_rows_of_spark_are_those_of_the_oracles(spark: SparkSession) -> None:
    """Of cases that Spark runs, so many; `python -m tests.law.fuzz --engine spark --seed N` shows one."""
    ran, families, rows, seed = 0, set(), 0, 0
    while ran < CASES:
        found = run_case(seed, SPARK, spark)
        assert found.outcome != DIFFERENT, found
        ran, rows, seed = ran + (found.outcome != REFUSED), rows + found.rows, seed + 1
        families.update(found.families)
    assert rows > 10 * CASES and len(families) > len(FAMILIES) // 2


@pytest.mark.parametrize("name", list(FOUND))
def test_what_failed_once_on_spark(name: str, spark: SparkSession) -> None:
    run, why = accepted(FOUND[name], SPARK)
    assert not why
    check(run, SPARK, spark)
