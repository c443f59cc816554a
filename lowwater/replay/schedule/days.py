"""Whole days: a report of the last one in words, and which intervals of a range are not published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from lowwater.instants import HOUR, spoken_instant
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.files import unread_lines
from lowwater.lake.ledgers.intervals import gravest, set_status
from lowwater.lake.ledgers.runs import DONE, FAILED, PUBLISH, read_replays
from lowwater.lake.tables import open_table
from lowwater.quality.over_time import day_lines, flapping, last_change, link_day, trust
from lowwater.quality.reports import interval_audits
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due, expected

# The report, which the DAG `lowwater_digest` sends: five lines on quality, then what each query set has published and
# what is due.

DAY = 24 * HOUR
LOOKED_AT = 31 * DAY
"""How far back intervals that are due are listed, ns."""
NAMED = 5
"""Most intervals of a query set that are named."""


def day_report(jobs: Iterable[Job], unplanned: Mapping[str, str], now: int) -> list[str]:
    """Writes the lines of the report.

    Args:
        unplanned: query set that cannot be planned -> why.
        now: end of the day that it is about, ns since the epoch.

    Raises:
        LakeError: a ledger cannot be read.
    """
    jobs = list(jobs)
    lines: list[str] = _quality(jobs, now) if jobs else []
    unread: list[str] = []
    for job in jobs:
        lines += _published(job, now)
        lines += _due(job, now)
        unread += unread_lines(job.lake, job.config, job.plan.links, hint=False)
    lines += dict.fromkeys(unread)
    return lines + [f"{name} cannot be planned: {why.partition(chr(10))[0]}" for name, why in unplanned.items()]


def _quality(jobs: Sequence[Job], now: int) -> list[str]:
    """The day in five lines: intervals that begin in it, lost traffic, late records, rules that flap, changes."""
    lake, config, start = jobs[0].lake, jobs[0].config, max(0, now - DAY)
    audits = {audit.key: audit for audit in interval_audits(lake, start, now)}
    words: Counter[str] = Counter()
    whys: list[str] = []
    captures: dict[str, Captures] = {}
    for job in jobs:
        captures |= (mine := job.captures())
        rows = read_replays(lake, job.query_set)
        states = set_status(expected(job, mine), rows, wanted=lambda begin, _: start <= begin < now)
        for (begin, end), together in groupby(states, lambda row: (row.start, row.end)):
            first = gravest(list(together))
            word, why = trust(first.shown, first.why, audits.get((job.query_set, begin, end)))
            words[word] += first.intervals
            whys += [why] if why else []
    links = [link_day(lake, config, link, list(captures[link]), start, now) for link in sorted(captures)]
    sets = [job.query_set for job in jobs]
    changes = [change for name in sets if (change := last_change(lake, name)) is not None and change.at >= start]
    return day_lines(words, links, flapping(lake, sets, max(0, start - 7 * DAY), now), changes, whys[0] if whys else "")


def _published(job: Job, now: int) -> list[str]:
    states: dict[tuple[int, int], set[str]] = {}
    for row in read_replays(job.lake, job.query_set):
        if now - DAY <= row.finished_at < now and (row.stage == PUBLISH or row.state == FAILED):
            states.setdefault((row.interval_start, row.interval_end), set()).add(row.state)
    worst = ("failed", "incomplete", "provisional", "done")
    counts = Counter(next((state for state in worst if state in found), "done") for found in states.values())
    told = ", ".join(f"{counts[state]:,} {state}" for state in reversed(worst) if counts[state])
    return [f"{job.query_set}: {told or 'nothing ran'}"]


def _due(job: Job, now: int) -> list[str]:
    begin = max(0, (now - LOOKED_AT) // job.length * job.length)
    work = due(job, DueSelection(begin, None))
    if not work:
        return []
    number = sum(each.intervals for each in work)
    blocked = sum(each.intervals for each in work if each.blocked)
    counts: Counter[str] = Counter()
    for each in work:
        counts[each.state] += each.intervals
    kinds = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
    lines = [f"{job.query_set}: {number:,} due ({kinds})" + (f", {blocked:,} cannot start" if blocked else "")]
    for each in work[:NAMED]:
        why = f"cannot start: {each.blocked}" if each.blocked else "; ".join(each.reasons)
        until = f" to {spoken_instant(each.end)}" if each.intervals > 1 else ""
        lines.append(f"  {spoken_instant(each.start)}{until}, {each.state}: {why[:300]}")
    more = sum(each.intervals for each in work[NAMED:])
    return lines + ([f"  and {more:,} more"] if more else [])


# Whole is `done`: provisional, incomplete, stale and missing intervals are not. Airflow's consumers ask it.


@dataclass(frozen=True)
class WholeRange:
    """The intervals of a range, and what is visible of them.

    Attributes:
        lacking: (first instant in ns, state, reason) of each interval, or stretch without records, that is not done.
        versions: query -> version of its table at that time, for readers that want to see one state.
    """

    lacking: tuple[tuple[int, str, str], ...]
    versions: dict[str, int]


def whole_range(job: Job, start: int, end: int) -> WholeRange:
    """Asks the ledgers for every interval of [start, end).

    Args:
        start: first instant of the range, ns since the epoch.
        end: end of the range, ns since the epoch, exclusive.

    Raises:
        ConfigError: the range does not bound whole intervals.
        LakeError: a ledger cannot be read.
    """
    # Versions come first: what the ledgers then call done is in them, or was replaced by rows that are newer.
    versions = {}
    for query in job.plan.queries:
        table = open_table(job.lake.table(query.name))
        if table is not None:
            versions[query.name] = table.version()
    job.require_bounds(start, end)
    lacking = []
    replays = read_replays(job.lake, job.query_set, (start, end))
    rows = set_status(expected(job, job.captures()), replays, start, end)
    for (begin, _), together in groupby(rows, lambda row: (row.start, row.end)):
        worst = gravest(together)
        if worst.state != DONE:
            lacking.append((begin, worst.shown, worst.why))
    return WholeRange(tuple(lacking), versions)
