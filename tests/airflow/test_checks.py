"""What an Airflow lacks is told where people look, and is mended where that is safe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.replay.support import ROOT

pytestmark = pytest.mark.slow
NOTIFY = '[notify]\nconnection = "hook"\n[links.a]\nskew = "1s"\n'


@pytest.fixture
def session(plugins: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A database of Airflow with what the checks ask for, and a lake with two query sets."""
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
    Pool.metadata.create_all(engine, tables=[Pool.metadata.tables["slot_pool"]])
    with engine.begin() as connection:  # the columns that are asked for
        connection.exec_driver_sql("CREATE TABLE dag (dag_id TEXT, is_paused BOOLEAN, is_stale BOOLEAN)")
        connection.exec_driver_sql("CREATE TABLE dag_run (dag_id TEXT)")
    with Session(engine) as made:
        yield made


def _absent(name: str) -> Any:
    from airflow.sdk.exceptions import AirflowNotFoundException

    raise AirflowNotFoundException(name)


def test_the_database_says_what_is_missing(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.models.connection import Connection
    from sqlalchemy import text

    from lowwater_airflow import pools
    from lowwater_airflow.checks import of_connections, of_database

    for name, paused in (("lowwater_ingest", 0), ("keep_p", 1), ("keep_q", 1)):
        session.execute(text(f"INSERT INTO dag VALUES ('{name}', {paused}, 0)"))
    session.execute(text("INSERT INTO dag_run VALUES ('keep_q')"))
    found = {each.about: each for each in of_database(session)}
    said = [each.what for each in (*of_database(session), *of_connections())]
    assert "there is no pool lowwater" in said
    assert "[notify] names the connection hook for its webhook, which Airflow does not have" in said
    assert "keep_p was never switched on, so nothing keeps query set p right" in said
    assert "keep_q is paused, so nothing keeps query set q right" in said
    assert not any("lowwater_ingest" in each for each in said)
    assert "PostgreSQL" in found["database"].mend and not found["database"].told
    assert pools.make(session).startswith("there was no pool lowwater: made with ") and pools.make(session) == ""
    assert "there is no pool lowwater" not in [each.what for each in of_database(session)]

    def cluster(name: str) -> Any:
        return Connection(conn_id=name, conn_type="spark", host="spark://m", extra='{"deploy-mode": "cluster"}')

    monkeypatch.setattr(Connection, "get_connection_from_secrets", cluster)
    assert "connection lowwater_spark: deploy-mode cluster: Lowwater starts no drivers on a cluster" in [
        each.what for each in of_connections()
    ]


def test_the_asset_of_a_table_is_there_before_it_is_published(session: Any) -> None:
    """Two first publications that end at once would make it twice, and Airflow would fail the second task."""
    from airflow.models.asset import AssetAliasModel, AssetModel
    from sqlalchemy import select

    from lowwater_airflow import assets
    from lowwater_airflow.settings import Settings

    tables = [AssetModel.metadata.tables[name] for name in ("asset", "asset_alias", "asset_alias_asset")]
    AssetModel.metadata.create_all(session.get_bind(), tables=tables)
    (file,) = Settings.load().files("p")
    shown = "DEFINE {{ query_name '{}'; {} }} SELECT len FROM a.IPv4"
    file.write_text(
        "; ".join([shown.format("z", ""), shown.format("y", ""), shown.format("x", "visibility 'internal';")])
    )
    assets.make(session, "p")
    assert session.scalars(select(AssetModel.name)).all() == [], "no DAG of it was read yet"
    session.add_all([AssetAliasModel(name="tables of p"), AssetModel(name="y", uri="lowwater://tables/y")])
    for _ in range(2):
        assets.make(session, "p")
    assert sorted(session.scalars(select(AssetModel.name))) == ["y", "z"]
    (alias,) = session.scalars(select(AssetAliasModel))
    assert {each.uri for each in alias.assets} == {assets.table_asset("y").uri, assets.table_asset("z").uri}
    file.write_text("SELECT")
    assets.make(session, "p")
    file.unlink()
    os.mkfifo(file)
    assets.make(session, "p")


def test_settings_version_and_executor_are_said_where_dag_files_are_read(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import airflow

    from lowwater_airflow import checks

    assert list(checks.of_settings()) == []
    monkeypatch.setattr(airflow, "__version__", "3.9.1")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    version, executor = checks.of_settings()
    assert version.what == "this is Airflow 3.9.1, and Lowwater was tried with 3.3" and version.told
    assert "mount it at the same path on every worker" in executor.mend
    checks._lacking.cache_clear()
    assert checks.about("What it does.").startswith("**This Airflow:** this is Airflow 3.9.1")
    monkeypatch.delenv("LOWWATER_LAKE")
    assert [each.what for each in checks.of_settings() if each.about == "lake"] == ["LOWWATER_LAKE is not set"]
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
