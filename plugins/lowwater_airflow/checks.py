"""What an Airflow lacks for Lowwater: told on the pages, in the notes of runs, in the texts of DAGs and by `lowwater
doctor`.

`python -m lowwater_airflow.checks` prints it as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from lowwater.config import Notify
from lowwater.errors import ConfigError, LowwaterError
from lowwater_airflow.settings import POOL, SPARK, Settings, deployment

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

TRIED = ("3.3",)
"""Versions of Airflow, without the last number, with which Lowwater's tests ran."""
LOCKED = 60
"""Seconds that a component waits for a lock of SQLite; the default of 5 is too short on a busy machine."""
MOST_NAMED = 5
POOL_ABSENT = f"there is no pool {POOL}"


@dataclass(frozen=True)
class Finding:
    """What is not as it should be."""

    about: str  # the part of Airflow, in a word or two
    what: str  # what is wrong, a sentence
    mend: str  # what to do, a sentence
    told: bool = True  # whether it hinders runs, so that notes of runs tell it
    query_set: str = ""  # query set that it is about; empty for all

    @property
    def text(self) -> str:
        return f"{self.what}: {self.mend}"


def of_versions() -> Iterator[Finding]:
    """What can be said without the lake, where nothing may wait for it."""
    from airflow import __version__

    if __version__.rpartition(".")[0] not in TRIED:
        tried = ", ".join(TRIED)
        yield Finding(
            "version",
            f"this is Airflow {__version__}, and Lowwater was tried with {tried}",
            f"install apache-airflow=={tried}.*, or report what differs",
        )


def loaded() -> Settings | ConfigError:
    """The settings of the lake, or why there are none; read once for all that is asked of them."""
    try:
        return Settings.load()
    except ConfigError as error:
        return error


def of_settings(settings: Settings | ConfigError) -> Iterator[Finding]:
    """What can be said without Airflow's database, also where DAG files are read: the lake, versions, the executor."""
    from airflow.configuration import conf

    yield from of_versions()
    executor = conf.get("core", "executor")
    if isinstance(settings, ConfigError):
        yield Finding("lake", settings.message, settings.hint or "see the settings of the lake")
    elif "Local" not in executor and "://" not in str(settings.lake):
        yield Finding(
            "executor",
            f"tasks run by {executor}, on workers that need the folder {settings.lake}",
            "mount it at the same path on every worker, or keep the lake in an object store",
            told=False,
        )


def of_database(session: Session, settings: Settings | ConfigError) -> Iterator[Finding]:
    """What Airflow's database says: the pool, DAGs that are paused, and which database it is."""
    from airflow.models.pool import Pool
    from sqlalchemy import select

    slots = session.scalar(select(Pool.slots).where(Pool.pool == POOL))
    if slots is None:
        mend = f"a scheduler that starts makes it, and so does `airflow pools set {POOL} 1 'Intervals at once'`"
        yield Finding("pool", POOL_ABSENT, mend)
    elif slots == 0:  # -1 is no bound
        mend = f"give it some: Admin, Pools, or `airflow pools set {POOL} 1 'Intervals at once'`"
        yield Finding("pool", f"the pool {POOL} has 0 slots, so none of its tasks begins", mend)
    yield from _paused(session, settings)
    bind = session.get_bind()
    if bind.dialect.name == "sqlite":
        yield Finding(
            "database",
            "Airflow's database is SQLite, which has one writer at a time",
            "use PostgreSQL where several people work; pause a DAG while `airflow backfill create` makes its runs",
            told=False,
        )


def of_connections(settings: Settings | ConfigError) -> Iterator[Finding]:
    """What is wrong with the connections that the settings of the lake name, and that of a Spark cluster.

    It opens a session of its own, which would end that of a scheduler.
    """
    if (spark := _connection(SPARK)) is not None:
        try:
            deployment(str(spark.host), spark.password or "", spark.extra_dejson)
        except LowwaterError as error:
            yield Finding("connection", error.message, error.hint or "")
    if isinstance(settings, Settings):
        yield from of_notify(settings.config.notify, lambda name: _connection(name) is not None)


def of_notify(notify: Notify, known: Callable[[str], bool]) -> Iterator[Finding]:
    """The connections that `[notify]` names and Airflow does not have.

    Args:
        notify: the section of the settings.
        known: whether Airflow has a connection.
    """
    mail = notify.mail_connection if notify.email else None
    for name, what in ((notify.connection, "webhook"), (mail, "mail")):
        if name and not known(name):
            yield Finding(
                "connection",
                f"[notify] names the connection {name} for its {what}, which Airflow does not have",
                "add it under Admin, Connections; until then alerts are only logged",
            )


def _connection(name: str) -> Any:
    """A connection of the environment, a secrets backend or the database; None without one."""
    from airflow.models.connection import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        return Connection.get_connection_from_secrets(name)
    except AirflowNotFoundException:
        return None


def _paused(session: Session, settings: Settings | ConfigError) -> Iterator[Finding]:
    """DAGs of a schedule that takes care of itself which were never switched on, or are paused."""
    from airflow.models import DagModel, DagRun
    from sqlalchemy import select

    if isinstance(settings, ConfigError) or not settings.looks:
        return
    sets = {f"keep_{name}": name for name in settings.query_sets()}
    names = ["lowwater_ingest", *sets]
    found = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(names), DagModel.is_stale.is_(False))
    paused = [name for name, off in session.execute(found) if off]
    ran = set(session.scalars(select(DagRun.dag_id).where(DagRun.dag_id.in_(paused)).distinct()))
    for name in sorted(paused):
        what = f"keeps query set {sets[name]} right" if name in sets else "ingests new captures"
        state = "is paused" if name in ran else "was never switched on"
        yield Finding(
            "DAG",
            f"{name} {state}, so nothing {what}",
            f"`airflow dags unpause {name}`, or the switch beside its name",
            told=False,
            query_set=sets.get(name, ""),
        )


def findings(sees: Callable[[str], bool] = lambda _: True) -> list[Finding]:
    """All that this Airflow lacks, by its database too; where that cannot be asked, that is said. `sees`: whether a
    person may see a query set."""
    from airflow.utils.session import create_session
    from sqlalchemy.exc import SQLAlchemyError

    settings = loaded()
    found = list(of_settings(settings))
    try:
        with create_session() as session:
            found += of_database(session, settings)
        found += of_connections(settings)
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
        found.append(Finding("database", f"Airflow's database cannot be asked: {cause}", "`airflow db migrate`, once"))
    return [each for each in found if not each.query_set or sees(each.query_set)]


def notices(sees: Callable[[str], bool]) -> list[str]:
    """The findings for the top of the pages; of many DAGs that are paused, one line. `sees`: whether the person may see
    a query set."""
    shown = [each for each in findings(sees) if each.about != "database" or each.told]
    dags = [each for each in shown if each.about == "DAG"]
    texts = [each.text for each in shown if each.about != "DAG"]
    if len(dags) <= MOST_NAMED:
        return texts + [each.text for each in dags]
    names = ", ".join(each.what.partition(" ")[0] for each in dags[:MOST_NAMED])
    return [
        *texts,
        f"{len(dags)} DAGs are not switched on, so nobody looks after their sets: {names} and others",
    ]


@cache
def _lacking() -> str:
    return "; ".join(each.text for each in of_settings(loaded()))


def about(text: str) -> str:
    """The text of a DAG, behind what this Airflow lacks for it. `text`: what the DAG does, Markdown."""
    return f"**This Airflow:** {_lacking()}\n\n{text}" if _lacking() else text


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in findings()]), file=sys.stdout)
