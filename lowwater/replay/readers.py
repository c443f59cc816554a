"""The queries that read a link: how long their rows wait for other links, and how many rows they make.

What the skew review needs of plans and of the ledger `replays`, to say what a bound would cost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lowwater.config import SECOND, load_config
from lowwater.errors import LowwaterError
from lowwater.lake.layout import open_lake
from lowwater.lake.records import FAILED, PUBLISH, read_replays
from lowwater.quality.skew import Reader
from lowwater.replay.job import Job


def set_names(root: Path, queries: Path) -> list[str]:
    """The query sets that are configured or were ever run over a lake; without any, those of a folder."""
    lake = open_lake(root, make=False)
    names = {*load_config(root).query_sets, *(row.query_set for row in read_replays(lake))}
    return sorted(names or {path.stem for path in queries.glob("*.gsql")})


def jobs(root: Path, queries: Path, tell: Callable[[str, LowwaterError], None]) -> list[Job]:
    """The query sets of a lake that can be planned.

    Args:
        root: folder of the lake; `queries` that of the query sets.
        tell: told of each that cannot, and why.
    """
    found = []
    for name in set_names(root, queries):
        try:
            found.append(Job.open(root, name, queries))
        except LowwaterError as error:
            tell(name, error)
    return found


def readers(chosen: list[Job], link: str, start: int, end: int) -> list[Reader]:
    """The output queries of some sets that read a link, with the rows a second that they published over [start, end).

    Args:
        chosen: the query sets.
        link: its name.
        start: ns; `end` as well.
    """
    found = []
    for job in chosen:
        rates = _rates(job, start, end)
        for query in job.plan.queries:
            if link in query.links:
                others = [job.config.link(each).skew for each in query.links if each != link]
                found.append(Reader(job.query_set, query.name, max(others, default=None), rates.get(query.name)))
    return found


def _rates(job: Job, start: int, end: int) -> dict[str, float]:
    newest = {
        (row.query, row.interval_start, row.interval_end): row.rows or 0
        for row in read_replays(job.lake, job.query_set)
        if row.stage == PUBLISH and row.state != FAILED and row.interval_start < end and row.interval_end > start
    }
    rows: dict[str, int] = {}
    spans: dict[str, int] = {}
    for (query, first, last), count in newest.items():
        rows[query] = rows.get(query, 0) + count
        spans[query] = spans.get(query, 0) + last - first
    return {query: count * SECOND / spans[query] for query, count in rows.items()}
