"""Says which intervals of a range are not published whole, for those who wait for a day of them.

Whole is `done`: provisional, incomplete, stale and missing intervals are not. Airflow's consumers ask it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from lowwater.lake.ledgers.intervals import gravest, set_status
from lowwater.lake.ledgers.runs import DONE, read_replays
from lowwater.lake.tables import open_table
from lowwater.replay.interval import expected
from lowwater.replay.job import Job


@dataclass(frozen=True)
class WholeRange:
    """The intervals of a range, and what is visible of them.

    Attributes:
        lacking: (first instant in ns, state, reason) of each interval, or stretch without records, that is not done.
        versions: query -> version of its table at that time, for readers that want to see one state.
    """

    lacking: tuple[tuple[int, str, str], ...]
    versions: dict[str, int]


def whole_range(job: Job, start: int, end: int) -> WholeRange:
    """Asks the ledgers for every interval of [start, end).

    Args:
        job: the query set.
        start: first instant of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.

    Raises:
        ConfigError: the range does not bound whole intervals.
        LakeError: a ledger cannot be read.
    """
    # Versions come first: what the ledgers then call done is in them, or was replaced by rows that are newer.
    versions = {}
    for query in job.plan.queries:
        table = open_table(job.lake.table(query.name))
        if table is not None:
            versions[query.name] = table.version()
    job.require_bounds(start, end)
    lacking = []
    replays = read_replays(job.lake, job.query_set, (start, end))
    rows = set_status(expected(job, job.captures()), replays, start, end)
    for (begin, _), together in groupby(rows, lambda row: (row.start, row.end)):
        worst = gravest(together)
        if worst.state != DONE:
            lacking.append((begin, worst.shown, worst.why))
    return WholeRange(tuple(lacking), versions)
