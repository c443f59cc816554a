"""Contents of the pages of a query set and of a query: plan, text, and history of rows and cost."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from lowwater.instants import format_duration
from lowwater.lake.ledgers.coverage import any_covers
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow
from lowwater.lake.results.published_rows import rows_between
from lowwater.lake.words import FAILED
from lowwater.plan.explain import describe, explain
from lowwater.plan.queryset import Plan, QueryPlan
from lowwater.plan.readings import Cell, cells_of
from lowwater.quality.reports import Key
from lowwater.replay.job import Job
from lowwater.replay.row_files import with_texts

from .calendar import moment
from .cells import row_cells
from .drawing import NOT_COVERED, PlanDrawing, Plot, history, plan
from .ledgers import Part, Record, Snapshot
from .trends import interval_grid, run_seconds

SHOWN = 20
"""Maximum number of rows of a query on a page; `lowwater rows` prints all."""


@dataclass(frozen=True)
class Preview:
    """First published rows of a query in [start, end), ns since the epoch."""

    query: str
    start: int
    end: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: int  # number of published rows
    links: tuple[str, ...]  # the links that it reads


@dataclass(frozen=True)
class Explained:
    """A plan for display: drawing, text of EXPLAIN, and (name, GSQL text) of every query."""

    drawing: PlanDrawing
    text: str
    gsql: tuple[tuple[str, str], ...]


def explained(chosen: Plan) -> Explained:
    """Prepares a plan for display."""
    texts = tuple((query.name, query.text) for query in chosen.queries)
    return Explained(plan(describe(chosen)), explain(chosen), texts)


def query_plan(job: Job, query: str) -> Plan:
    """Returns the plan of one output query of a set."""
    return job.plan.only(query)


def preview(snapshot: Snapshot, query: QueryPlan, start: int, end: int) -> Preview | None:
    """Reads the first published rows of a query in [start, end), ns since the epoch; None without a publication."""
    published = rows_between(snapshot.lake, query.name, start, end)
    if published is None:
        return None
    cells = cells_of(query.logical)
    rows = [tuple(row_cells(cells, row)) for part in published.batches(SHOWN) for row in with_texts(part).to_pylist()]
    return Preview(query.name, start, end, published.columns, tuple(rows), published.rows, tuple(query.links))


def newest_preview(snapshot: Snapshot, query_set: str, query: str) -> Preview | None:
    """Reads the first rows of the newest published interval of a query; None without a publication."""
    bounds = [(record.interval_start, record.interval_end) for record in _publications(snapshot, query_set, query)]
    plan = next(plan for plan in snapshot.jobs[query_set].plan.queries if plan.name == query)
    return preview(snapshot, plan, *max(bounds)) if bounds else None


def previews(snapshot: Snapshot, part: Part, key: Key) -> list[Preview]:
    """Reads the first rows of each query that published the interval."""
    name, start, end = key
    published = {row.query for row in part.replays.get(key, ()) if _published(row)}
    queries = [query for query in snapshot.jobs[name].plan.queries if query.name in published]
    return [rows for query in queries if (rows := preview(snapshot, query, start, end)) is not None]


def _published(row: Record | ReplayRow) -> bool:
    return row.stage == PUBLISH and row.state != FAILED


def _publications(snapshot: Snapshot, query_set: str, query: str) -> list[Record]:
    return [
        record
        for record in snapshot.records
        if (record.query_set, record.query) == (query_set, query) and _published(record)
    ]


def rows_history(snapshot: Snapshot, query_set: str, query: str) -> Plot | None:
    """Plots the number of rows of every published interval."""
    newest: dict[tuple[int, int], Record] = {}
    for record in _publications(snapshot, query_set, query):
        newest[record.interval_start, record.interval_end] = record
    links = next((plan.links for plan in snapshot.jobs[query_set].plan.queries if plan.name == query), ())

    def rows(record: Record) -> float | None:
        bounds = record.interval_start, record.interval_end
        if not record.rows and not any_covers(snapshot.captures, snapshot.config, links, *bounds):
            return None
        return float(record.rows or 0)

    job = snapshot.jobs[query_set]
    first, last = min(newest, default=(0, 0))[0], max((end for _, end in newest), default=0)
    published = sorted(newest)
    begins = [start for start, _ in published]
    bars: list[tuple[tuple[int, int], float | None, str]] = []
    for interval in published:
        value = rows(newest[interval])
        bars.append((interval, value, newest[interval].state if value is not None else NOT_COVERED))
    for start, end in interval_grid(snapshot, query_set, first, last):
        at = bisect_right(begins, start) - 1
        if at < 0 or published[at][1] <= start:  # what is not published has its place on the axis of time
            bars.append(((start, end), None, "not published"))
    return history([(_named(interval, job.length), value, words) for interval, value, words in sorted(bars)], "rows")


def cost_history(snapshot: Snapshot, query_set: str) -> Plot | None:
    """Plots the duration (s) of the last run of every interval, all stages together."""
    length, seconds = snapshot.jobs[query_set].length, run_seconds(snapshot, query_set)
    return history([(_named(interval, length), spent, "run") for interval, spent in sorted(seconds.items())], "s")


def _named(interval: tuple[int, int], length: int) -> str:
    """Names an interval of a set by its begin, and one of another length than it has now by that, too."""
    start, end = interval
    named = f"{moment(start):%-d %b %H:%M}"
    return named if end - start == length else f"{named}, {format_duration(end - start)}"
