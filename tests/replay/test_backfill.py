"""A backfill in any order, in parallel, with failures and kills: the tables of one sequential run."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from lowwater import limits
from lowwater.cli.backfills import run_backfill
from lowwater.cli.plans import IntervalSelection
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.locks import hold_range
from lowwater.replay.job import Job
from lowwater.replay.schedule import backfill as backfills
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult, Order, backfill
from lowwater.replay.schedule.due import Due, DueSelection, due
from tests.replay.support import (
    END,
    HOURS,
    QUERIES,
    ROOT,
    START,
    all_tables,
    copy_lake,
    leftovers,
    lowwater,
    states,
    wait,
    write_settings,
)

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.slow
TO = "2026-01-01T03:00Z"
ENDS = 300.0
"""Seconds that a backfill of three hours may take on a busy machine."""


def run(lake: Path, runner: Runner, workers: int = 1, order: Order = Order.OLDEST) -> list[IntervalResult]:
    job = Job.open(lake, "demo", QUERIES)
    tried = backfill([job], due(job, DueSelection(None, END)), workers, order, runner=runner)
    return sorted(tried, key=lambda each: each.due.start)  # one is evaluated while another is published


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each interval is a batch of its own."""
    monkeypatch.setattr(limits, "BATCH_INTERVALS", 1)


@pytest.mark.usefixtures("one_by_one")
def test_newest_first_and_two_at_once(published: Path, lake: Path, runner: Runner) -> None:
    begun: list[Due] = []
    ended: list[IntervalResult] = []
    job = Job.open(lake, "demo", QUERIES)
    tried = backfill(
        [job], due(job, DueSelection(None, END)), 2, Order.NEWEST, BackfillListener(begun.append, ended.append), runner
    )
    assert max(begun[0].start, begun[1].start) == START + 2 * HOUR
    assert tried == ended and {each.state for each in tried} == {"done", "incomplete"}
    assert all_tables(lake) == all_tables(published)
    assert states(lake) == states(published)
    assert due(job, DueSelection(None, END)) == []
    assert leftovers(lake) == []


@pytest.mark.usefixtures("one_by_one")
def test_each_is_audited_after_the_one_before_is_published(lake: Path, runner: Runner) -> None:
    """With one worker, so that what an audit compares with does not depend on how long it takes."""
    run(lake, runner)
    audited, published = [
        {row.interval_start: row for row in read_replays(open_lake(lake), "demo") if row.stage == stage}
        for stage in ("audit", "publish")
    ]
    begun = {at: row.finished_at - json.loads(row.timings)["audit"] * SECOND for at, row in audited.items()}
    assert [begun[at + HOUR] > published[at].finished_at for at in sorted(begun)[:-1]] == [True] * (HOURS - 1)


def test_one_that_cannot_run_does_not_stop_the_others(lake: Path, runner: Runner) -> None:
    write_settings(lake, policy="fail")
    tried = run(lake, runner)
    assert [each.state for each in tried] == ["done", "waiting", "done"]
    assert "link 'control': no capture covers" in tried[1].reason and not tried[1].published
    assert states(lake)[1, "flows"] == "missing"
    said = lowwater("backfill", "--lake", lake, "--queries", QUERIES, "--to", TO)
    assert said.code == 1 and said.out == "waiting 1\n"
    assert "demo 2026-01-01T01:00:00Z: waiting: link 'control': no capture covers" in said.err
    stale = lowwater("backfill", "--lake", lake, "--queries", QUERIES, "--to", TO, "--only", "stale")
    assert stale.out == "nothing is due\n"


def test_a_failed_interval_does_not_stop_the_others(lake: Path, runner: Runner) -> None:
    victim = next((lake / "packets" / "link=main2").glob(f"hour={START // HOUR + 1}/*.parquet"))
    whole = victim.read_bytes()
    victim.write_bytes(b"PAR1" + bytes(len(whole) - 8) + b"PAR1")
    tried = run(lake, runner)
    assert [each.state for each in tried] == ["done", "failed", "done"]
    assert states(lake)[1, "flows"] == "failed"
    victim.write_bytes(whole)
    (again,) = run(lake, runner)
    assert (again.state, again.due.state) == ("incomplete", "failed")


def test_a_chained_set_runs_in_order_and_stops_at_a_failure(lake: Path, runner: Runner) -> None:
    write_settings(lake, policy="fail")
    path = lake / "lowwater.toml"
    path.write_text(path.read_text().replace("[query_sets.demo]", '[query_sets.demo]\nchain_start = "2026-01-01"'))
    tried = run(lake, runner, workers=2, order=Order.NEWEST)
    assert [(each.due.start - START) // HOUR for each in tried] == [0, 1, 2]
    assert [each.state for each in tried] == ["done", "waiting", "waiting"]
    assert "an earlier interval of its chain" in tried[2].reason


def test_killed_and_started_again(published: Path, lake: Path) -> None:
    """`kill -9` of the process by chance, maybe behind its end; started again, it ends with the same tables."""
    seed = random.randrange(1 << 30)
    print(f"seed of the kills: {seed}")
    chance = random.Random(seed)
    log, temporary = lake.parent / "backfill.log", lake.parent / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "lowwater.cli.main", "backfill", "--lake", str(lake), "--jobs", "2"]
    command += ["--queries", str(QUERIES), "--to", TO, "--order", "random"]

    def started() -> psutil.Popen:
        with log.open("a") as said:
            return psutil.Popen(
                command, cwd=ROOT, stdout=said, stderr=said, env=os.environ | {"TMPDIR": str(temporary)}
            )

    child = started()
    processes = [child]
    try:
        assert wait(lambda: [*(lake / "_work").glob("run_of_demo*/*")] or child.poll() is not None, ENDS, 0.02)
        time.sleep(chance.uniform(0, 1))
        processes += child.children(recursive=True)
        child.send_signal(signal.SIGKILL)
        assert child.wait(ENDS) in (-signal.SIGKILL, 0), log.read_text()
        psutil.wait_procs(processes, 30)
        processes.append(started())
        assert processes[-1].wait(ENDS) == 0, log.read_text()
    finally:
        for process in processes:
            if process.is_running():
                process.kill()
    assert all_tables(lake) == all_tables(published)
    assert states(lake) == states(published)
    assert leftovers(lake) == []


def test_what_runs_elsewhere_is_running_and_then_what_the_other_made_of_it(
    published: Path, tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    write_settings(lake, skews={"control": "2s"})
    job, second = Job.open(lake, "demo", QUERIES), START + HOUR
    monkeypatch.setattr(backfills, "PAUSE", 0.05)
    monkeypatch.setattr(backfills, "PATIENCE", 0.3)
    selection = IntervalSelection(lake, second, second + HOUR, (), (), False, QUERIES)
    with hold_range(job.lake, "demo", second, second + HOUR):
        assert run_backfill(selection, 1, "oldest"), "nothing has failed"
        said = capsys.readouterr()
        assert said.out == "running 1\n" and "1 interval runs elsewhere, and is waited for" in said.err
        assert f"process {os.getpid()}" in said.err and "failed" not in said.out + said.err
        for command in ("status", "plan"):
            shown = " ".join(lowwater(command, "--lake", lake, "--queries", QUERIES).out.split())
            assert "running" in shown and f"process {os.getpid()}" in shown
        (running,) = (each for each in due(job, DueSelection()) if each.running)
        assert running.start == second
    monkeypatch.setattr(backfills, "PATIENCE", 600.0)
    waited = threading.Event()
    with ExitStack() as other:
        other.enter_context(hold_range(job.lake, "demo", second, second + HOUR))
        watch = BackfillListener(waits=lambda *_: waited.set())
        with ThreadPoolExecutor(1) as pool:
            mine = pool.submit(
                backfill, [job], due(job, DueSelection(START, second + HOUR)), 1, watch=watch, runner=runner
            )
            assert waited.wait(ENDS)
            other.close()
            assert [each.state for each in mine.result(ENDS)] == ["done", "incomplete"]
    assert states(lake)[1, "flows"] == "incomplete"


def test_rows_are_told_with_the_states_of_status(lake: Path, runner: Runner) -> None:
    run(lake, runner)
    asked = ("rows", "flows", "--lake", lake, "--queries", QUERIES, "--limit", 1)
    assert " is stale: " not in lowwater(*asked).err
    write_settings(lake, skews={"main1": "2s"})
    assert lowwater(*asked).err.count(" is stale: link main1: skew was 1s, is 2s") == HOURS
    (lake / "lowwater.toml").unlink()  # nothing can be planned: what the ledger says is left
    assert " is incomplete: " in lowwater(*asked[:4], "--queries", lake).err
