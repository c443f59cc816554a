"""`--by-day` of `status`, `report` and `plan`: a line for each day of a zone and each query set."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from lowwater import terminal
from lowwater.catalog.localdays import local_days
from lowwater.instants import meets
from lowwater.replay.schedule.day_states import DayState, Stretch, day_states
from lowwater.replay.schedule.due import Due


def answers(found: Iterable[Stretch], zone: str, start: int | None, end: int | None) -> Table:
    """May the report of a day go out, and what is missing if not? Of the days that meet [start, end), ns."""
    table = Table("day", "query set", "report", box=None)
    for day in _days(found, zone, start, end):
        table.add_row(day.day.isoformat(), day.query_set, terminal.styled(day.answer, "" if day.whole else "bold"))
    return table


def work_of_days(work: Iterable[Due], zone: str) -> Table:
    """How many intervals of each day are due, by word, and why the gravest ones are."""
    found = (
        Stretch(each.query_set, each.start, each.end, each.intervals, each.word, "; ".join(each.reasons))
        for each in work
    )
    table = Table("day", "query set", "due", "why", box=None)
    for day in _days(found, zone, None, None):
        if day.counts:
            counted = ", ".join(f"{count:,} {word}" for word, count in day.counts.items())
            table.add_row(day.day.isoformat(), day.query_set, counted, terminal.styled(day.why))
    return table


def _days(found: Iterable[Stretch], zone: str, start: int | None, end: int | None) -> list[DayState]:
    return [day for day in day_states(found, local_days(zone)) if meets(day.start, day.end, start, end)]
