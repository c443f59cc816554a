"""Finds the queries that read a link, their wait for other links, and their rate of rows.

The skew review uses it to show the cost of a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import Protocol

from lowwater.config import load_config
from lowwater.errors import LowwaterError
from lowwater.instants import SECOND
from lowwater.lake.layout import lake_to_read
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, replayed_sets
from lowwater.quality.lateness import ReadingQuery
from lowwater.replay.job import Job


def set_names(root: PurePath, queries: Path) -> list[str]:
    """The names of the query sets that are configured or were ever run; without any, of those in a folder."""
    lake = lake_to_read(root)
    names = {*load_config(root).query_sets, *replayed_sets(lake)}
    return sorted(names or {path.stem for path in queries.glob("*.gsql")})


def jobs(root: PurePath, queries: Path, tell: Callable[[str, LowwaterError], None]) -> list[Job]:
    """Opens the query sets of a lake that can be planned.

    Args:
        root: folder of the lake.
        queries: folder of query sets.
        tell: called with each query set that cannot be planned and the error.
    """
    opened = []
    for name in set_names(root, queries):
        try:
            opened.append(Job.open(root, name, queries))
        except LowwaterError as error:
            tell(name, error)
    return opened


def readers(chosen: Iterable[Job], link: str, rates: Mapping[tuple[str, str], float]) -> list[ReadingQuery]:
    """The output queries that read a link.

    Args:
        chosen: query sets to look at.
        link: name of the link.
        rates: result of `row_rates`.
    """
    reading = []
    for job in chosen:
        for query in job.plan.queries:
            if link in query.links:
                others = [job.config.link(other).longest_skew for other in query.links if other != link]
                rate = rates.get((job.query_set, query.name))
                reading.append(ReadingQuery(job.query_set, query.name, max(others, default=None), rate))
    return reading


class Row(Protocol):
    """The columns that `row_rates` reads from a row of `replays`."""

    @property
    def query_set(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def interval_start(self) -> int: ...
    @property
    def interval_end(self) -> int: ...
    @property
    def stage(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def rows(self) -> int | None: ...


def row_rates(replays: Iterable[Row], start: int, end: int) -> dict[tuple[str, str], float]:
    """(query set, query) -> rows per second published in the intervals that overlap [start, end), ns.

    Args:
        replays: rows of the ledger, oldest first.
        start: first instant of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.
    """
    newest = {
        (row.query_set, row.query, row.interval_start): (row.rows or 0, row.interval_end - row.interval_start)
        for row in replays
        if row.stage == PUBLISH and row.state != FAILED and row.interval_start < end and row.interval_end > start
    }
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for (query_set, query, _), (rows, span) in newest.items():
        rows_and_span = totals.get((query_set, query), (0, 0))
        totals[query_set, query] = rows_and_span[0] + rows, rows_and_span[1] + span
    return {key: rows * SECOND / span for key, (rows, span) in totals.items()}
