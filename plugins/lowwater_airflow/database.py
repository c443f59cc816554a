"""Makes an Airflow over SQLite wait for its one writer, in every process that loads the plugin; adds rows to any
database of Airflow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event, update
from sqlalchemy.engine import Engine
from sqlalchemy.pool import Pool

from lowwater_airflow.checks import LOCKED

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)
READS = ("GET", "HEAD", "OPTIONS")
_TURN: ContextVar[object] = ContextVar("_TURN", default=None)
"""The turn of which the code at work is a part."""


@event.listens_for(Pool, "checkout")
def wait_for_the_writer(connection: Any, record: object, proxy: object) -> None:
    """Lets a connection to SQLite wait for a lock as long as a busy machine needs; it may wait longer already.

    Without this, Airflow refuses a backfill with 503 as soon as its scheduler writes, and a scheduler that has begun
    with the runs ends with an error.
    """
    if "sqlite" not in type(connection).__module__:
        return
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout")
    (waits,) = cursor.fetchone()
    if waits < LOCKED * 1000:
        cursor.execute(f"PRAGMA busy_timeout = {LOCKED * 1000}")
    cursor.close()


@event.listens_for(Engine, "savepoint")
def write_from_the_savepoint(connection: Connection, name: str) -> None:
    """Begins what a savepoint is in with the lock of SQLite's one writer, for which it can wait.

    A savepoint alone begins to read. Airflow then reads and writes the runs of a backfill and the events of assets in
    it, and SQLite refuses, at once and whatever the timeout, to write on what another process has changed since: the
    backfill is there and has no runs, and no other can be made until the scheduler has removed it.
    """
    if connection.dialect.name == "sqlite":
        begun = connection.connection.dbapi_connection
        if begun is not None and not getattr(begun, "in_transaction", True):
            cursor = begun.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            cursor.close()


class Turns:
    """Lets requests that change something into an API server over SQLite one after the other.

    A request commits only when the event loop comes back to it, and Airflow writes its audit log on that loop: the next
    request would so wait for the writer that waits for it, and all of Airflow for both.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._next = app, asyncio.Lock()
        self._turn: object = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; one that a request sends inside this process is part of its turn."""
        if scope["type"] != "http" or scope["method"] in READS or self._has_turn():
            await self._app(scope, receive, send)
            return
        try:
            await asyncio.wait_for(self._next.acquire(), LOCKED)
        except TimeoutError:
            log.warning("%s %s did not get its turn in %s s", scope["method"], scope["path"], LOCKED)
            await self._app(scope, receive, send)
            return
        self._turn = object()
        _TURN.set(self._turn)
        try:
            await self._app(scope, receive, send)
        finally:
            self._turn = None
            self._next.release()

    def _has_turn(self) -> bool:
        return self._turn is not None and _TURN.get() is self._turn


def middlewares() -> list[dict[str, Any]]:
    """What stands before each route of an API server, as Airflow declares it."""
    from airflow.configuration import conf

    lone = conf.get_mandatory_value("database", "sql_alchemy_conn").startswith("sqlite")
    return [{"name": "Lowwater: one writer", "middleware": Turns, "args": [], "kwargs": {}}] if lone else []


@contextmanager
def paused(dag: str) -> Iterator[None]:
    """Pauses a DAG over SQLite while a backfill of it is made: a scheduler that begins with the first runs writes too,
    and then Airflow removes them under it."""
    from airflow.models import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        lone = session.get_bind().dialect.name == "sqlite"
        was = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag))
        if lone and not was:
            session.execute(update(DagModel).where(DagModel.dag_id == dag).values(is_paused=True))
    try:
        yield
    finally:
        if lone and not was:
            with create_session() as session:
                session.execute(update(DagModel).where(DagModel.dag_id == dag).values(is_paused=False))


def insert_absent(session: Session, table: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Adds rows but those that are there; another process may add them at the same moment."""
    from sqlalchemy.dialects import mysql, postgresql, sqlite

    name = session.get_bind().dialect.name
    if name == "mysql":
        session.execute(mysql.insert(table).prefix_with("IGNORE"), rows)
    else:
        insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[name]
        session.execute(insert(table).on_conflict_do_nothing(), rows)
