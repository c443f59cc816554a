"""What runs now: how many intervals of each query set are worked on, how many are due behind them, and until when."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from lowwater.documents import stored_object
from lowwater.instants import SECOND, spoken_duration, spoken_instant, spoken_span
from lowwater.lake.ledgers.runs import PUBLISH
from lowwater.lake.words import OWED, RUNNING

from .ledgers import Interval, Part

LATELY = 600 * SECOND
"""How long an interval counts as ended lately, ns."""


@dataclass(frozen=True)
class Work:
    """The work on a query set."""

    query_set: str
    span: str  # of which time its intervals are, in words
    running: int  # intervals that are worked on
    due: int  # intervals that a backfill would run besides
    ended: int  # intervals that ended lately
    until: str  # when all are done at the pace of these, in words; empty where there is none yet


def works(part: Part, now: int | None = None) -> list[Work]:
    """Returns the query sets with intervals of a part that are worked on. `now`: ns since the epoch."""
    now = time.time_ns() if now is None else now
    running: dict[str, list[Interval]] = {}
    for each in part.intervals:
        if each.state == RUNNING:
            running.setdefault(each.query_set, []).append(each)
    return [_work(name, found, part, now) for name, found in sorted(running.items())]


def _work(name: str, running: list[Interval], part: Part, now: int) -> Work:
    ends: dict[tuple[int, int], int] = {}
    spent: list[float] = []
    for (query_set, start, end), rows in part.replays.items():
        lately = [row for row in rows if now - row.finished_at < LATELY]
        published = [row.finished_at for row in lately if row.stage == PUBLISH]
        if query_set == name and published:
            ends[start, end] = max(published)
            timings: dict[str, float] = {}
            for row in lately:
                timings |= stored_object(row.timings)
            spent.append(SECOND * sum(timings.values()))
    due = _number(each for each in part.intervals if each.query_set == name and each.state in OWED)
    at_work, until = _number(running), ""
    if ends:
        # From the first end on, since when the work began nobody has recorded; one interval says nothing of a pace. A
        # pause between two backfills counts for it, and the intervals of a batch end together: then what an interval
        # took says more.
        pace = (now - min(ends.values())) / max(1, len(ends) - 1)
        pace = min(pace, median(spent) or pace)
        left = round(pace * (at_work + due))
        until = f"{spoken_instant(now + left)}, in {spoken_duration(left)}" if len(ends) > 1 else ""
    span = spoken_span(min(each.start for each in running), max(each.end for each in running))
    return Work(name, span, at_work, due, len(ends), until)


def _number(intervals: Iterable[Interval]) -> int:
    return sum(each.intervals for each in intervals)
