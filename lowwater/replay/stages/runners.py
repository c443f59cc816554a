"""Chooses the runner of a command: this process, or the Spark that its option, its environment or its settings name."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from lowwater import documents, errors, extras
from lowwater.config import Config, names_spark
from lowwater.high.process import InProcess, process_bounds
from lowwater.high.runner import Runner
from lowwater.limits import ROWS_IN_MEMORY, THREAD_BYTES as MEMORY, rows_within
from lowwater.replay.progress import Progress
from lowwater.threads import TaskMap, memory

if TYPE_CHECKING:
    from lowwater.plan.explain.model import MemoryInfo

NO_SPARK = "none"
"""What `--spark` says to do without the Spark that the settings name."""


def named_spark(config: Config, given: str | None = None) -> str | None:
    """Returns master URL or address of the Spark that a command uses, None for none: of `--spark`, if it is given, else
    of LOWWATER_SPARK_MASTER, else of the settings.
    Raises ConfigError if the option or the variable names no master."""
    for source, value in (("--spark", given), ("LOWWATER_SPARK_MASTER", os.environ.get("LOWWATER_SPARK_MASTER"))):
        if value == NO_SPARK:
            return None
        if value:
            if not names_spark(value):
                hint = f"write for example local[*], spark://host:7077, sc://host:15002, or {NO_SPARK}"
                shown = re.split("[;?#]", value)[0]  # the rest may have a token
                raise errors.ConfigError(f"{source} {shown}: is no master of Spark, and no address of a server", hint)
            return value
    return config.spark.named


def runner_of(app: str, config: Config, progress: Progress, given: str | None = None) -> Runner:
    """Makes the runner of a command, which starts nothing; `given` and errors as of `named_spark`.
    Raises AbsentExtraError if a Spark is named, and PySpark is not installed."""
    master = named_spark(config, given)
    if master is None:
        return InProcess(config.replay.threads, config.replay.bytes)
    extras.require(f"{app} on {master.partition('/;')[0]}", "spark", instead=f"add --spark {NO_SPARK}")
    from lowwater.spark.runner import OnSpark
    from lowwater.spark.session import Sessions

    return OnSpark(Sessions(app, master, progress.stage, progress.say), config.replay.bytes)


def ingest_tasks(config: Config, progress: Progress, given: str | None = None) -> TaskMap:
    """Returns what runs the tasks of an ingest; arguments and errors as of `runner_of`."""
    return runner_of("lowwater ingest", config, progress, given).tasks("ingest")


def memory_of(config: Config) -> MemoryInfo:
    """Returns what bounds the memory of a run with some settings on this machine, as both runners take it."""
    from lowwater.plan.explain.model import MemoryInfo

    given, here = config.replay.bytes, memory()
    threads, rows = process_bounds(given, config.replay.threads)
    variable = documents.override({}, os.environ).get("replay.memory")
    source = (variable or "[replay] memory") if given else "all of this machine or its container"
    task = given or MEMORY
    return MemoryInfo(given, source, given or here, threads, rows or ROWS_IN_MEMORY, task, rows_within(task))
