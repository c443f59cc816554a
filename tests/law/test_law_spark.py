"""The law on Spark: the cases of `test_law`, three questions at a time, on the session of the test process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lowwater.replay.progress import Progress
from lowwater.replay.scratch import run
from tests.law.compare import request_of, rows_of, same_rows, sql_rows
from tests.law.questions import Question, questions
from tests.law.settings import SECOND, Choice, choices
from tests.law.worlds import World, worlds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


# Each example is a run on Spark: to shrink a failure would take an hour, so it is shown as it was drawn.
@settings(max_examples=12, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
@given(worlds(30), st.tuples(questions("q0"), questions("q1"), questions("q2")), choices((None, None, 60 * SECOND)))
def test_spark_rows_are_those_of_sql(
    spark: SparkSession, world: World, asked: tuple[Question, ...], choice: Choice
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        request = request_of(world, asked, Path(folder), out, choice, "spark")
        summary = run(request, Progress(quiet=True), spark)
        with world.oracle() as oracle:
            for question in asked:
                assert same_rows(rows_of(out, question), sql_rows(oracle, question)), question
        for link, counts in summary["links"].items():
            if "sane" in counts:
                assert counts["sane"] + counts["violating"] == len(world.packets[link])
                assert counts["violating"] == world.violations(link)
