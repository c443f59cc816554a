"""Makes the pool of the tasks when a scheduler starts, where nobody has made it.

Airflow never runs tasks of a pool that is not there, and only the log of its scheduler says so.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from airflow.listeners import hookimpl

from lowwater_airflow.settings import POOL

log = logging.getLogger(__name__)
ABOUT = "Intervals of Lowwater that run at once"


@hookimpl
def on_starting(component: Any) -> None:
    """Makes the pool, with a slot for every two cores; one that is there stays as it is."""
    if getattr(component, "job_type", "") != "SchedulerJob":
        return
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    slots = max(1, (os.cpu_count() or 1) // 2)
    try:
        with create_session() as session:
            if session.scalar(select(Pool.pool).where(Pool.pool == POOL)) is None:
                session.add(Pool(pool=POOL, slots=slots, description=ABOUT, include_deferred=False))
                log.warning("there was no pool %s: made it with %s slots; change them under Admin, Pools", POOL, slots)
    except SQLAlchemyError as error:  # another scheduler may have made it meanwhile
        log.warning("the pool %s cannot be made: %s", POOL, error)
