"""A driver on the cluster: it lives on when its task dies, is started again when it dies, and the next try finds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from lowwater.capture.generate import GeneratedCapture
from lowwater.instants import HOUR, format_instant
from lowwater.storage import paths
from scripts.machines import Cluster, environment
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


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not PACKAGES.is_dir():
        pytest.skip("the S3 server is not installed: make .venv/.s3")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("workers cannot be isolated: `unshare --mount` is not allowed here")
    running = Cluster(tmp_path_factory.mktemp("machines"), workers=2, memory="2g", takes_drivers=True)
    try:
        running.start()
        with environment(running.store()):
            yield running
    finally:
        running.stop()


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
    machines: Cluster, captures: list[GeneratedCapture], published: Path, tmp_path: Path
) -> None:
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


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_an_error_of_a_driver_is_that_of_its_task(machines: Cluster) -> None:
    with task(machines, machines.lake("nothing"), "run-2", *SPAN) as process:
        lines = until(process, "ERROR")
    assert lines[-1].startswith("ERROR QueryError "), lines


class Refusing(BaseHTTPRequestHandler):
    """A master that takes no driver."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"action": "CreateSubmissionResponse", "message": "standby", "success": false}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@pytest.mark.slow
def test_a_master_that_takes_no_driver_is_named(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    command = [sys.executable, "-c", TASK, str(ROOT / "plugins"), str(tmp_path), "spark://nowhere:7077", address, "k"]
    said = subprocess.run([*command, *SPAN], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False).stdout
    server.shutdown()
    server.server_close()
    assert said.startswith(f"ERROR ChildDied {address} takes no driver: standby")
