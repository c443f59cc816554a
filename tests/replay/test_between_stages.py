"""What changes while an interval is at work: a stage begins again on other inputs, and a run keeps those that it began
with."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.high.process import InProcess
from lowwater.lake.ledgers.runs import read_replays
from lowwater.replay.interval import STAGES, replay, statuses
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from tests.replay.test_looks import at, deliver, ingested, lake_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("stage", STAGES[1:])
def test_each_stage_begins_again_where_an_earlier_one_ran_on_other_inputs(stage: str, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, [0, 1]).lake.root

    def run(stage: str) -> str:
        return replay(Job.open(lake, "q", tmp_path), at(0), at(1), stage, Progress(quiet=True), InProcess())[0].state

    for earlier in STAGES[: STAGES.index(stage)]:
        run(earlier)
    settings = lake / "lowwater.toml"
    settings.write_text(settings.read_text().replace("[links.p]", '[links.p]\nskew = "2s"'))
    assert run(stage) == ("done" if stage == "publish" else stage)
    for later in STAGES[STAGES.index(stage) + 1 :]:
        run(later)
    job = Job.open(lake, "q", tmp_path)
    assert job.inputs(at(0), at(1), job.captures()).published(job.plan.queries[0])
    assert [row.state for row in statuses(lake, tmp_path)] == ["done", "missing"]


def test_what_comes_while_an_interval_is_at_work_is_for_the_next_run(tmp_path: Path) -> None:
    """Its rows are made without the file, so they are no `done` interval."""
    job = lake_of(tmp_path, [1], policy="publish")

    class Late(Progress):
        def say(self, line: str) -> None: ...

        def stage(self, name: str, detail: str) -> object:  # type: ignore[override]
            if name == "publish":
                deliver(tmp_path / "captures", 0)
                ingested(tmp_path)
            return super().stage(name, detail)

    (outcome,) = replay(job, at(0), at(1), None, Late(quiet=True), InProcess())
    assert (outcome.state, outcome.rows) == ("incomplete", {"hosts": 0})
    (row,) = (row for row in read_replays(job.lake, "q") if row.stage == "publish")
    assert row.state == "incomplete" and '"captures": {}' in row.accounting
    assert statuses(job.lake.root, tmp_path)[0].state == "stale"
