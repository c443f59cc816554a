"""The assets of published tables, and their rows in Airflow's database, which are made when a run begins.

Airflow itself makes the row of an asset that an alias names with its first event. Where two first publications end at
once it makes the row twice, and fails the second task though its interval is published.

A run begins in a transaction of the scheduler, and with it stands everything: so no file is read there, and no store
asked. The reader of DAG files leaves the names of the tables in the DAG, as the documentation of a task.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, get_parsing_context

from lowwater.errors import LowwaterError
from lowwater_airflow.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)
LONGEST = 100_000
"""Largest size of a file of queries whose tables are known before their first publication, bytes."""


def table_asset(table: str) -> Asset:
    """The asset whose events are the publications of a table."""
    return Asset(name=table, uri=f"lowwater://tables/{table}", group="lowwater")


def tables_of(query_set: str) -> AssetAlias:
    """The alias of the assets of all tables of a query set."""
    return AssetAlias(f"tables of {query_set}", group="lowwater")


def named(settings: Settings, query_set: str) -> str:
    """The tables of a query set as the documentation (JSON) of a task of its DAG; Airflow reads none of a mapped task.

    None where the queries cannot be read, which the run tells.
    """
    names: list[str] = []
    if get_parsing_context().dag_id is not None:  # a task needs none of them, and pays for the import
        return json.dumps({"tables": names})
    from lowwater.plan.queryset import table_names

    try:
        files = settings.files(query_set)
        # A reader of DAG files waits for no pipe, and for no long text.
        if all(file.is_file() and file.stat().st_size <= LONGEST for file in files):
            names = sorted(table_names(files))
    except (LowwaterError, OSError) as error:
        log.info("the assets of %s are not known: %s", query_set, error)
    return json.dumps({"tables": names})


def named_in(dag: Any) -> list[str]:
    """The tables that a DAG publishes, by the documentation of its tasks."""
    texts = [text for task in dag.tasks if (text := getattr(task, "doc_json", None))]
    return sorted({name for text in texts for name in json.loads(text)["tables"]})


def make(session: Session, query_set: str, names: Iterable[str]) -> None:
    """Makes the rows that are not there, as Airflow makes them."""
    # Imported only here: tasks import this module too.
    from airflow.models.asset import AssetAliasModel, AssetModel, alias_association_table
    from sqlalchemy import select

    from lowwater_airflow.database import insert_absent

    alias = session.scalar(select(AssetAliasModel.id).where(AssetAliasModel.name == tables_of(query_set).name))
    assets = [table_asset(name) for name in sorted(names)]
    uris = {each.uri for each in assets}
    known = select(AssetModel.uri).where(AssetModel.uri.in_(uris), AssetModel.aliases.any(AssetAliasModel.id == alias))
    if alias is None or uris == set(session.scalars(known)):
        return
    rows = [{"name": each.name, "uri": each.uri, "group": "asset", "extra": {}} for each in assets]
    insert_absent(session, AssetModel, rows)
    ids = session.scalars(select(AssetModel.id).where(AssetModel.uri.in_(uris)))
    insert_absent(session, alias_association_table, [{"alias_id": alias, "asset_id": each} for each in sorted(ids)])
