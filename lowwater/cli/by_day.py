"""`--by-day` of `status`, `report` and `plan`: a line for each day of a zone and each query set."""

from __future__ import annotations

from collections.abc import Iterable

from lowwater.catalog.localdays import local_days
from lowwater.instants import meets
from lowwater.lake.sheets import REASON, SET, TEXT, WHEN, Sheet
from lowwater.replay.schedule.day_states import DayState, Stretch, day_states, days_sheet
from lowwater.replay.schedule.due import Due


def answers(found: Iterable[Stretch], zone: str, start: int | None, end: int | None) -> Sheet:
    """May the report of a day go out, and what is missing if not? Of the days that meet [start, end), ns."""
    return days_sheet(_days(found, zone, start, end))


def work_of_days(work: Iterable[Due], zone: str) -> Sheet:
    """How many intervals of each day are due, by word, and why the gravest ones are."""
    found = (
        Stretch(each.query_set, each.start, each.end, each.intervals, each.word, "; ".join(each.reasons))
        for each in work
    )
    days = [day for day in _days(found, zone, None, None) if day.counts]
    counted = [", ".join(f"{count:,} {word}" for word, count in day.counts.items()) for day in days]
    rows = [(day.day.isoformat(), day.query_set, due, day.why) for day, due in zip(days, counted, strict=True)]
    return Sheet({"day": WHEN, "query set": SET, "due": TEXT, "why": REASON}, rows)


def _days(found: Iterable[Stretch], zone: str, start: int | None, end: int | None) -> list[DayState]:
    return [day for day in day_states(found, local_days(zone)) if meets(day.start, day.end, start, end)]
