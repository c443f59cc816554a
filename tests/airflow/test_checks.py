"""What an Airflow lacks is told where people look, and is mended where that is safe."""

from __future__ import annotations

import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.replay.support import ROOT

pytestmark = pytest.mark.slow
NOTIFY = '[notify]\nconnection = "hook"\n[links.a]\nskew = "1s"\n'


@pytest.fixture
def session(plugins: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A database of Airflow with what the checks ask for, and a lake with two query sets."""
    import airflow.models.asset  # noqa: F401
    from airflow.models.connection import Connection
    from airflow.models.pool import Pool
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    lake = tmp_path / "lake"
    (lake / "queries").mkdir(parents=True)
    (lake / "lowwater.toml").write_text(NOTIFY)
    for name in "pq":
        (lake / "queries" / f"{name}.gsql").write_text("")
    monkeypatch.setenv("LOWWATER_LAKE", str(lake))
    monkeypatch.setenv("LOWWATER_QUERIES", str(lake / "queries"))
    for name in ("HOOK", "LOWWATER_SPARK"):
        monkeypatch.delenv(f"AIRFLOW_CONN_{name}", raising=False)
    monkeypatch.setattr(Connection, "get_connection_from_secrets", _absent)
    engine = create_engine("sqlite://")
    names = ("slot_pool", "asset", "asset_alias", "asset_alias_asset")
    Pool.metadata.create_all(engine, tables=[Pool.metadata.tables[name] for name in names])
    with engine.begin() as connection:  # the columns that are asked for
        connection.exec_driver_sql("CREATE TABLE dag (dag_id TEXT, is_paused BOOLEAN, is_stale BOOLEAN)")
        connection.exec_driver_sql("CREATE TABLE dag_run (dag_id TEXT)")
    with Session(engine, autoflush=False) as made:  # as Airflow's are
        yield made


def _absent(name: str) -> Any:
    from airflow.sdk.exceptions import AirflowNotFoundException

    raise AirflowNotFoundException(name)


def test_the_database_says_what_is_missing(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.connection import Connection
    from sqlalchemy import text

    from lowwater_airflow import alerts, pools
    from lowwater_airflow.checks import loaded, of_connections, of_database

    for name, paused in (("lowwater_ingest", 0), ("keep_p", 1), ("keep_q", 1)):
        session.execute(text(f"INSERT INTO dag VALUES ('{name}', {paused}, 0)"))
    session.execute(text("INSERT INTO dag_run VALUES ('keep_q')"))
    found = {each.about: each for each in of_database(session, loaded())}
    said = [each.what for each in (*of_database(session, loaded()), *of_connections(loaded()))]
    assert "there is no pool lowwater" in said
    assert "[notify] names the connection hook for its webhook, which Airflow does not have" in said
    assert "keep_p was never switched on, so nothing keeps query set p right" in said
    assert "keep_q is paused, so nothing keeps query set q right" in said
    assert not any("lowwater_ingest" in each for each in said)
    assert "PostgreSQL" in found["database"].mend and not found["database"].told
    monkeypatch.setattr(pools, "cores", lambda: 8)
    monkeypatch.setattr(pools, "memory", lambda: 15 << 30)
    assert "made with 3 slots, " in pools.make(session) and pools.make(session) == ""
    assert not any("pool" in each.what for each in of_database(session, loaded()))
    session.execute(text("UPDATE slot_pool SET slots = 0"))
    assert any("has 0 slots" in each.what for each in of_database(session, loaded()))

    monkeypatch.setattr(alerts.Connection, "get", _absent)
    alerts.tell({"kind": "failed", "text": "a run has failed"})
    assert not alerts.has_connection("hook"), "the note of a look tells"

    def cluster(name: str) -> Any:
        return Connection(conn_id=name, conn_type="spark", host="spark://m", extra='{"deploy-mode": "cluster"}')

    monkeypatch.setattr(Connection, "get_connection_from_secrets", cluster)
    assert "connection lowwater_spark: deploy-mode cluster: Lowwater starts no drivers on a cluster" in [
        each.what for each in of_connections(loaded())
    ]


def test_the_asset_of_a_table_is_there_before_it_is_published(session: Any) -> None:
    """Two first publications that end at once would make it twice, and Airflow would fail the second task."""
    from airflow.models.asset import AssetAliasModel, AssetModel
    from sqlalchemy import select

    from lowwater_airflow import assets
    from lowwater_airflow.settings import Settings

    settings = Settings.load()
    (file,) = settings.files("p")
    shown = "DEFINE {{ query_name '{}'; {} }} SELECT len FROM a.IPv4"
    file.write_text(
        "; ".join([shown.format("z", ""), shown.format("y", ""), shown.format("x", "visibility 'internal';")])
    )
    for name in ("keep", "replay"):
        dag = stored(runpy.run_path(str(ROOT / "dags" / f"{name}.py"))[f"{name}_p"])
        assert assets.named_in(dag) == ["y", "z"]
    begin(session, dag)
    assert session.scalars(select(AssetModel.name)).all() == [], "its alias is not there yet"
    session.add_all([AssetAliasModel(name="tables of p"), AssetModel(name="y", uri="lowwater://tables/y")])
    session.flush()
    for _ in range(2):
        begin(session, dag)
    assert sorted(session.scalars(select(AssetModel.name))) == ["y", "z"]
    (alias,) = session.scalars(select(AssetAliasModel))
    assert {each.uri for each in alias.assets} == {assets.table_asset("y").uri, assets.table_asset("z").uri}
    file.write_text("SELECT")
    assert assets.named(settings, "p") == '{"tables": []}'
    file.unlink()
    os.mkfifo(file)
    assert assets.named(settings, "p") == '{"tables": []}'


def stored(dag: Any) -> Any:
    """The DAG as the scheduler has it."""
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def begin(session: Any, dag: Any) -> Any:
    """What the scheduler tells when a run of a DAG begins, in its transaction; the run."""
    from lowwater_airflow import notes

    class Run:
        dag_id, note, data_interval_start, data_interval_end = dag.dag_id, "", None, None

    run = Run()
    run.dag = dag
    with patch.object(notes, "object_session", lambda _: session):
        notes.on_dag_run_running(run, "started")
    return run


def test_the_pool_is_made_when_a_component_starts_and_by_two_runs_that_begin_at_once(session: Any) -> None:
    """It was made by neither, and the scheduler of a new Airflow ended with its first two runs."""
    import airflow.utils.session
    from airflow.jobs.job import Job
    from airflow.listeners.listener import get_listener_manager
    from airflow.models.pool import Pool
    from sqlalchemy import delete, select

    from lowwater_airflow import pools

    dag = stored(runpy.run_path(str(ROOT / "dags" / "keep.py"))["keep_p"])
    runs = [begin(session, dag) for _ in range(2)]
    session.commit()
    assert session.scalars(select(Pool.pool)).all() == ["lowwater"]
    assert [(run.note or "").startswith("This Airflow: there was no pool") for run in runs] == [True, False]
    session.execute(delete(Pool))
    get_listener_manager().add_listener(pools)
    with patch.object(airflow.utils.session, "create_session", lambda: nullcontext(session)):
        Job()
    assert session.scalars(select(Pool.pool)).all() == ["lowwater"]


def test_no_store_is_asked_while_the_scheduler_begins_a_run(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is away would hold up every run of this Airflow."""
    import airflow

    monkeypatch.setattr(airflow, "__version__", "3.9.1")
    dag = stored(runpy.run_path(str(ROOT / "dags" / "keep.py"))["keep_p"])
    with socket.create_server(("127.0.0.1", 0)) as store:
        store.setblocking(False)
        monkeypatch.setenv("LOWWATER_LAKE", "s3://bucket/lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{store.getsockname()[1]}")
        monkeypatch.setenv("LOWWATER_STORE_PATIENCE", "1")
        run = begin(session, dag)
        with pytest.raises(BlockingIOError):
            store.accept()
    assert run.note.startswith("This Airflow: ") and "3.9.1" in run.note


def test_settings_version_and_executor_are_said_where_dag_files_are_read(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import airflow

    from lowwater_airflow import checks

    assert list(checks.of_settings(checks.loaded())) == []
    monkeypatch.setattr(airflow, "__version__", "3.9.1")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    version, executor = checks.of_settings(checks.loaded())
    assert version.what == "this is Airflow 3.9.1, and Lowwater was tried with 3.3" and version.told
    assert "mount it at the same path on every worker" in executor.mend
    checks._lacking.cache_clear()
    assert checks.about("What it does.").startswith("**This Airflow:** this is Airflow 3.9.1")
    monkeypatch.delenv("LOWWATER_LAKE")
    assert [each.what for each in checks.of_settings(checks.loaded()) if each.about == "lake"] == [
        "LOWWATER_LAKE is not set"
    ]
    checks._lacking.cache_clear()


def test_notices_leave_out_what_a_person_may_not_see_and_shorten_a_long_list(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lowwater_airflow import checks

    dags = [checks.Finding("DAG", f"keep_{n} is paused", "do", False, f"s{n}") for n in range(7)]
    monkeypatch.setattr(checks, "findings", lambda sees: [each for each in dags if sees(each.query_set)])
    assert checks.notices(lambda name: name == "s3") == ["keep_3 is paused: do"]
    (line,) = checks.notices(lambda name: True)
    assert line.startswith("7 DAGs are not switched on") and "keep_4 and others" in line


def test_a_dag_file_with_the_name_of_the_package_is_named(tmp_path: Path) -> None:
    file = tmp_path / "lowwater.py"
    file.write_text("from lowwater_airflow.dags import *  # DAGs of airflow")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "plugins")])
    words = [sys.executable, "-c", "import lowwater_airflow"]
    done = subprocess.run(words, cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
    assert f"{file} hides the package lowwater: give this file another name" in done.stderr
