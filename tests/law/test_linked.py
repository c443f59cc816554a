"""The column `link` and durations over random worlds, on both engines beside SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.law.cases import Case
from tests.law.compare import REFERENCE, SPARK
from tests.law.fuzz import check
from tests.law.joined import case
from tests.law.linked import question

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES, BLOCK = 80, 20


def linked(seed: int) -> Case:
    return case(seed, question(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_the_reference_engine_beside_sql(first: int) -> None:
    assert sum(check(linked(seed), REFERENCE) > 0 for seed in range(first, first + BLOCK)) > BLOCK // 2


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(16))
def test_spark_beside_the_reference_engine_and_sql(seed: int, spark: SparkSession) -> None:
    check(linked(seed), SPARK, spark)
