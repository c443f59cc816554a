"""Makes the pool of the tasks where it is not there: when a component of Airflow starts, and when a run begins.

Airflow never runs tasks of a pool that is not there, and only the log of its scheduler says so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from lowwater.threads import cores, memory
from lowwater_airflow.database import insert_absent
from lowwater_airflow.settings import POOL

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)
ABOUT = "Intervals of Lowwater that run at once"
SLOT = 4 << 30
"""Bytes of memory for a slot: an interval of 100 million packets takes 2.5 GB, and its audit a process beside it."""


@hookimpl
def on_starting(component: Any) -> None:
    """Makes the pool, with a slot for every core; one that is there stays as it is."""
    if not hasattr(component, "job_type"):  # a task has no database; a job does not know yet whose it is
        return
    from airflow.utils.session import create_session
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with create_session() as session:
            make(session)
    except SQLAlchemyError as error:
        log.warning("the pool %s cannot be made: %s", POOL, error)


def slots_here() -> int:
    """How many intervals this machine, or its container, runs at once: one a core, as far as memory allows."""
    return max(1, min(cores(), memory() // SLOT))


def make(session: Session) -> str:
    """Makes the pool if it is not there; returns what to tell of that, or nothing."""
    from airflow.models.pool import Pool
    from sqlalchemy import select

    if session.scalar(select(Pool.pool).where(Pool.pool == POOL)) is not None:
        return ""
    slots = slots_here()
    # At once, and not with the transaction: another run may begin in it, and another component at this moment.
    insert_absent(session, Pool, [{"pool": POOL, "slots": slots, "description": ABOUT, "include_deferred": False}])
    told = f"there was no pool {POOL}: made with {slots} slots, which Admin, Pools changes"
    log.warning("%s", told)
    return told
