"""Executors of a cluster as the driver knows them: where they are, which died, and tasks that prefer one of them.

Below `spark_tasks`. Spark's own heartbeats tell the driver of a lost executor: nothing here asks machines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession

from lowwater.cluster import LostExecutor
from lowwater.storage import progress

_DRIVER = "driver"
_NUMBER = re.compile(r"[?&]executorId=([^&]+)")


class Executors:
    """The executors of a session, and those that were lost since this object was made."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext._jsc.sc()
        self._gone = {each.id() for each in self._all() if not each.isActive()}
        progress.sign("spark", self._done)

    def _all(self) -> list[Any]:
        """Spark's summaries of the executors that it has known, without the driver."""
        summaries = self._context.statusStore().executorList(False)
        every = [summaries.apply(at) for at in range(summaries.size())]
        return [each for each in every if each.id() != _DRIVER]

    def _done(self) -> list[tuple[str, int]]:
        """Tasks that each executor has ended: a driver that waits for them does nothing else."""
        return [(each.id(), each.completedTasks()) for each in self._all()]

    def cores(self) -> dict[str, int]:
        """Returns machine -> cores of its live executors; empty before the first one has registered."""
        cores: dict[str, int] = {}
        for each in self._all():
            if each.isActive():
                host = _host(each)
                cores[host] = cores.get(host, 0) + each.totalCores()
        return cores

    def hosts(self) -> dict[str, str]:
        """Returns executor -> machine, also of executors that died."""
        return {each.id(): _host(each) for each in self._all()}

    def lost(self) -> list[LostExecutor]:
        """Returns the executors that died since this object was made."""
        gone = [each for each in self._all() if not each.isActive() and each.id() not in self._gone]
        return [LostExecutor(each.id(), _host(each), _reason(each)) for each in gone]


def _host(summary: Any) -> str:
    return str(summary.hostPort()).rpartition(":")[0]


def _reason(summary: Any) -> str:
    reason = summary.removeReason()
    text = str(reason.get()) if reason.isDefined() else ""
    return text.strip().splitlines()[0][:200] if text.strip() else "unknown"


def own_executor() -> str:
    """Returns the number of the executor whose task calls this; empty where Spark does not tell its Python workers."""
    found = _NUMBER.search(os.environ.get("SPARK_LOG_URL_STDERR", ""))
    return os.environ.get("SPARK_EXECUTOR_ID") or (found.group(1) if found else "")


def placed_items(context: SparkContext, items: Sequence[Any], hosts: Sequence[str]) -> RDD[Any]:
    """Returns one task for each item that prefers a machine; after `spark.locality.wait` another one takes it.

    Args:
        context: context of the session.
        items: picklable arguments of the tasks, in the order in which the tasks start.
        hosts: machine that each task prefers; an empty text for any.
    """
    serializer: Any = CPickleSerializer()
    jvm = context._jvm
    assert jvm is not None
    seq = jvm.PythonUtils.toSeq
    pairs = [
        jvm.scala.Tuple2(serializer.dumps(item), seq([host] if host else []))
        for item, host in zip(items, hosts, strict=True)
    ]
    bytes_tag = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").apply(jvm.java.lang.Class.forName("[B"))
    placed = context._jsc.sc().makeRDD(seq(pairs), bytes_tag)
    return RDD(placed.toJavaRDD(), context, serializer)
