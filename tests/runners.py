"""The runner on Spark, over a session that a test has."""

from __future__ import annotations

from concurrent.futures import Future

from pyspark.sql import SparkSession

from lowwater.replay.progress import Progress
from lowwater.spark.runner import OnSpark
from lowwater.spark.session import Sessions


def spark_runner(spark: SparkSession, master: str = "local[*]") -> OnSpark:
    """The runner of a session; `master` says whether it is taken for a cluster."""
    sessions = Sessions("tests", master, Progress(quiet=True).stage)
    sessions._building = Future()
    sessions._building.set_result(spark)
    return OnSpark(sessions)
