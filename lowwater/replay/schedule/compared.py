"""What `lowwater diff` asks of ledgers and plans: bounds of a published interval, and the unique key of a query."""

from __future__ import annotations

from pathlib import Path, PurePath

from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, read_replays
from lowwater.plan.properties.unique_keys import unique_key
from lowwater.replay.schedule.link_queries import jobs


def interval_of(lake: Lake, query: str, at: int) -> tuple[int, int]:
    """Returns the newest published interval of a query that begins at an instant, [start, end), ns.

    Raises:
        LakeError: no interval of the query that begins there was published.
    """
    rows = [row for row in read_replays(lake) if row.query == query and row.stage == PUBLISH and row.state != FAILED]
    bounds = [(row.interval_start, row.interval_end) for row in rows if row.interval_start == at]
    if not bounds:
        starts = sorted({row.interval_start for row in rows})
        nearest = min(starts, key=lambda start: abs(start - at), default=None)
        raise LakeError(
            f"--at {format_instant(at)}: no interval of {query} that begins there is published",
            f"the nearest begins at {format_instant(nearest)}" if nearest is not None else "`lowwater status` says why",
        )
    return bounds[-1]


def key_of(root: PurePath, queries: Path, query: str) -> tuple[str, ...]:
    """Returns the unique key of a query by the plan of its set; empty if no plan of today has the query or its key."""

    def ignore(name: str, error: LowwaterError) -> None:
        """A set that cannot be planned has no key; whole rows are compared then."""

    for job in jobs(root, queries, ignore):
        for plan in job.plan.queries:
            if plan.name == query:
                return unique_key(plan.logical) or ()
    return ()
