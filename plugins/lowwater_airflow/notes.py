"""The note of every run: which interval it is of and what became of it; the grid is green for one that is not done too.

Listens to Airflow's scheduler, and asks Airflow's own database alone: what a task has said of its interval lies there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl
from sqlalchemy.orm import object_session

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

log = logging.getLogger(__name__)
DAGS = ("replay_", "capture_ingest")
"""What the names of the DAGs begin with whose runs have an interval."""
MARK = "Interval "
"""What our line of a note begins with; what people write beside it stays."""
WHY = "why"
"""Key under which a task leaves why its interval is not published."""
LONGEST = 900
"""Characters; Airflow keeps 1,000."""


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """The bounds, as soon as the run begins."""
    _write(dag_run, "")


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """What the interval was published as."""
    _write(dag_run, _published(dag_run))


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Which task has failed, and why."""
    _write(dag_run, _failed(dag_run))


def _write(dag_run: DagRun, text: str) -> None:
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if not dag_run.dag_id.startswith(DAGS) or start is None or end is None:
        return
    bounds = f"{MARK}{start:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}"
    line = " ".join(f"{bounds}: {text}".split()) if text else bounds
    others = [line for line in (dag_run.note or "").splitlines() if not line.startswith(MARK)]
    dag_run.note = "\n".join([line[: LONGEST - len("\n".join(others))], *others])


def _published(dag_run: DagRun) -> str:
    if not dag_run.dag_id.startswith(DAGS[0]):
        return ""
    # A task that is skipped keeps what it left when it ran before.
    ran = _states(dag_run).get("publish") != "skipped"
    outcome = _left(dag_run, "publish", "return_value") if ran else None
    if isinstance(outcome, dict) and "state" in outcome:
        return f"{outcome['state']}: {outcome['reason']}" if outcome.get("reason") else str(outcome["state"])
    return str(_left(dag_run, "wait", WHY) or "skipped")


def _failed(dag_run: DagRun) -> str:
    failed = [task for task, state in _states(dag_run).items() if state == "failed"]
    if not failed:
        return "failed"
    why = _left(dag_run, failed[0], WHY)
    prefix = "held: audited and not published; " if failed[0] in ("approve", "publish") else ""
    return f"{prefix}failed in {failed[0]}" + (f": {why}" if why else "")


def _states(dag_run: DagRun) -> dict[str, str | None]:
    """Task -> its state."""
    session = object_session(dag_run)
    if session is None:
        return {}
    # With a session of its own the call would end that of the scheduler, and the run would stay as it was.
    return {instance.task_id: instance.state for instance in dag_run.get_task_instances(session=session)}


def _left(dag_run: DagRun, task: str, key: str) -> Any:
    """What a task of a run has left under a key; None for nothing."""
    from airflow.models.xcom import XComModel

    session = object_session(dag_run)
    if session is None:
        return None
    query = XComModel.get_many(run_id=dag_run.run_id, key=key, task_ids=task, dag_ids=dag_run.dag_id)
    value = session.scalars(query).first()
    return None if value is None else XComModel.deserialize_value(value)
