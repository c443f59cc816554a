"""The task of an interval that nothing holds: it waits for links without a slot, skips, or runs all stages."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from lowwater_review import Ledgers
from lowwater_review.pages import render

from lowwater.errors import GapError
from lowwater.lake.tables import interval_page
from lowwater.replay.schedule.due import statuses
from tests.airflow.test_keeping import Task
from tests.replay.test_looks import at, deliver, ingested, lake_of


def context_of(task: Task, hour: int, **params: Any) -> Any:
    begin, end = (datetime.fromtimestamp(at(each) // 10**9, UTC) for each in (hour, hour + 1))
    ti: Any = task
    ti.dag_id, ti.tables = "replay_q", []
    told = SimpleNamespace(
        add=lambda asset, extra: ti.tables.append(asset.name), add_partitions=lambda key: None, extra=None
    )
    task.events = defaultdict(lambda: told)
    return task.context | {"params": params, "data_interval_start": begin, "data_interval_end": end}


@pytest.mark.slow
def test_an_interval_waits_for_its_links_then_runs_and_is_skipped_afterwards(
    plugins: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

    from lowwater_airflow.sensor import RunInterval

    lake = lake_of(tmp_path, [1]).lake.root
    common: Any = {"task_id": "interval", "lake": lake, "queries": tmp_path, "query_set": "q"}

    with pytest.raises(TaskDeferred) as waits:
        RunInterval(**common, patience=3600).execute(context_of(Task(), 0))
    assert waits.value.trigger.look()["missing"][0].startswith("link 'p': no capture covers")
    with pytest.raises(GapError, match="link 'p': no capture covers"):
        RunInterval(**common, patience=3600).execute(context_of(Task(), 0, patience="0s"))
    deliver(tmp_path / "captures", 0)
    ingested(tmp_path)
    task, (_, payload) = Task(), waits.value.trigger.serialize()
    deadline = waits.value.kwargs["deadline"]
    assert waits.value.trigger.look()["status"] == "ready" and payload["deadline"] == deadline
    # What the trigger saw before the capture came, and the task had a slot.
    event = {"status": "gap", "message": "no longer true"}
    outcome = RunInterval(**common, patience=0).resume(context_of(task, 0), event, deadline)
    assert (outcome["state"], outcome["committed"], task.tables) == ("done", True, ["hosts"])
    assert [row.state for row in statuses(lake, tmp_path)] == ["done", "missing"]
    task_of_it = f"dags/replay_q/runs/{quote(task.run_id)}/tasks/interval/mapped/1"
    address = interval_page("q", at(0), at(1))
    shown = [render(Ledgers(lake, tmp_path).now(), address, True, runs=runs) or "" for runs in ("../", "")]
    led, told = (unescape(page) for page in shown)
    assert f'<a href="../../../{task_of_it}" target="_top">replay_q, run {task.run_id}</a>' in led
    assert f"Run by Airflow: replay_q, run {task.run_id}." in told
    task = Task()
    caplog.clear()
    again = RunInterval(**common, patience=0).execute(context_of(task, 0))
    assert again == outcome | {"committed": False} and "starting" not in caplog.text, "no process for nothing"
    assert task.tables == ["hosts"], "a task that died before it told has told nobody"
    with pytest.raises(AirflowSkipException):
        RunInterval(**common, patience=0).execute(context_of(task, 0, only=["stale", "failed"]))
    assert task.left["why"] == "skipped: the interval is not stale or failed"
