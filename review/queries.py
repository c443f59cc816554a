"""The pages of a query set and of a query: plan, text, history of rows and cost."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

from lowwater.lake.records import FAILED, PUBLISH
from lowwater.plan.explain import describe, explain
from lowwater.plan.queryset import Plan
from lowwater.replay.job import Job

from .board import Record, Snapshot
from .calendar import moment
from .drawing import PlanDrawing, Plot, history, plan


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


def rows_history(known: Snapshot, query_set: str, query: str) -> Plot | None:
    """Rows of every published interval."""
    newest: dict[int, Record] = {}
    for each in known.records:
        if (each.query_set, each.query, each.stage) == (query_set, query, PUBLISH) and each.state != FAILED:
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
