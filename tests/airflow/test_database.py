"""Airflow over SQLite waits for its one writer, and never for itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from contextvars import Context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def test_connections_to_sqlite_wait_for_the_writer(plugins: None, tmp_path: Path) -> None:
    from sqlalchemy import create_engine, text

    from lowwater_airflow import database

    assert database.LOCKED == 60
    for query, waits in (("", 60_000), ("?timeout=90", 90_000)):
        engine = create_engine(f"sqlite:///{tmp_path / 'airflow.db'}{query}")
        with engine.connect() as connection:
            assert connection.execute(text("PRAGMA busy_timeout")).scalar() == waits
    database.wait_for_the_writer(SimpleNamespace(), None, None)


def test_what_a_savepoint_has_read_it_may_write(plugins: None, tmp_path: Path) -> None:
    """As a backfill of Airflow does for each run, while the scheduler writes."""
    from sqlalchemy import create_engine, text

    import lowwater_airflow.database  # noqa: F401 - it listens

    path = tmp_path / "airflow.db"
    engine = create_engine(f"sqlite:///{path}")
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other, engine.connect() as connection:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE run (name TEXT)")
        for _ in range(2):
            with connection.begin_nested():
                assert connection.execute(text("SELECT count(*) FROM run")).scalar() == 0
                with pytest.raises(sqlite3.OperationalError, match="locked"):
                    other.execute("INSERT INTO run VALUES ('scheduler')")
                connection.execute(text("INSERT INTO run VALUES ('backfill')"))
                connection.execute(text("DELETE FROM run"))
        connection.commit()
        other.execute("INSERT INTO run VALUES ('scheduler')")
        assert connection.execute(text("SELECT name FROM run")).scalars().all() == ["scheduler"]


@pytest.fixture
def server(plugins: None, tmp_path: Path) -> Any:
    """A server as Airflow's: the event loop writes the audit log, and commits what an act wrote after it."""
    from anyio import from_thread
    from fastapi import Depends, FastAPI
    from httpx import ASGITransport, AsyncClient

    from lowwater_airflow.database import Turns

    with closing(sqlite3.connect(tmp_path / "airflow.db")) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE told (name TEXT)")

    def open_database() -> Any:
        return closing(sqlite3.connect(tmp_path / "airflow.db", timeout=2.0, check_same_thread=False))

    async def audit() -> None:
        with open_database() as log, log:
            log.execute("INSERT INTO told VALUES ('audit')")

    def session() -> Iterator[Any]:
        with open_database() as opened, opened:
            yield opened

    app, others = FastAPI(), []
    needs_session = Depends(session, scope="function")

    def begin(path: str) -> None:
        others.append(asyncio.create_task(client.post(path), context=Context()))  # of another connection

    @app.post("/act/{name}", dependencies=[Depends(audit)])
    def act(name: str, session: Any = needs_session) -> None:
        session.execute("INSERT INTO told VALUES (?)", [name])
        if name == "first":
            from_thread.run_sync(begin, "/act/second")
            for _ in range(99):  # the second one comes as far as it can
                from_thread.run(asyncio.sleep, 0)

    @app.post("/page")
    def page() -> int:
        return from_thread.run(client.post, "/act/alone").status_code

    app.add_middleware(Turns)
    client = AsyncClient(transport=ASGITransport(app), base_url="http://airflow", timeout=None)
    return SimpleNamespace(client=client, others=others, open_database=open_database)


def test_a_request_waits_for_no_commit_that_waits_for_it(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> list[int]:
        first = await server.client.post("/act/first")
        return [first.status_code, *[each.status_code for each in await asyncio.gather(*server.others)]]

    assert asyncio.run(ask()) == [200, 200]
    with server.open_database() as read:
        told = [name for (name,) in read.execute("SELECT name FROM told")]
    assert told == ["audit", "first", "audit", "second"] and not caplog.records


def test_a_page_that_asks_the_server_itself_has_its_turn(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert asyncio.run(server.client.post("/page")).json() == 200
    assert not caplog.records


def test_only_sqlite_needs_turns(plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.configuration import conf

    from lowwater_airflow import database

    for address, needed in (("sqlite:////tmp/a.db", 1), ("postgresql+psycopg2://a@b/c", 0)):
        monkeypatch.setattr(conf, "get_mandatory_value", lambda *_, address=address: address)
        assert len(database.middlewares()) == needed
