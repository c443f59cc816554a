"""What changes while an interval is at work."""

from __future__ import annotations

from pathlib import Path

import pytest
from lowwater_review.calendar import tally
from lowwater_review.ledgers import Ledgers

from lowwater.high.process import InProcess
from lowwater.lake.ledgers.runs import read_replays
from lowwater.replay.interval import STAGES, replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import DueSelection, due, statuses
from lowwater.replay.schedule.looks import look
from tests.replay.support import lowwater
from tests.replay.test_looks import TEXT, at, deliver, ingested, lake_of, ran

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


def test_an_hour_that_is_held_is_held_everywhere_also_if_it_was_published_before(tmp_path: Path) -> None:
    """Before, a look evaluated such an hour again and again: it was stale, and nothing said that a person must act."""
    job = lake_of(tmp_path, [0, 2], policy="publish", more="[schedule]\napproval = true")

    def run(stage: str | None, ask: bool) -> str:
        now = Job.open(job.lake.root, "q", tmp_path)
        return replay(now, at(1), at(2), stage, Progress(quiet=True), InProcess(), ask=ask)[0].state

    assert (run(None, ask=True), run("publish", ask=False)) == ("held", "incomplete")
    (tmp_path / "q.gsql").write_text(TEXT.replace("count(*)", "sum(len)"), encoding="utf-8")
    job = Job.open(job.lake.root, "q", tmp_path)
    assert [row.state for row in statuses(job.lake.root, tmp_path)] == ["missing", "stale", "missing"]
    assert run(None, ask=True) == "held"
    (row,) = (row for row in statuses(job.lake.root, tmp_path) if row.start == at(1))
    assert (row.state, row.rows) == ("held", 0) and row.reason.endswith("what was published before is still visible")
    found = look(job, at(3, 30))
    assert ran(found) == [0, 2] and [each.why[:4] for each in found.waits] == ["held"]
    for kinds in (("stale",), ("missing",), ()):
        assert [each.state for each in due(job, DueSelection(at(1), at(2), kinds))] == ["held"]
    said = lowwater("report", "--lake", job.lake.root, "--queries", tmp_path)
    assert "held: audited and not published; what was" in said.out and "3 due" in said.out, said.out
    snapshot = Ledgers(job.lake.root, tmp_path).now()
    assert list(tally(snapshot).values()) == [{"held": 1}]
    assert [each.state for each in snapshot.part(at(1), at(2)).intervals] == ["held"]


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
