"""A run on a standalone Spark cluster, named as the Airflow connection names it: the rows of a local session."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from lowwater.instants import HOUR, format_instant
from tests.airflow.conftest import wait
from tests.replay.support import DEMO, QUERIES, ROOT, START, table_rows

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """Address of a master with one worker, both on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spark = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_HOME": str(spark.parents[1]), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_WORKER_DIR": str(tmp_path / "worker"), "SPARK_NO_DAEMONIZE": "1"}
    deploy = "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = [
        f"{deploy}.worker.Worker",
        "--host",
        "127.0.0.1",
        "--webui-port",
        "0",
        "--cores",
        "2",
        "-m",
        "2g",
        address,
    ]
    log = tmp_path / "cluster.log"
    processes = []
    try:
        with log.open("w") as said:
            for command in (master, worker):
                processes.append(psutil.Popen([str(spark), *command], env=environment, stdout=said, stderr=said))
        assert wait(lambda: "Successfully registered with master" in log.read_text(), 90), log.read_text()
        yield address
    finally:
        family = [child for process in processes for child in process.children(recursive=True)]
        for process in [*processes, *family]:
            if process.is_running():
                process.kill()
        psutil.wait_procs(processes, 10)


def test_rows_of_a_standalone_cluster(cluster: str, lake: Path, published: Path, tmp_path: Path) -> None:
    span = ["--from", format_instant(START), "--to", format_instant(START + HOUR)]
    outcome = tmp_path / "outcome.json"
    command = [sys.executable, str(ROOT / "spark_apps" / "replay.py"), "demo", "--lake", str(lake), *span]
    command += ["--queries", str(QUERIES), "--outcome", str(outcome)]
    environment = {**os.environ, "LOWWATER_SPARK_MASTER": cluster}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + outcome.read_text()
    for query in DEMO:
        expected = table_rows(published, query, START, START + HOUR)
        assert table_rows(lake, query) == expected != []
