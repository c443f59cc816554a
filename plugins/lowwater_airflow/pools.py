"""Makes the pool of the tasks where it is not there: when a scheduler starts, and when a run begins.

Airflow never runs tasks of a pool that is not there, and only the log of its scheduler says so.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from lowwater_airflow.settings import POOL

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)
ABOUT = "Intervals of Lowwater that run at once"


@hookimpl
def on_starting(component: Any) -> None:
    """Makes the pool, with a slot for every two cores; one that is there stays as it is."""
    if getattr(component, "job_type", "") != "SchedulerJob":
        return
    # A run that begins needs it (`assets`), in a transaction of the scheduler, which should be short.
    from airflow.utils.session import create_session
    from sqlalchemy.exc import SQLAlchemyError

    import lowwater.plan.queryset  # noqa: F401

    try:
        with create_session() as session:
            make(session)
    except SQLAlchemyError as error:  # another scheduler may have made it meanwhile
        log.warning("the pool %s cannot be made: %s", POOL, error)


def make(session: Session) -> str:
    """Makes the pool if it is not there; returns what to tell of that, or nothing."""
    from airflow.models.pool import Pool
    from sqlalchemy import select

    if session.scalar(select(Pool.pool).where(Pool.pool == POOL)) is not None:
        return ""
    slots = max(1, (os.cpu_count() or 1) // 2)
    session.add(Pool(pool=POOL, slots=slots, description=ABOUT, include_deferred=False))
    told = f"there was no pool {POOL}: made with {slots} slots, which Admin, Pools changes"
    log.warning("%s", told)
    return told
