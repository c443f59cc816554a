"""`kill -9` during `high` on Spark, then a retry: the same rows once, nothing left in the lake, no process left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from lowwater.instants import HOUR, format_instant
from tests.replay.support import (
    DEMO,
    QUERIES,
    ROOT,
    START,
    all_tables,
    leftovers,
    replay_range,
    states,
    table_rows,
    wait,
)

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.spark
HOUR_2 = (START + 2 * HOUR, START + 3 * HOUR)
STARTS, DIES = 400.0, 300.0
"""Seconds that a session may take to reach `high` on a busy machine, and its processes to end after the kill."""


@pytest.mark.nightly
def test_kill_during_high_then_retry(published: Path, lake: Path, runner: Runner) -> None:
    log = lake.parent / "killed.log"
    temporary = lake.parent / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with log.open("w") as said:
        child = psutil.Popen(command(lake), cwd=ROOT, stdout=said, stderr=said, env=environment)
    family: list[psutil.Process] = []
    try:
        assert wait(lambda: begun(lake) or child.poll() is not None, STARTS, 0.02), log.read_text()
        family = child.children(recursive=True)
        assert "java" in {process.name() for process in family}
        child.send_signal(signal.SIGKILL)
        assert child.wait(DIES) == -signal.SIGKILL, f"it ended before it was killed: {log.read_text()}"
        assert begun(lake), "the killed run must leave its attempt for the retry to clear"
        _, alive = psutil.wait_procs(family, DIES)
        assert [process.name() for process in alive] == []
    finally:
        for process in [child, *family]:
            if process.is_running():
                process.kill()
    assert not (lake / "tables").exists()
    (outcome,) = replay_range(lake, runner, *HOUR_2)
    assert (outcome.state, outcome.committed) == ("done", True)
    assert all_tables(lake) == {query: table_rows(published, query, *HOUR_2) for query in DEMO}
    assert states(lake)[2, "flows"] == "done"
    assert leftovers(lake) == []


def command(lake: Path) -> list[str]:
    span = ["--from", format_instant(HOUR_2[0]), "--to", format_instant(HOUR_2[1])]
    module = [sys.executable, "-m", "lowwater.cli.main"]
    return [*module, "replay", "demo", "--lake", str(lake), *span, "--queries", str(QUERIES), "--spark", "local[*]"]


def begun(lake: Path) -> list[Path]:
    """Folders of output rows: the high level is at work."""
    return list((lake / "_work").glob("*/*/high/*/rows"))
