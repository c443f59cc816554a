"""A driver on the cluster: it lives on when its task dies, is started again when it dies, and the next try finds it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lowwater.storage import paths
from scripts.machines import Cluster
from tests.airflow.conftest import wait
from tests.airflow.drivers import SPAN, TASK, cluster_for_drivers, drivers, task, until
from tests.replay.support import ROOT


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_for_drivers(tmp_path_factory.mktemp("machines")) as running:
        yield running


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_driver_outlives_its_task_and_its_error_is_found_by_the_next_try(machines: Cluster) -> None:
    """The driver of a lake that has nothing, which ends before it needs Spark; `drivers` has a whole interval."""
    lake = machines.lake("nothing")
    paths.write(lake / "lowwater.toml", b"")
    with task(machines, lake, "run-1", *SPAN, "--stage", "low") as first:
        until(first, "is submitted")
        assert wait(drivers, 600, 0.05), "no driver"
        (driver,) = drivers()
        driver.suspend()  # else it ends within seconds
        first.send_signal(signal.SIGKILL)
    assert driver.is_running(), "the driver dies with its task"
    driver.kill()  # the worker starts it again
    with task(machines, lake, "run-1", *SPAN, "--stage", "low") as second:
        lines = until(second, "ERROR")
    assert "is found" in lines[0] and not [line for line in lines if "is submitted" in line], lines
    assert lines[-1].startswith("ERROR QueryError "), lines
    assert [*paths.files_below(lake / "_drivers")] == [], "the notes of a try that ended stay"


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
    said = subprocess.run([*command, *SPAN], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    server.shutdown()
    server.server_close()
    assert said.startswith(f"ERROR ChildDied {address} takes no driver: standby")
