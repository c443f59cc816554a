"""Calendars of the overview: one month of each query set by interval and of each link by hour.

`pages` renders them. A month with too many intervals is divided into parts of some days.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lowwater.catalog.time import uncovered
from lowwater.instants import DAY, HOUR, SECOND
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.intervals import visible
from lowwater.lake.ledgers.runs import AUDIT, PUBLISH
from lowwater.lake.tables import interval_page, safe_name
from lowwater.lake.words import DONE, FAILED, HELD, MISSING, WARNED, WORDS, gravity
from lowwater.quality.reports import Key
from lowwater.replay.schedule.due import times_of

from .ledgers import Interval, Snapshot, kept_by_snapshot

MOST_CELLS = 800
"""Maximum number of intervals of a query set on one page; short intervals reduce the days of a page."""

SIGNS = {word: each.sign for word, each in WORDS.items()} | {"covered": "·", "partly": "◐", "gap": "○", "outside": ""}
"""Sign of a cell by state, for readers who cannot tell the colours apart."""

LINK_STATES = ("gap", "partly", "damaged", "covered")


@dataclass(frozen=True)
class Cell:
    """One interval or hour in a calendar."""

    label: str  # time and state, as text
    state: str  # a key of `SIGNS`
    address: str = ""  # address of the page of the interval; empty without a page
    span: int = 1  # number of columns

    @property
    def sign(self) -> str:
        return SIGNS[self.state]


@dataclass(frozen=True)
class Calendar:
    """States of a query set or a link over several days."""

    name: str  # name of the query set or link
    kind: str  # `query set` or `link`
    address: str  # address of its page
    heads: tuple[tuple[str, int], ...]  # column headings: (text, number of columns)
    days: tuple[tuple[str, tuple[Cell | None, ...]], ...]  # rows of the calendar: (day, cells)
    counts: Mapping[str, int]  # number of cells by state


@dataclass(frozen=True)
class Month:
    """Range of time that an overview page shows: a month, or several days of it."""

    name: str  # the range in the address of the page
    title: str  # the range in words
    start: int  # first instant, ns since the epoch
    end: int  # end, ns since the epoch, exclusive


def instant(moment: datetime) -> int:
    """Converts a datetime of a whole second to ns since the epoch."""
    return int(moment.timestamp()) * SECOND


def moment(at: int) -> datetime:
    """Converts ns since the epoch to a datetime in UTC, whole seconds."""
    return datetime.fromtimestamp(at // SECOND, UTC)


@kept_by_snapshot
def months(snapshot: Snapshot) -> list[Month]:
    """Divides the time of a lake into months, oldest first, or into days if intervals are short.

    A month in which no interval begins, no link is covered from or to, and no record lies is left out.
    """
    if snapshot.span is None:
        return []
    instants = _instants(snapshot)
    shortest = min((job.length for job in snapshot.jobs.values()), default=HOUR)
    days = max(1, MOST_CELLS * shortest // DAY)
    parts: dict[str, Month] = {}
    for day in sorted({max(0, at) // DAY for at in instants}):
        begin = moment(day * DAY)
        if days < 28:
            begin -= timedelta(days=(day - instants[0] // DAY) % days)
            end, name, title = begin + timedelta(days=days), f"{begin:%Y-%m-%d}", f"{begin:%-d %B %Y}"
        else:
            begin = begin.replace(day=1)
            end, name, title = (begin + timedelta(days=32)).replace(day=1), f"{begin:%Y-%m}", f"{begin:%B %Y}"
        parts[name] = Month(name, title, instant(begin), instant(end))
    return list(parts.values())


def _instants(snapshot: Snapshot) -> list[int]:
    """Returns the instants that months are made for, ns since the epoch, ascending."""
    found = {start for _, start, _ in snapshot.keys}
    for job in snapshot.jobs.values():
        times = times_of(job, {link: snapshot.captures[link] for link in job.plan.links})
        found |= {start for start, _ in times.intervals()}
    for captures in snapshot.captures.values():
        spans = captures.spans
        found |= {begin for begin, _ in spans} | {end - 1 for _, end in spans}
        found |= {at // HOUR * HOUR for name in ("smallest", "largest") for at in captures.numbers(name).tolist() if at}
    return sorted(found)


def set_calendar(name: str, length: int, intervals: Sequence[Interval], end: int) -> Calendar:
    """Builds the calendar of a query set. `end`: end of the month, ns since the epoch: a stretch of intervals is drawn
    up to there."""
    columns = -(-DAY // length)  # of 7 hours, four begin on some days
    rows: dict[int, list[Cell | None]] = {}
    counts: Counter[str] = Counter()
    for interval in intervals:
        counts[interval.state] += interval.intervals
        address = interval_page(name, interval.start, interval.end)
        until = interval.start + 1 if interval.intervals == 1 else min(interval.end, end)
        for start in range(interval.start, until, length):
            day, within = divmod(start, DAY)
            row = rows.setdefault(day, [None] * columns)
            at = min(columns - 1, within // length)
            before = row[at]  # of another length, or where several begin
            if before is None or gravity(interval.state) < gravity(before.state):
                row[at] = Cell(f"{moment(start):%-d %b %H:%M}, {interval.state}", interval.state, address)
    return Calendar(name, "query set", f"set/{safe_name(name)}.html", _heads(columns), _days(rows), counts)


def link_calendar(snapshot: Snapshot, link: str, start: int, end: int) -> Calendar:
    """Builds the calendar of a link by hour: coverage of its captures, and damage."""
    settings, captures = snapshot.config.link(link), snapshot.captures.get(link, Captures())
    spans = captures.spans
    broken = {at // HOUR * HOUR for at in captures.damaged().tolist() if start <= at < end}
    low = max(start, settings.since or 0, spans[0][0] // HOUR * HOUR if spans else end)
    high = min(end, end if settings.until is None else settings.until, _last(snapshot))
    rows: dict[int, list[Cell | None]] = {}
    counts: Counter[str] = Counter()
    for hour in range(low // HOUR * HOUR, high, HOUR):
        begin, until = max(low, hour), min(high, hour + HOUR)
        expected_time = until - begin
        covered_time = expected_time - sum(last - first for first, last in uncovered(spans, begin, until))
        state = _coverage_state(covered_time, expected_time, hour in broken)
        counts[state] += 1
        day, within = divmod(hour, DAY)
        label = f"{moment(hour):%-d %b %H:%M}, {state}"
        rows.setdefault(day, [None] * 24)[within // HOUR] = Cell(label, state)
    return Calendar(link, "link", f"skew/{safe_name(link)}.html", _heads(24), _days(rows), counts)


def _coverage_state(covered_time: int, expected_time: int, is_damaged: bool) -> str:
    if not covered_time:
        return "gap"
    if covered_time < expected_time:
        return "partly"
    return "damaged" if is_damaged else "covered"


def _last(snapshot: Snapshot) -> int:
    return snapshot.span[1] if snapshot.span else 0


def _heads(columns: int) -> tuple[tuple[str, int], ...]:
    if columns < 4:
        return ()
    quarter = columns // 4
    return tuple((f"{6 * at:02}", quarter if at < 3 else columns - 3 * quarter) for at in range(4))


def _days(rows: Mapping[int, list[Cell | None]]) -> tuple[tuple[str, tuple[Cell | None, ...]], ...]:
    return tuple((f"{moment(day * DAY):%a %-d}", tuple(rows[day])) for day in sorted(rows))


def tally(snapshot: Snapshot) -> dict[tuple[str, str], Counter[str]]:
    """Counts intervals by their last recorded state, for each (month, query set); those over all of which others were
    published since are no more."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    parts = months(snapshot)
    starts = [part.start for part in parts]
    newest: dict[Key, str] = {}
    published: dict[str, dict[tuple[int, int], int]] = {}
    for at, record in enumerate(snapshot.records):
        key = record.query_set, record.interval_start, record.interval_end
        if record.stage == PUBLISH and record.state != FAILED:
            published.setdefault(record.query_set, {})[key[1:]] = at
        if record.stage == PUBLISH or record.state == FAILED:
            newest[key] = record.state
        elif record.stage == AUDIT:
            newest[key] = HELD
        else:  # a run that has ended before its audit leaves what there was
            newest.setdefault(key, MISSING)
    for name, places in published.items():
        left = {piece.number for piece in visible(places)}
        for bounds, at in places.items():
            if at not in left and newest[name, *bounds] != FAILED:
                del newest[name, *bounds]
    for key, last in newest.items():
        part, state = parts[bisect_right(starts, key[1]) - 1], last
        state = WARNED if state == DONE and key in snapshot.warned else state
        counts.setdefault((part.name, key[0]), Counter())[state] += 1
    return counts
