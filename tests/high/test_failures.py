"""One clear error from what Spark says of a failed query."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from lowwater.errors import LowwaterError
from lowwater.high.failures import UnstartedError, translate
from tests.law.cases import case, whole
from tests.law.compare import SPARK
from tests.law.fuzz import check
from tests.law.questions import Question

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAID = """[STREAM_FAILED] Query [id = aae9ab8b, runId = 8d4dc394] terminated with exception: {} SQLSTATE: XXKST
=== Streaming Query ===
Identifier: sampled:rows [id = aae9ab8b, runId = 8d4dc394]
Current State: ACTIVE

Logical Plan:
~WriteToMicroBatchDataSourceV1 ForeachBatchSink
+- ~Project [tb#24867L]
   +- Range (0, 1, step=1, splits=Some(2))
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (SAID.format("Python worker failed to connect back."), "Python worker failed to connect back."),
        (SAID.format("Job aborted."), "Job aborted."),
        (
            SAID.format("Job aborted.") + "Caused by: java.io.IOException: No space left on device\n",
            "No space left on device",
        ),
        ("", "no message"),
    ],
)
def test_the_cause_is_what_is_said_and_not_the_plan(text: str, cause: str) -> None:
    error = translate("q", PySparkException(text))
    assert error.message == f"query q: Spark failed: {cause}"


def test_a_process_that_did_not_start_is_told_apart() -> None:
    assert isinstance(
        translate("q", PySparkException(SAID.format("Python worker failed to connect back."))), UnstartedError
    )
    assert type(translate("q", PySparkException(SAID.format("Job aborted.")))) is LowwaterError


@pytest.mark.spark
def test_a_process_that_starts_too_late_costs_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, slow = tmp_path / "tried", tmp_path / "python"
    late = f'case "$*" in *driver_worker*) mkdir "{tried}" && exec sleep 12;; esac'
    slow.write_text(f'#!/bin/sh\n{late}\nexec "{sys.executable}" "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(slow))
    text = "DEFINE{query_name 'q';} SELECT tb, median_of(len) FROM main1.TCP GROUP BY time/10 AS tb"
    asked = Question("q", text, "", "")
    assert check(whole(replace(case(4), asked=(asked,))), SPARK, spark) > 0
    assert tried.exists()
