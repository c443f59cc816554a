"""Chooses the runner of a command: this process, or the Spark that its option, its environment or its settings name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowwater.capture.tables.reader import TaskMap, each_on_threads
from lowwater.config import Config, is_master
from lowwater.errors import ConfigError
from lowwater.extras import require
from lowwater.replay.progress import Progress

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

NO_SPARK = "none"
"""What `--spark` says to do without the Spark that the settings name."""


def named_spark(config: Config, given: str | None = None) -> str | None:
    """Returns the master URL of the Spark that a command uses; None for none.

    Args:
        config: settings of the lake.
        given: value of `--spark`; None to ask LOWWATER_SPARK_MASTER, then the settings.

    Raises:
        ConfigError: the option or the variable names no master.
    """
    for source, value in (("--spark", given), ("LOWWATER_SPARK_MASTER", os.environ.get("LOWWATER_SPARK_MASTER"))):
        if value == NO_SPARK:
            return None
        if value:
            if not is_master(value):
                hint = f"write for example local[*], spark://host:7077, or {NO_SPARK}"
                raise ConfigError(f"{source} {value}: is no master of Spark", hint)
            return value
    return config.spark.master


def runner_of(app: str, config: Config, progress: Progress, given: str | None = None) -> Runner:
    """Makes the runner of a command; starts nothing.

    Args:
        app: the command, as Spark shows it.
        config: settings of the lake.
        progress: reports how long the command waits for Spark.
        given: as for `named_spark`.

    Raises:
        ConfigError: see `named_spark`.
        AbsentExtraError: a Spark is named, and PySpark is not installed.
    """
    master = named_spark(config, given)
    if master is None:
        from lowwater.high.process import InProcess

        return InProcess(config.replay.threads)
    require(f"{app} on {master}", "spark", instead=f"add --spark {NO_SPARK}")
    from lowwater.spark.runner import OnSpark
    from lowwater.spark.sessions import Sessions

    sizes = {"shuffle_partitions": config.replay.partitions or os.cpu_count() or 1}
    return OnSpark(Sessions(app, master, progress.stage, None, driver_memory=config.replay.memory, **sizes))


def ingest_tasks(config: Config, progress: Progress) -> Callable[[Iterable[Path]], TaskMap]:
    """Returns what gives the runner of the tasks of an ingest, by its files; starts nothing.

    Arguments and errors as of `runner_of`.
    """
    if named_spark(config) is None:
        # `InProcess` would load the operators of the high level.
        tasks = partial(each_on_threads, threads=config.replay.threads)
        return lambda files: tasks
    runner = runner_of("lowwater ingest", config, progress)
    return lambda files: runner.ingesting(sum(path.stat().st_size for path in files if path.is_file()))


def task_account(tasks: TaskMap) -> dict[str, Any]:
    """Returns where tasks ran on a cluster and which executors died, for the ledger; else nothing."""
    runs, lost = getattr(tasks, "runs", ()), getattr(tasks, "lost", None)
    account = {"tasks": [asdict(run) for run in runs]} if runs else {}
    gone = [asdict(each) for each in lost()] if lost is not None else []
    return {**account, **({"lost": gone} if gone else {})}


def lost_lines(account: Mapping[str, Any]) -> list[str]:
    """Returns a line for each executor that died, for the report of a run."""
    return [
        f"  lost executor {each['executor']} on {each['host']} ({each['reason']}): its tasks run again on others"
        for each in account.get("lost", ())
    ]
