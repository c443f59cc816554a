"""A policy of Airflow, which each of its processes loads: names of mapped tasks that wait, and how long tasks wait for
Airflow's own server.

It is loaded while Airflow itself is, so it imports next to nothing.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.policies import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance

log = logging.getLogger(__name__)
DAGS = ("keep_", "lowwater_ingest", "capture_ingest", "backfill_")
"""Prefixes of the names of DAGs with mapped tasks."""
MAPPED_BY = {"interval": "look", "refused": "ingest"}
"""Mapped task -> the task that returns the arguments of each."""
LONGEST = 250
"""Most characters of a name that Airflow stores."""
PATIENCE = {"execution_api_retries": "30", "execution_api_retry_wait_max": "20"}
"""Setting of `[workers]` -> what it is here. By its defaults a task that begins gives Airflow's server some 15 s to
answer, and then has used up a try without having run; after a reboot, and while a server is replaced, that takes
longer. By these it waits for some five minutes, which is less than the ten of `task_queued_timeout`."""


def wait_for_the_server() -> None:
    """Lets tasks wait for Airflow's server, unless the settings of this Airflow say how long."""
    if any(conf.get("workers", name) != conf.get_default_value("workers", name) for name in PATIENCE):
        return
    for name, ours in PATIENCE.items():
        # The SDK, which asks the server, reads the settings anew: both know the environment.
        os.environ[f"AIRFLOW__WORKERS__{name.upper()}"] = ours


@hookimpl
def task_instance_mutation_hook(task_instance: TaskInstance, dag_run: DagRun | None) -> None:
    """Names a mapped task when Airflow makes it, or makes it anew after it was cleared, by what the task before it has
    returned; Airflow itself names it when it runs."""
    source = MAPPED_BY.get(task_instance.task_id)
    if source is None or task_instance.map_index < 0 or not task_instance.dag_id.startswith(DAGS):
        return
    if task_instance._rendered_map_index is not None and task_instance.state is not None:
        return
    try:
        title = _title(task_instance, dag_run, source)
    except Exception as error:  # noqa: BLE001 - a scheduler goes on without a name
        log.warning("%s has no name: %s", task_instance, error)
        return
    if title:
        task_instance._rendered_map_index = title[:LONGEST]


def _title(task_instance: TaskInstance, dag_run: DagRun | None, source: str) -> str:
    from airflow.models.xcom import XComModel
    from sqlalchemy.orm import object_session

    if task_instance.dag_id.startswith("backfill_"):
        return _range(dag_run or task_instance.dag_run)
    session = object_session(task_instance) or object_session(dag_run)
    if session is None:
        return ""
    asked: dict[str, Any] = {"run_id": task_instance.run_id, "dag_ids": task_instance.dag_id, "task_ids": source}
    with session.no_autoflush:  # the task may not be wholly made
        value = session.scalars(XComModel.get_many(key="return_value", **asked)).first()
    found = None if value is None else XComModel.deserialize_value(value)
    return str(found[task_instance.map_index]["title"]) if found else ""


def _range(dag_run: DagRun) -> str:
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    return f"{start:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}" if start and end else ""


wait_for_the_server()
