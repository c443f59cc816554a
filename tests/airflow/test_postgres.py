"""Airflow over PostgreSQL, its parts started by the commands of `docker/compose.yaml`: a backfill of both DAGs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from lowwater_generator import generate

from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_replays
from lowwater.replay.schedule.due import statuses
from tests.airflow.compose import example, load
from tests.airflow.conftest import LINK, asset_events, script
from tests.postgres import postgres_server
from tests.replay.support import ROOT, START, table_rows, wait

pytestmark = pytest.mark.spark
PARTS = ("api", "scheduler", "scheduler", "dag-processor", "triggerer")
INTERVALS = 2
PART = HOUR // INTERVALS
"""Length of an interval of the query set that hands state over, ns."""
HANDS_OVER = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, count(*) AS cnt FROM main1.IPV4 GROUP BY time/600 AS tb, srcIP CLOSING_WHEN count(*) = 0
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[int]:
    """The port of a PostgreSQL of the test's own, with the database of the compose file."""
    for driver in ("asyncpg", "psycopg2", "openlineage"):
        if importlib.util.find_spec(driver) is None:
            pytest.skip(f"no {driver} here: pip install --no-deps -r docker/requirements.txt")
    password = example()["POSTGRES_PASSWORD"]
    with postgres_server("airflow", password, "airflow") as port:
        yield port


@pytest.fixture(scope="module")
def airflow(postgres: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Airflow's parts, each by its command in the compose file, and the interface to ask it."""
    folder = tmp_path_factory.mktemp("compose")
    generate(folder / "captures", START, 1, ["main1"], rate=2.0, seed=7)
    for name in ("lake", "queries", "airflow"):
        (folder / name).mkdir()
    text = LINK.format(
        name="main1",
        pattern="%Y%m%dT%H%M%SZ",
        since=format_instant(START),
        until=format_instant(START + HOUR),
        policy="fail",
    )
    (folder / "lake" / "lowwater.toml").write_text(f'{text}[query_sets.chain]\ninterval = "30min"\n')
    (folder / "queries" / "chain.gsql").write_text(HANDS_OVER)
    open_lake(folder / "lake")
    home = script("home").Home(folder / "airflow", folder / "lake", folder / "queries")
    home.prepare()  # for its free port, its password and its configuration; what follows stands for the containers
    names = {
        "http://api:8080": home.address,
        "http://localhost:8080": home.address,
        "@postgres/": f"@127.0.0.1:{postgres}/",
        "/airflow/passwords.json": str(folder / "airflow" / "password.json"),
        "/app": str(ROOT),
    }
    here = load(example(), names)
    chosen = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__API__PORT": home.address.rpartition(":")[2],
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
            {"type": "file", "log_file_path": str(folder / "lineage"), "append": True}
        ),
        # A busy machine needs more than the 10 s that a task has to tell its end.
        "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "60",
        "AIRFLOW__CORE__TASK_SUCCESS_OVERTIME": "90",
        "LOWWATER_LAKE": str(folder / "lake"),
        "LOWWATER_QUERIES": str(folder / "queries"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def environment(part: str) -> dict[str, str]:
        own = here.environment(part)
        own.pop("AIRFLOW_CONN_LOWWATER_SPARK", None)  # there is none here
        return own | chosen

    subprocess.run(here.command("prepare"), env=environment("prepare"), check=True, timeout=300, capture_output=True)
    log = folder / "airflow.log"
    parts: list[Any] = []
    try:
        with log.open("w") as said:
            parts += [
                psutil.Popen(here.command(part), env=environment(part), stdout=said, stderr=said) for part in PARTS
            ]
        assert wait(lambda: _healthy(home.address), 400), log.read_text()[-3000:]
        yield home
    finally:
        family = [child for part in parts for child in part.children(recursive=True)]
        for process in [*parts, *family]:
            if process.is_running():
                process.terminate()
        _, alive = psutil.wait_procs([*parts, *family], 20)
        for process in alive:
            process.kill()
        for part in parts:
            part.wait()


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/api/v2/monitor/health", timeout=5) as answer:
            return answer.read().decode().count('"healthy"') == 4
    except OSError:
        return False


def _await_success(airflow: Any, dag: str, runs: int) -> None:
    """Waits until all runs of a DAG have ended, and holds that they did well."""

    def ended() -> list[str]:
        states = [run["state"] for run in airflow.runs(dag)]
        return states if len(states) == runs and set(states) <= {"success", "failed"} else []

    states = wait(ended, 300, 1.0)
    assert states == ["success"] * runs, [(task["task_id"], task["state"]) for task in airflow.tasks(dag)]


@pytest.mark.nightly
def test_two_schedulers_keep_the_order_of_a_set_that_hands_state_over(airflow: Any) -> None:
    """Backfills of both DAGs. No run has prepared the set, so its DAG knows nothing of an order: each run waits for the
    one before."""
    schedulers = airflow.ask("GET", "jobs?job_type=SchedulerJob&is_alive=true")["jobs"]
    assert len(schedulers) == 2
    airflow.ready("capture_ingest", "replay_chain", slots=2)
    first, last = format_instant(START), format_instant(START + (INTERVALS - 1) * PART)
    airflow.backfill("capture_ingest", first, first)
    _await_success(airflow, "capture_ingest", 1)
    airflow.backfill("replay_chain", first, last, parallel=INTERVALS)
    _await_success(airflow, "replay_chain", INTERVALS)
    tasks = airflow.tasks("replay_chain")
    assert {task["try_number"] for task in tasks} == {1}
    stages = read_replays(open_lake(airflow.lake), "chain")
    ended = [(row.interval_start, row.stage) for row in sorted(stages, key=lambda row: row.finished_at)]
    order = [(START + at * PART, stage) for at in range(INTERVALS) for stage in ("low", "high", "audit", "publish")]
    assert ended == order, "no interval begins before the one before it is published"
    rows = [row for row in statuses(airflow.lake, airflow.queries) if row.start < START + HOUR]
    assert [row.state for row in rows] == ["done"] * INTERVALS
    tables = [each["extra"] for each in asset_events(airflow, "hosts")]
    assert len(tables) == INTERVALS
    assert sum(extra["rows"] for extra in tables) == len(table_rows(airflow.lake, "hosts", START, START + HOUR)) > 10
    assert all(extra["rows"] > 0 and extra["verdict"] == "passed" for extra in tables)


def _ends(log: Path) -> dict[str, Any]:
    """The last whole event of each task that has ended, by name."""
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    events = [json.loads(line) for line in lines if line.endswith("\n")]
    return {event["job"]["name"]: event for event in events if event["eventType"] == "COMPLETE"}


@pytest.mark.nightly
def test_openlineage_is_told_of_files_and_tables(airflow: Any) -> None:
    tasks = ("capture_ingest.ingest", "replay_chain.interval")
    # A task tells its end after it has told Airflow of its success, so the run may be over before.
    wait(lambda: {*tasks} <= {*_ends(airflow.lake.parent / "lineage")}, 400)
    ends = _ends(airflow.lake.parent / "lineage")
    assert {*tasks} <= {*ends}, (airflow.lake.parent / "airflow.log").read_text()[-3000:]

    def names(task: str, side: str) -> set[str]:
        return {Path(each["name"]).relative_to(airflow.lake.parent).as_posix() for each in ends[task][side]}

    assert names("replay_chain.interval", "outputs") == {"lake/streams/hosts", "lake/tables/hosts"}
    assert names("replay_chain.interval", "inputs") == {"lake/packets"} == names("capture_ingest.ingest", "outputs")
    assert {name.startswith("captures/main1/main1_") for name in names("capture_ingest.ingest", "inputs")} == {True}
