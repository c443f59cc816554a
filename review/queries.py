"""The pages of a query set and of a query: plan, text, history of rows and cost."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

from lowwater.lake.ledgers.runs import FAILED, PUBLISH, ReplayRow
from lowwater.lake.results.visible import rows_between
from lowwater.plan.explain import describe, explain
from lowwater.plan.queryset import Plan
from lowwater.quality.verdicts import Key
from lowwater.replay.job import Job

from .board import Part, Record, Snapshot
from .calendar import moment
from .drawing import PlanDrawing, Plot, history, plan

SHOWN = 20
"""Rows of a query that a page shows; `lowwater rows` has all."""


@dataclass(frozen=True)
class Preview:
    """The first rows of a query in [start, end), ns: cells as texts, and how many rows there are."""

    query: str
    start: int
    end: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int


@dataclass(frozen=True)
class Explained:
    """A plan: its drawing, EXPLAIN as text, and what the queries say."""

    drawing: PlanDrawing
    text: str
    gsql: tuple[tuple[str, str], ...]


def explained(chosen: Plan) -> Explained:
    """What there is to show of a plan."""
    texts = tuple((query.name, query.text) for query in chosen.queries)
    return Explained(plan(describe(chosen)), explain(chosen), texts)


def query_plan(job: Job, query: str) -> Plan:
    """The plan of one output query of a set."""
    return job.plan.only(query)


def preview(known: Snapshot, query: str, start: int, end: int) -> Preview | None:
    """The first published rows of a query in [start, end), ns; None where nothing is published."""
    found = rows_between(known.lake, query, start, end)
    if found is None:
        return None
    rows = [row.values() for batch in found.batches(SHOWN) for row in batch.to_pylist()]
    cells = tuple(tuple("NULL" if cell is None else str(cell) for cell in row) for row in rows)
    return Preview(query, start, end, found.columns, cells, found.rows)


def newest_preview(known: Snapshot, query_set: str, query: str) -> Preview | None:
    """The first rows of the newest published interval of a query."""
    bounds = [(each.interval_start, each.interval_end) for each in _publications(known, query_set, query)]
    return preview(known, query, *max(bounds)) if bounds else None


def previews(known: Snapshot, part: Part, key: Key) -> list[Preview]:
    """The first rows of each query that is published of an interval."""
    name, start, end = key
    made = {each.query for each in part.replays.get(key, ()) if _published(each)}
    queries = [query.name for query in known.jobs[name].plan.queries if query.name in made]
    return [found for query in queries if (found := preview(known, query, start, end)) is not None]


def _published(row: Record | ReplayRow) -> bool:
    return row.stage == PUBLISH and row.state != FAILED


def _publications(known: Snapshot, query_set: str, query: str) -> list[Record]:
    return [each for each in known.records if (each.query_set, each.query) == (query_set, query) and _published(each)]


def rows_history(known: Snapshot, query_set: str, query: str) -> Plot | None:
    """Rows of every published interval."""
    newest: dict[int, Record] = {}
    for each in _publications(known, query_set, query):
        newest[each.interval_start] = each
    return history([(_named(at), float(newest[at].rows or 0), newest[at].state) for at in sorted(newest)], "rows")


def cost_history(known: Snapshot, query_set: str) -> Plot | None:
    """Seconds of every interval's last run, all stages together."""
    seconds: dict[int, dict[str, float]] = defaultdict(dict)
    for each in known.records:
        if each.query_set == query_set and each.timings != "{}":
            seconds[each.interval_start] |= json.loads(each.timings)
    return history([(_named(at), sum(seconds[at].values()), "run") for at in sorted(seconds)], "s")


def _named(at: int) -> str:
    return f"{moment(at):%-d %b %H:%M}"
