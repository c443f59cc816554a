"""The overview: a month as calendars of query sets by intervals and links by hours, and the months before it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lowwater.instants import HOUR, SECOND
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.tables import interval_label, safe_name

from .board import Interval, Snapshot

DAY = 24 * HOUR
MOST_CELLS = 800
"""Intervals of a query set on one page; of short intervals it shows fewer days than a month."""

SIGNS = {
    "running": "▸",
    "failed": "\N{MULTIPLICATION SIGN}",
    "cannot start": "⊘",
    "half published": "½",
    "missing": "○",
    "held": "‖",
    "stale": "~",
    "incomplete": "◐",
    "provisional": "…",
    "warned": "!",
    "done": "·",
    "covered": "·",
    "damaged": "!",
    "partly": "◐",
    "gap": "○",
    "outside": "",
}
"""What stands in a cell beside its colour."""

LINK_STATES = ("gap", "partly", "damaged", "covered")


@dataclass(frozen=True)
class Cell:
    """One interval or hour in a calendar; `span` is how many columns it takes, `address` its page or empty."""

    label: str
    state: str
    address: str = ""
    span: int = 1

    @property
    def sign(self) -> str:
        return SIGNS[self.state]


@dataclass(frozen=True)
class Calendar:
    """A query set or a link over some days.

    Attributes:
        name: of it; `kind` what it is; `address` its page.
        heads: the columns that have a heading: (text, columns).
        days: (day, its cells).
        counts: state -> cells.
    """

    name: str
    kind: str
    address: str
    heads: tuple[tuple[str, int], ...]
    days: tuple[tuple[str, tuple[Cell | None, ...]], ...]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Month:
    """A part of the time that a page shows: [start, end), ns; `name` is part of its address."""

    name: str
    title: str
    start: int
    end: int


def instant(moment: datetime) -> int:
    """The instant (ns) of a moment, which is a whole second."""
    return int(moment.timestamp()) * SECOND


def moment(at: int) -> datetime:
    """The moment, in UTC, of an instant (ns)."""
    return datetime.fromtimestamp(at // SECOND, UTC)


def months(known: Snapshot) -> list[Month]:
    """The months between the first and the last thing that is known, oldest first; days where intervals are short."""
    if known.span is None:
        return []
    first, last = moment(known.span[0]), moment(max(known.span[0], known.span[1] - 1))
    shortest = min((job.length for job in known.jobs.values()), default=HOUR)
    days = max(1, MOST_CELLS * shortest // DAY)
    found: list[Month] = []
    begin = first.replace(hour=0, minute=0, second=0) if days < 28 else first.replace(day=1, hour=0, minute=0, second=0)
    while begin <= last:
        if days < 28:
            end, name, title = begin + timedelta(days=days), f"{begin:%Y-%m-%d}", f"{begin:%-d %B %Y}"
        else:
            end, name, title = (begin + timedelta(days=32)).replace(day=1), f"{begin:%Y-%m}", f"{begin:%B %Y}"
        found.append(Month(name, title, instant(begin), instant(end)))
        begin = end
    return found


def set_calendar(name: str, length: int, intervals: Sequence[Interval]) -> Calendar:
    """A query set by its intervals; `intervals` are those of the month."""
    columns = max(1, DAY // length) if length <= DAY else 1
    rows: dict[int, list[Cell | None]] = {}
    for each in intervals:
        day, within = divmod(each.start, DAY)
        row = rows.setdefault(day, [None] * columns)
        clock = moment(each.start)
        label = f"{clock:%-d %b %H:%M}, {each.state}"
        address = f"interval/{safe_name(name)}/{interval_label(each.start, each.end)}.html"
        at = min(columns - 1, within // length)
        if row[at] is None:
            row[at] = Cell(label, each.state, address)
    counts = Counter(each.state for each in intervals)
    return Calendar(name, "query set", f"set/{safe_name(name)}.html", _heads(columns), _days(rows), counts)


def link_calendar(known: Snapshot, link: str, start: int, end: int) -> Calendar:
    """A link by hours: what its captures cover, and where they are damaged."""
    settings, captures = known.config.link(link), known.captures.get(link, ())
    spans = merged(captures)
    begins = [first for first, _ in spans]
    broken = damaged(captures, start, end)
    low = max(start, settings.since or 0, spans[0][0] // HOUR * HOUR if spans else end)
    high = min(end, end if settings.until is None else settings.until, _last(known))
    rows: dict[int, list[Cell | None]] = {}
    counts: Counter[str] = Counter()
    for hour in range(low // HOUR * HOUR, high, HOUR):
        owed = min(high, hour + HOUR) - max(low, hour)
        held = covered(spans, begins, max(low, hour), min(high, hour + HOUR))
        state = "gap" if not held else "partly" if held < owed else "damaged" if hour in broken else "covered"
        counts[state] += 1
        day, within = divmod(hour, DAY)
        said = f"{moment(hour):%-d %b %H:%M}, {state}"
        rows.setdefault(day, [None] * 24)[within // HOUR] = Cell(said, state)
    return Calendar(link, "link", f"skew/{safe_name(link)}.html", _heads(24), _days(rows), counts)


def _last(known: Snapshot) -> int:
    return known.span[1] if known.span else 0


def merged(captures: Sequence[Capture]) -> list[tuple[int, int]]:
    """What captures cover, as spans that do not touch, in order."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(
        (each.covers_from, each.covers_to) for each in captures if each.covers_to > each.covers_from
    ):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def covered(spans: Sequence[tuple[int, int]], begins: Sequence[int], start: int, end: int) -> int:
    """How much of [start, end), ns, is in spans."""
    total, at = 0, max(0, bisect_right(begins, start) - 1)
    while at < len(spans) and spans[at][0] < end:
        total += max(0, min(end, spans[at][1]) - max(start, spans[at][0]))
        at += 1
    return total


def damaged(captures: Sequence[Capture], start: int, end: int) -> set[int]:
    """The hours in which captures begin that are cut or hold malformed records."""
    rows = (each for each in captures if each.malformed or not each.ended_cleanly)
    return {each.covers_from // HOUR * HOUR for each in rows if start <= each.covers_from < end}


def _heads(columns: int) -> tuple[tuple[str, int], ...]:
    if columns < 4:
        return ()
    each = columns // 4
    return tuple((f"{6 * at:02}", each if at < 3 else columns - 3 * each) for at in range(4))


def _days(rows: Mapping[int, list[Cell | None]]) -> tuple[tuple[str, tuple[Cell | None, ...]], ...]:
    return tuple((f"{moment(day * DAY):%a %-d}", tuple(rows[day])) for day in sorted(rows))


def tally(known: Snapshot) -> dict[tuple[str, str], Counter[str]]:
    """(month, query set) -> what was last recorded of its intervals: published, warned or failed."""
    found: dict[tuple[str, str], Counter[str]] = {}
    parts = months(known)
    starts = [part.start for part in parts]
    newest = {(each.query_set, each.interval_start, each.interval_end): each for each in known.records}
    for key, last in newest.items():
        part = parts[bisect_right(starts, key[1]) - 1]
        state = last.state if last.stage == "publish" or last.state == "failed" else "held"
        state = "warned" if state == "done" and key in known.warned else state
        found.setdefault((part.name, key[0]), Counter())[state] += 1
    return found
