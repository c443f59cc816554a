"""A cluster whose workers share only an S3 server with the driver: the published rows are those of one process."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath

import psutil
import pytest
from lowwater_generator import GeneratedCapture

from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_replays
from lowwater.storage import paths
from scripts.machines import Cluster, cluster, environment
from tests.replay.support import DEMO, QUERIES, ROOT, START, lowwater, table_rows, write_settings
from tests.storage.servers import DISK

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not DISK.exists():
        pytest.skip("the S3 server is not installed: make .venv/.s3")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("workers cannot be isolated: `unshare --mount` is not allowed here")
    folder = tmp_path_factory.mktemp("machines")
    with cluster(folder, workers=2, resident=True) as running, environment(running.store()):
        yield running


def run(machines: Cluster, *arguments: object) -> str:
    command = [sys.executable, "-m", "lowwater.cli.main", *map(str, arguments)]
    variables = {**os.environ, **machines.environment()}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def killed_while_it_computes(machines: Cluster, file: Path, seen: list[bool]) -> threading.Thread:
    """Kills a worker as soon as it runs tasks.

    Args:
        machines: the cluster.
        file: of the driver.
        seen: takes of each executor whether it sees that file.
    """

    def kill() -> None:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            if names := machines.computing():
                for each in machines.executors():
                    with suppress(psutil.NoSuchProcess):
                        if each.cmdline():  # none of one that has just ended
                            seen.append(Path(f"/proc/{each.pid}/root{file}").exists())
                machines.kill(names[0])
                return
            time.sleep(0.1)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


@pytest.mark.nightly
def test_a_lake_in_the_store_and_a_cluster_that_shares_only_it(
    machines: Cluster, captures: list[GeneratedCapture], published: Path, tmp_path: Path
) -> None:
    """An ingest on the workers, then an hour while one of two workers dies as it computes."""
    lake = machines.lake("stages")
    write_settings(tmp_path)
    pattern = f'captures = "{captures[0].path.parents[1]}/\\2/\\2_%Y%m%dT%H%M%SZ.pcap"\nrotation = "1h"'
    text = re.sub(r"(\[links\.(\w+)\])", rf"\1\n{pattern}", (tmp_path / "lowwater.toml").read_text())
    paths.write(lake / "lowwater.toml", text.encode())
    run(machines, "ingest", "--lake", lake)
    (tmp_path / "queries").mkdir()
    shutil.copy(QUERIES / "demo.gsql", tmp_path / "queries")
    seen = list[bool]()
    killer = killed_while_it_computes(machines, tmp_path / "lowwater.toml", seen)
    span = ("--from", format_instant(START), "--to", format_instant(START + HOUR))
    run(machines, "backfill", "--lake", lake, "--queries", tmp_path / "queries", *span)
    killer.join(60.0)
    assert not killer.is_alive(), "no worker ran a task"
    assert seen and not any(seen), "executors see no file of the driver"
    for query in DEMO:
        assert table_rows(lake, query) == table_rows(published, query, START, START + HOUR) != []
    assert [*paths.files_below(lake / "_work")] == []
    assert_told(lake)


def assert_told(lake: PurePath) -> None:
    """The ledger and the metrics say where tasks ran, and which were tried again."""
    rows = [row for row in read_replays(open_lake(lake, make=False), "demo") if row.stage in ("low", "high")]
    accounts = [json.loads(row.accounting) for row in rows]
    runs = [run for account in accounts for run in account.get("tasks", ())]
    assert runs and all(run["size"] > 0 and run["tries"] >= 1 and run["task"] for run in runs)
    said = lowwater("metrics", "--lake", lake)
    assert said.code == 0, said.err
    assert "lowwater_tasks_again" in said.out
