"""One clear error from what Spark says of a failed query."""

from __future__ import annotations

from typing import Any

import pytest
from grpc import StatusCode
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from lowwater.errors import AwayError
from lowwater.spark.server import lost_in
from lowwater.spark.session import _left
from lowwater.spark.tasks import AGAIN, MEMORY, WORKERS, SparkTasks, lost, name, translate


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "09:30:01 WARN TaskSetManager: Lost task 3.0 in stage 12.0 (TID 44) (10.0.0.3 executor 2): "
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).",
            "Spark: try 1 of task 3 of stage 12 ended without a result on 10.0.0.3, executor 2: Python worker exited "
            "unexpectedly (crashed).",
        ),
        (
            "09:30:01 ERROR TaskSchedulerImpl: Lost executor 2 on 10.0.0.3: worker lost: Not receiving heartbeat",
            "Spark: executor 2 on 10.0.0.3 was lost: worker lost: Not receiving heartbeat",
        ),
        ("09:30:01 WARN TaskSetManager: Lost task 0.0 in stage 1.0 (TID 1) (h executor 1): TaskKilled (cancelled)", ""),
        ("09:30:01 WARN TaskSetManager: Stage 1 contains a task of very large size", ""),
        ("\tat org.apache.spark.scheduler.Task.run(Task.scala:147)", ""),
    ],
)
def test_what_a_server_lost_is_said_in_a_line(line: str, said: str) -> None:
    assert lost_in(line + "\n") == said


class Named:
    """Stands for a session, of which only the identity matters."""


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
        (
            "Cannot start query with name q\n\nJVM stacktrace:\njava.lang.IllegalArgumentException\n\tat a.S.s(S:1)",
            "Cannot start query with name q",
        ),
        ("java.lang.NullPointerException", "java.lang.NullPointerException"),
        ("", "no message"),
        (SAID.format(""), "no message"),
        (
            "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 "
            "in stage 1.0 (TID 10) (localhost executor driver): org.apache.spark.SparkException: Python worker exited "
            "unexpectedly (crashed). Consider this.",
            "Python worker exited unexpectedly (crashed). Consider this.",
        ),
    ],
)
def test_the_cause_is_what_is_said_and_not_the_plan(text: str, cause: str) -> None:
    session: Any = Named()
    error = translate("low", PySparkException(text), session)
    assert error.message == f"low: Spark failed: {cause}"
    assert (error.hint == MEMORY) == ("crashed" in cause) and (error.hint or "").endswith(
        "--debug the whole trace is shown"
    )
    assert not lost(session)


@pytest.mark.parametrize(
    "cause",
    [
        "ModuleNotFoundError: No module named 'lowwater'",
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
        "version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.",
    ],
)
def test_workers_that_lack_what_a_client_needs_are_told(cause: str) -> None:
    text = f"Job aborted.\norg.apache.spark.api.python.PythonException: Traceback (most recent call last):\n{cause}\n"
    session: Any = Named()
    told = translate("ingest", PySparkException(text), session)
    assert told.hint == WORKERS and not lost(session)


@pytest.mark.parametrize(
    "error",
    [
        SparkConnectGrpcException("failed to connect to all addresses", grpc_status_code=StatusCode.UNAVAILABLE),
        PySparkException("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid. Session not found."),
        PySparkException("[NO_ACTIVE_SESSION] No active Spark session found."),
        SparkConnectGrpcException("Stream removed (RST_STREAM)", grpc_status_code=StatusCode.CANCELLED),
        PySparkException("(java.lang.IllegalStateException) Cannot call methods on a stopped SparkContext."),
        PySparkException("Job 3 cancelled because SparkContext was shut down"),
    ],
)
def test_a_server_that_went_away_is_named_with_what_to_do(error: PySparkException) -> None:
    session: Any = Named()
    name(session, "the Spark at sc://spark:15002")
    told = translate("low", error, session)
    assert told.message == "low: the Spark at sc://spark:15002 has ended, or was started again"
    assert told.hint == AGAIN and lost(session)


class Gone:
    """A session whose server has gone before its first request; its tags are those of Spark's client."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.addTag, self.removeTag = self.tags.add, self.tags.remove

    def cloneSession(self) -> None:
        raise PySparkException("[NO_ACTIVE_SESSION] No active Spark session found.")


def test_tasks_say_so_where_the_server_goes_before_their_first_request() -> None:
    session: Any = Gone()
    with pytest.raises(AwayError, match=r"^low: Spark has ended, or was started again"):
        SparkTasks(lambda: session, "low")(len, ["a task"])
    assert session.tags == set()


def test_the_end_of_a_command_asks_a_server_that_went_away_nothing() -> None:
    """Else the client of Spark does, for most of a minute."""
    session: Any = Gone()
    session.client, closed = session, list[bool]()
    session.close = lambda: closed.append(True)
    translate("low", PySparkException("[NO_ACTIVE_SESSION] No active Spark session found."), session)
    _left(session)
    assert closed == [True]
