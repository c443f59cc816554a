"""The assets of published tables, and their rows in Airflow's database, which are made when a run begins.

Airflow itself makes the row of an asset that an alias names with its first event. Where two first publications end at
once it makes the row twice, and fails the second task though its interval is published.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

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


def make(session: Session, query_set: str) -> None:
    """Makes the rows that are not there, as Airflow makes them; queries that cannot be read are for the run to tell.

    Args:
        session: a session of Airflow's database.
        query_set: name of the query set.
    """
    # Imported only here: tasks import this module too.
    from airflow.models.asset import AssetAliasModel, AssetModel, alias_association_table
    from sqlalchemy import select

    from lowwater.plan.queryset import table_names

    try:
        files = Settings.load().files(query_set)
        # A scheduler waits for no pipe, and for no long text.
        if not all(file.is_file() and file.stat().st_size <= LONGEST for file in files):
            return
        names = table_names(files)
    except (LowwaterError, OSError) as error:
        log.info("the assets of %s are not known: %s", query_set, error)
        return
    alias = session.scalar(select(AssetAliasModel.id).where(AssetAliasModel.name == tables_of(query_set).name))
    assets = [table_asset(name) for name in sorted(names)]
    uris = {each.uri for each in assets}
    known = select(AssetModel.uri).where(AssetModel.uri.in_(uris), AssetModel.aliases.any(AssetAliasModel.id == alias))
    if alias is None or uris == set(session.scalars(known)):
        return
    rows = [{"name": each.name, "uri": each.uri, "group": "asset", "extra": {}} for each in assets]
    _insert(session, AssetModel, rows)
    ids = session.scalars(select(AssetModel.id).where(AssetModel.uri.in_(uris)))
    _insert(session, alias_association_table, [{"alias_id": alias, "asset_id": each} for each in sorted(ids)])


def _insert(session: Session, table: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Adds rows but those that are there; another scheduler may add them at the same moment."""
    from sqlalchemy.dialects import mysql, postgresql, sqlite

    name = session.get_bind().dialect.name
    if name == "mysql":
        session.execute(mysql.insert(table).prefix_with("IGNORE"), rows)
    else:
        insert: Any = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[name]
        session.execute(insert(table).on_conflict_do_nothing(), rows)
