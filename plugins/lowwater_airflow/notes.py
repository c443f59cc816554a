"""Writes the note of every run: its interval and what was published, since a green run may still be incomplete.

It listens to Airflow's scheduler and reads only Airflow's database, where tasks store their results.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl
from sqlalchemy.orm import object_session

from lowwater.terminal import shown

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

log = logging.getLogger(__name__)
DAGS = ("replay_", "capture_ingest")
"""Prefixes of the names of DAGs whose runs have an interval."""
MARK = "Interval "
"""Prefix of our line in a note; lines of users stay."""
WHY = "why"
"""Key under which a task stores why its interval is not published."""
LONGEST = 900
"""Largest length of a note, characters; Airflow stores 1,000."""


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """Writes the bounds of the interval when the run begins."""
    _write(dag_run, "")


@hookimpl
def on_dag_run_success(dag_run: DagRun, msg: str) -> None:
    """Writes the published state of the interval."""
    _write(dag_run, _published(dag_run))


@hookimpl
def on_dag_run_failed(dag_run: DagRun, msg: str) -> None:
    """Writes the failed task and the reason."""
    _write(dag_run, _failed(dag_run))


def _write(dag_run: DagRun, text: str) -> None:
    start, end = dag_run.data_interval_start, dag_run.data_interval_end
    if not dag_run.dag_id.startswith(DAGS) or start is None or end is None:
        return
    bounds = f"{MARK}{start:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}"
    line = one_line(f"{bounds}: {text}") if text else bounds
    others = [line for line in (dag_run.note or "").splitlines() if not line.startswith(MARK)]
    dag_run.note = "\n".join([line[: LONGEST - len("\n".join(others))], *others])


def one_line(text: str) -> str:
    """Returns a note as one line. Airflow shows it as Markdown: names of files in it are no links, and load no image.

    Example:
        >>> one_line("a:\n![x](http://evil.example)\u202e <b>")
        'a: ! [x] (http://evil.example)\\u202e <b>'
    """
    plain = " ".join(shown(text).split())  # Airflow leaves HTML out
    return plain.replace("](", "] (").replace("![", "! [")


def _published(dag_run: DagRun) -> str:
    if not dag_run.dag_id.startswith(DAGS[0]):
        return ""
    # A skipped task still has its result of an earlier run.
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
    """Task -> state."""
    session = object_session(dag_run)
    if session is None:
        return {}
    # Without this session, the call would open its own and end the scheduler's, and the note would be lost.
    return {instance.task_id: instance.state for instance in dag_run.get_task_instances(session=session)}


def _left(dag_run: DagRun, task: str, key: str) -> Any:
    """The value that a task of a run stored under a key; None without one."""
    from airflow.models.xcom import XComModel

    session = object_session(dag_run)
    if session is None:
        return None
    query = XComModel.get_many(run_id=dag_run.run_id, key=key, task_ids=task, dag_ids=dag_run.dag_id)
    value = session.scalars(query).first()
    return None if value is None else XComModel.deserialize_value(value)
