"""One clear error from what Spark says of a failed query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from lowwater.spark.failures import translate

if TYPE_CHECKING:
    pass

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
