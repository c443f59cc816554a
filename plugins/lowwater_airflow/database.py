"""Makes an Airflow over SQLite wait for its one writer, in every process that loads the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, update
from sqlalchemy.pool import Pool

from lowwater_airflow.checks import LOCKED


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
