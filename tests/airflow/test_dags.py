"""Every DAG loads, does no work at import, and has the shape that it promises; settings that are wrong say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake
from lowwater.replay.job import Job
from tests.replay.support import QUERIES, ROOT

LOAD = """
import json, os, sys
from airflow.dag_processing.dagbag import DagBag

def loaded(lake):
    os.environ.pop("LOWWATER_LAKE", None)
    if lake is not None:
        os.environ["LOWWATER_LAKE"] = lake
    bag = DagBag(dag_folder=sys.argv[1], bundle_name="tests")
    return {"dags": {dag_id: shape(dag) for dag_id, dag in bag.dags.items()}, "errors": bag.import_errors}

def shape(dag):
    return {
        "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "timetable": type(dag.timetable).__name__,
        "cron": getattr(dag.timetable, "expression", getattr(dag.timetable, "_expression", None)),
        "start": str(dag.start_date),
        "end": str(dag.end_date),
        "catchup": dag.catchup,
        "retries": sorted({task.retries for task in dag.tasks}),
        "pools": {task.task_id: task.pool for task in dag.tasks},
        "params": sorted(dag.params),
        "about": dag.doc_md,
        "runs": dag.max_active_runs,
        "deadline": [each.interval.total_seconds() for each in dag.deadline or []],
        "policy": all(task.retry_policy is not None for task in dag.tasks),
    }

found = [loaded(lake) for lake in json.loads(sys.argv[2])]
heavy = sorted({"pyspark", "deltalake", "great_expectations", "numba", "pyarrow.dataset"} & set(sys.modules))
print("RESULT" + json.dumps([found, heavy]))
"""
SETTINGS = """
[query_sets.flows]
interval = "15min"
processes = "each"

[query_sets.demo]
approval = true
chain_start = "2026-01-01"

[query_sets.more]
files = ["more.gsql"]

[schedule]
deadline = "2h"

[links.main1]
since = "2026-01-01T00:00:00Z"
until = "2026-01-02T00:00:00Z"
"""


HANDS_OVER = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, count(*) AS cnt FROM main1.IPV4 GROUP BY time/60 AS tb, srcIP CLOSING_WHEN count(*) = 0
"""
LENGTHS = "[interval]\nlength = '7min'\n[query_sets.demo]\ninterval = '1h'\n"
WRONG = {
    "[linsk.a]\nskew = '1s'": "unknown key 'linsk'; did you mean 'links'?",
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, dict[str, Any]]:
    """What Airflow makes of the DAGs of each lake, in a process of its own that does no work at import."""
    folder = tmp_path_factory.mktemp("dags")
    hands_over = f'{SETTINGS}\n[query_sets.hosts]\nfiles = ["{folder / "hosts.gsql"}"]\n'
    (folder / "hosts.gsql").write_text(HANDS_OVER)
    lakes = {"right": SETTINGS, "new": hands_over, "prepared": hands_over, **{text: text for text in (LENGTHS, *WRONG)}}
    paths: dict[str | None, str | None] = {None: None}
    for number, (name, settings) in enumerate(lakes.items()):
        lake = open_lake(folder / str(number)).root
        (lake / "lowwater.toml").write_text(settings)
        paths[name] = str(lake)
    Job.open(Path(str(paths["prepared"])), "hosts", folder).prepare()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "LOWWATER"))}
    environment |= {"AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "false"}
    environment |= {"AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "var" / "no-plugins")}
    command = [sys.executable, "-c", LOAD, str(ROOT / "dags"), json.dumps([*paths.values()])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, heavy = json.loads(done.stdout.rpartition("RESULT")[2])
    assert heavy == []
    return dict(zip(paths, found, strict=True))


@pytest.mark.slow
def test_every_dag(loaded: dict[str | None, dict[str, Any]]) -> None:
    found = loaded["right"]
    assert found["errors"] == {}
    dags = found["dags"]
    sets = {"more", *(path.stem for path in QUERIES.glob("*.gsql"))}
    days = sets - {"demo", "flows"}  # where nothing holds an interval before it is published
    looks = {"lowwater_ingest": dags.pop("lowwater_ingest")} | {name: dags.pop(f"keep_{name}") for name in sets}
    assert set(dags) == {
        "capture_ingest",
        "lowwater_digest",
        "lowwater_maintain",
        "lowwater_verify",
        *(f"replay_{name}" for name in sets),
        *(f"backfill_{name}" for name in days),
    }
    assert looks["lowwater_ingest"]["tasks"] == {"ingest": ["refused"], "refused": []}
    behind = {"interval": ["end", "tell"], "tell": [], "end": []}
    assert all(looks[name]["tasks"] == {"look": ["interval"], **behind} for name in sets)
    assert {look["runs"] for look in looks.values()} == {1} and {look["catchup"] for look in looks.values()} == {False}
    assert {look["timetable"] for look in looks.values()} == {"DeltaTriggerTimetable", "AssetOrTimeSchedule"}
    assert dags["capture_ingest"]["tasks"] == {"ingest": ["refused"], "refused": []}
    assert dags["capture_ingest"]["pools"] == {"ingest": "lowwater", "refused": "default_pool"}
    assert dags["replay_more"]["tasks"] == {"interval": []}, "one process, since nothing holds it before it publishes"
    approved = {"wait": ["evaluate"], "evaluate": ["approve"], "approve": ["publish"], "publish": []}
    assert dags["replay_demo"]["tasks"] == approved
    assert (dags["replay_demo"]["runs"], dags["replay_more"]["runs"]) == (1, 16), "a chained set runs in order"
    assert dags["replay_more"]["params"] == ["only", "patience"] and dags["replay_more"]["deadline"] == [7200.0]
    stages = {"wait": ["low"], "low": ["high"], "high": ["audit"], "audit": ["publish"], "publish": []}
    assert dags["replay_flows"]["tasks"] == stages
    assert dags["replay_flows"]["cron"] == "*/15 * * * *"
    pools = {"wait": "default_pool", "evaluate": "lowwater", "approve": "default_pool", "publish": "lowwater"}
    assert dags["replay_demo"]["pools"] == pools and dags["replay_more"]["pools"] == {"interval": "lowwater"}
    for name in days:
        batches = dags.pop(f"backfill_{name}")
        assert batches["tasks"] == behind and batches["cron"] == "0 0 * * *" and not batches["catchup"]
        assert (batches["timetable"], batches["params"]) == ("DaysWhenAsked", ["from", "only", "to"])
    upkeep = dags.pop("lowwater_maintain")
    assert upkeep["tasks"] == {"maintain": []} and upkeep["runs"] == 1 and not upkeep["catchup"]
    verify = dags.pop("lowwater_verify")
    assert verify["tasks"] == {"verify": []} and verify["cron"] == "0 0 * * *" and not verify["catchup"]
    digest = dags.pop("lowwater_digest")
    assert digest["tasks"] == {"tell": []} and digest["cron"] == "0 0 * * *" and not digest["catchup"]
    for name, dag in dags.items():
        assert dag["timetable"] == "WhenAsked", name
        assert dag["start"] == "2026-01-01 00:00:00+00:00"
        assert not dag["catchup"] and max(dag["retries"]) == 3 and dag["policy"]
    assert dags["replay_demo"]["cron"] == "0 * * * *"
    assert dags["replay_demo"]["end"] == "2026-01-01 23:00:00+00:00"
    assert dags["replay_flows"]["end"] == "2026-01-01 23:45:00+00:00"


@pytest.mark.slow
def test_a_set_that_hands_state_over_runs_in_order_once_a_run_has_prepared_it(
    loaded: dict[str | None, dict[str, Any]],
) -> None:
    ordered = []
    for found in (loaded["new"], loaded["prepared"]):
        assert found["errors"] == {}
        dag = found["dags"]["replay_hosts"]
        ordered.append((dag["runs"], "its intervals run in order" in dag["about"]))
    assert ordered == [(16, False), (1, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "said"), [(None, "LOWWATER_LAKE is not set"), *WRONG.items()])
def test_wrong_settings_are_import_errors(
    settings: str | None, said: str, loaded: dict[str | None, dict[str, Any]]
) -> None:
    found = loaded[settings]
    assert all(name.startswith(("lowwater_", "keep_")) for name in found["dags"]), "these have no interval"
    files = {Path(name).name for name in found["errors"]}
    assert files | {"keep.py", "maintenance.py", "misnamed.py"} == {
        "capture_ingest.py",
        "keep.py",
        "maintenance.py",
        "misnamed.py",
        "replay.py",
    }
    assert all(said in text for text in found["errors"].values())


@pytest.mark.slow
def test_a_length_that_no_run_has_takes_no_other_dag_away(loaded: dict[str | None, dict[str, Any]]) -> None:
    """Counterexample: a query set got intervals of 7 hours, which looks run, and no query set had a DAG any more."""
    found = loaded[LENGTHS]
    ((file, said),) = found["errors"].items()
    assert Path(file).name == "misnamed.py"
    assert "there is no DAG capture_ingest: intervals of 7min cannot be scheduled" in said
    sets = {path.stem for path in QUERIES.glob("*.gsql")}
    others = {"lowwater_ingest", "lowwater_digest", "lowwater_maintain", "lowwater_verify"}
    others |= {"replay_demo", "backfill_demo"}
    assert set(found["dags"]) == others | {f"keep_{name}" for name in sets}


@pytest.mark.slow
def test_addresses_of_lakes_in_object_stores(plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowwater_airflow.lineage import identifier, tables
    from lowwater_airflow.settings import Settings

    (table,) = tables("s3://lakes/office", "tables", ["flows"])
    assert table == "s3://lakes/office/tables/flows"
    assert identifier(table) == ("s3://lakes", "office/tables/flows")
    assert identifier("/lakes/office/tables/flows") == ("file", "/lakes/office/tables/flows")
    monkeypatch.setenv("LOWWATER_LAKE", "ftp://lakes/office")
    with pytest.raises(ConfigError, match="LOWWATER_LAKE: ftp://lakes/office"):
        Settings.load()


@pytest.mark.slow
def test_cron_of_every_length_that_divides_a_day(plugins: None) -> None:
    from lowwater_airflow.settings import cron

    minute = 60 * SECOND
    assert [cron(n * minute) for n in (1, 5, 30)] == ["* * * * *", "*/5 * * * *", "*/30 * * * *"]
    assert [cron(n * HOUR) for n in (1, 2, 12, 24)] == ["0 * * * *", "0 */2 * * *", "0 */12 * * *", "0 0 * * *"]
    for length in (7 * minute, 90 * minute, 5 * HOUR, 48 * HOUR, 30 * SECOND):
        with pytest.raises(ConfigError, match="cannot be scheduled"):
            cron(length)
