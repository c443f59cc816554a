"""Every query set in `queries/` has its golden: packets in and rows out on both engines, and the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lowwater.plan.explain import explain
from tests.replay.golden import GOLDEN, names, plan, rows_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def golden(kind: str, name: str) -> str:
    return (GOLDEN / kind / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_has_its_query_file() -> None:
    assert names()
    for kind in ("queries", "plans"):
        assert sorted(path.stem for path in (GOLDEN / kind).iterdir()) == names()


@pytest.mark.parametrize("name", names())
def test_rows_of_the_reference_engine(name: str) -> None:
    assert rows_text(name, "reference") == golden("queries", name)


@pytest.mark.parametrize("name", names())
def test_plan(name: str) -> None:
    text = explain(plan(name))
    assert text == golden("plans", name)
    assert max(len(line) for line in text.splitlines()) <= 120


@pytest.mark.spark
def test_rows_of_spark(spark: SparkSession) -> None:
    made = {name: rows_text(name, "spark", spark) for name in names()}
    assert made == {name: golden("queries", name) for name in names()}
