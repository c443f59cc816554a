"""The pages of a query set and of a query: plan, text, history of rows and cost."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

from lowwater.plan.explain import describe, explain
from lowwater.plan.queryset import Plan
from lowwater.replay.job import Job

from .board import Snapshot
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
    found = [
        (f"{moment(start):%-d %b %H:%M}", float(row.rows or 0), row.state)
        for (name, of, start, _), row in sorted(known.published.items(), key=lambda each: each[0][2])
        if (name, of) == (query_set, query)
    ]
    return history(found, "rows")


def cost_history(known: Snapshot, query_set: str) -> Plot | None:
    """Seconds of every interval's last run, all stages together."""
    seconds: dict[int, dict[str, float]] = defaultdict(dict)
    for (name, start, _), rows in known.of_interval.items():
        if name == query_set:
            for row in rows:
                seconds[start] |= json.loads(row.timings)
    found = [(f"{moment(at):%-d %b %H:%M}", sum(each.values()), "run") for at, each in sorted(seconds.items()) if each]
    return history(found, "s")
