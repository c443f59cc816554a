"""The queries that read a link: how long their rows wait for other links, and how many rows they make.

What the skew review needs of plans and of the ledger `replays`, to say what a bound would cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from lowwater.config import load_config
from lowwater.errors import LowwaterError
from lowwater.instants import SECOND
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import FAILED, PUBLISH, replayed_sets
from lowwater.quality.lateness.review import ReadingQuery
from lowwater.replay.job import Job


def set_names(root: Path, queries: Path) -> list[str]:
    """The query sets that are configured or were ever run over a lake; without any, those of a folder."""
    lake = open_lake(root, make=False)
    names = {*load_config(root).query_sets, *replayed_sets(lake)}
    return sorted(names or {path.stem for path in queries.glob("*.gsql")})


def jobs(root: Path, queries: Path, tell: Callable[[str, LowwaterError], None]) -> list[Job]:
    """The query sets of a lake that can be planned.

    Args:
        root: folder of the lake; `queries` that of the query sets.
        tell: told of each that cannot, and why.
    """
    opened = []
    for name in set_names(root, queries):
        try:
            opened.append(Job.open(root, name, queries))
        except LowwaterError as error:
            tell(name, error)
    return opened


def readers(chosen: Iterable[Job], link: str, rates: Mapping[tuple[str, str], float]) -> list[ReadingQuery]:
    """The output queries of some sets that read a link.

    Args:
        chosen: the query sets.
        link: its name.
        rates: as `row_rates` gives them.
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
    """What `row_rates` reads of a row of `replays`."""

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
    """(query set, query) -> rows a second that it published over the intervals that meet [start, end), ns.

    Args:
        replays: rows of the ledger, oldest first.
        start: ns; `end` as well.
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
