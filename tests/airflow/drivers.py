"""Drivers on a cluster, for tests: the tasks that submit them. The long test is part of `make endurance-cluster`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from lowwater.capture.generate import GeneratedCapture
from lowwater.instants import HOUR, format_instant
from lowwater.storage import paths
from scripts.machines import Cluster, cluster, environment
from tests.airflow.conftest import wait
from tests.replay.support import DEMO, QUERIES, ROOT, START, lowwater, table_rows, write_settings
from tests.storage.servers import PACKAGES

TASK = """
import json, logging, sys
sys.path.insert(0, sys.argv[1])
from lowwater.storage.paths import lake_path
from lowwater_airflow.remote import Driver
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
lake, master, rest, key = sys.argv[2:6]
arguments = ["demo", "--lake", lake, *sys.argv[6:]]
driver = Driver("replay", arguments, {"LOWWATER_SPARK_MASTER": master}, rest, lake_path(lake) / "_drivers", key)
try:
    print("RESULT", json.dumps(driver.run()), flush=True)
except Exception as error:
    print("ERROR", type(error).__name__, error, flush=True)
"""
SPAN = ("--queries", str(QUERIES), "--from", format_instant(START), "--to", format_instant(START + HOUR))


@contextmanager
def cluster_for_drivers(folder: Path) -> Iterator[Cluster]:
    """A cluster whose master takes drivers; skips the test where it cannot run."""
    if not PACKAGES.is_dir():
        pytest.skip("the S3 server is not installed: make .venv/.s3")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("workers cannot be isolated: `unshare --mount` is not allowed here")
    with cluster(folder, workers=2, memory="2g", takes_drivers=True) as running, environment(running.store()):
        yield running


def task(machines: Cluster, lake: object, key: str, *arguments: str) -> subprocess.Popen[str]:
    """A try of a task: a process that submits or finds the driver."""
    command = [sys.executable, "-c", TASK, str(ROOT / "plugins"), str(lake), machines.master, machines.rest, key]
    variables = {**os.environ, "LOWWATER_REPLAY__MEMORY": "1g"}
    return subprocess.Popen([*command, *arguments], cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], text: str) -> list[str]:
    """The lines that a task says up to one with a text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if text in line:
            return lines
    raise AssertionError(lines)


def drivers() -> list[psutil.Process]:
    """The Python processes of drivers on the workers."""
    script = str(ROOT / "spark_apps" / "replay.py")
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if script in words and "java" not in words[0] and "--deployed" in words:
            found.append(process)
    return found


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_driver_outlives_its_task_and_is_found_by_the_next_try(
    captures: list[GeneratedCapture], published: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An interval of Spark, with its rows; `test_remote` has a driver that ends sooner."""
    with cluster_for_drivers(tmp_path_factory.mktemp("machines")) as machines:
        check_rows(machines, captures, published, tmp_path)


def check_rows(machines: Cluster, captures: list[GeneratedCapture], published: Path, tmp_path: Path) -> None:
    lake = machines.lake("drivers")
    write_settings(tmp_path)
    paths.write(lake / "lowwater.toml", (tmp_path / "lowwater.toml").read_bytes())
    for capture in [capture for capture in captures if capture.start <= START + HOUR]:
        span = f"{format_instant(capture.start)}/{format_instant(capture.end)}"
        said = lowwater("ingest", "--lake", lake, "--link", capture.link, "--covers", span, capture.path)
        assert said.code == 0, said.err
    with task(machines, lake, "run-1", *SPAN) as first:
        until(first, ": RUNNING")
        assert wait(drivers, 60), "no driver"
        (driver,) = drivers()
        first.send_signal(signal.SIGKILL)
    assert driver.is_running(), "the driver dies with its task"
    driver.kill()  # the worker starts it again
    with task(machines, lake, "run-1", *SPAN) as second:
        lines = until(second, "RESULT")
    assert "is found" in lines[0] and not [line for line in lines if "is submitted" in line], lines
    assert '"state": "done"' in lines[-1]
    for query in DEMO:
        assert table_rows(lake, query) == table_rows(published, query, START, START + HOUR) != []
    assert [*paths.files_below(lake / "_drivers")] == [], "the notes of a try that ended stay"
