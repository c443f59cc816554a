"""The process of a task: its errors come back as themselves, decide about the retry, and it dies with the task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from lowwater import errors
from lowwater.instants import HOUR, format_instant
from tests.replay.support import QUERIES, ROOT, START, wait

# Airflow reads its settings when it is first imported, and makes its home then: in a process of its own.
POLICY = """
import sys
sys.path.insert(0, sys.argv[1])
from lowwater import errors
from lowwater_airflow.child import ChildDied
from lowwater_airflow.retries import POLICY, RETRYING
leaves = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.LowwaterError)]
for each in [*leaves, ChildDied, KeyError]:
    error = each([errors.QueryError("x")]) if each is errors.QueryErrors else each("x")
    decision = POLICY.evaluate(error, 1, RETRYING["retries"])
    print("RESULT", each.__name__, decision.action.value)
"""
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
from lowwater_airflow.child import Child
Child("replay", sys.argv[2:]).run()
"""


@pytest.mark.slow
def test_the_kind_of_error_decides_about_the_retry(tmp_path: Path) -> None:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", POLICY, str(ROOT / "plugins")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("RESULT")]
    found = {name: action for _, name, action in lines}
    assert {name for name, action in found.items() if action == "retry"} == {"LakeError", "TakenOverError", "ChildDied"}
    undecided = {name for name, action in found.items() if action == "default"}
    assert undecided == {"LowwaterError", "PartialError", "SparkError", "KeyError"}, done.stderr
    assert {*found.values()} == {"retry", "default", "fail"}, "every other error fails at once"


@pytest.mark.slow
def test_errors_come_back_as_themselves(plugins: None, tmp_path: Path) -> None:
    from lowwater_airflow.child import Child

    with pytest.raises(errors.LakeError, match="there is no lake"):
        Child("replay", arguments(tmp_path / "none")).run()


def arguments(lake: Path) -> list[str]:
    span = ["--from", format_instant(START), "--to", format_instant(START + HOUR)]
    return ["demo", "--lake", str(lake), "--queries", str(QUERIES), *span, "--hold"]


@pytest.mark.spark
def test_the_process_dies_with_its_task(lake: Path, tmp_path: Path) -> None:
    """`kill -9` of the task: neither the process nor its JVM outlives it."""
    with (lake / "lowwater.toml").open("a", encoding="utf-8") as settings:
        settings.write('\n[spark]\nmaster = "local[*]"\n')
    command = [sys.executable, "-c", RUN, str(ROOT / "plugins"), *arguments(lake)]
    with (tmp_path / "log").open("w") as said:
        task = psutil.Popen(command, stdout=said, stderr=said, cwd=ROOT)
    family: list[Any] = []
    try:
        assert wait(lambda: "java" in {each.name() for each in task.children(recursive=True)}, 300)
        family = task.children(recursive=True)
        assert len(family) >= 2
        task.send_signal(signal.SIGKILL)
        assert task.wait(120) == -signal.SIGKILL
        _, alive = psutil.wait_procs(family, 120)
        assert [each.name() for each in alive] == []
    finally:
        for each in [task, *family]:
            if each.is_running():
                each.kill()
    assert not (lake / "tables").exists()
