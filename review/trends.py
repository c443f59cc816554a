"""Trends of a link or a query over days and weeks, from the ledger `metrics` and the cost of runs.

A value is unusual where the audit's rule says so (`lowwater.quality.history`): it is compared with the intervals before
it, by the present limits of `[history]`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowwater.documents import stored_object
from lowwater.instants import DAY, WEEK, format_instant, spoken_duration
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.coverage import any_covers, gap_cause, gaps
from lowwater.lake.ledgers.missing import unread_rows, unread_words
from lowwater.lake.ledgers.runs import read_metrics
from lowwater.lake.sheets import share_text
from lowwater.quality.history import (
    COVERED,
    LINK,
    QUERY,
    IntervalHistory,
    history_start,
    interval_history,
    is_whole,
)
from lowwater.replay.schedule.due import times_of

from .drawing import NOT_COVERED, Plot, history
from .ledgers import Snapshot, kept_by_snapshot

DAYS, WEEKS = 7, 12
"""Days that are shown by interval, and weeks that are shown by day."""
UNUSUAL, USUAL = "unusual", "usual"
DRIFTS = {
    "volume": "volume",
    "violating": "violating",
    "lateness": "lateness",
    "silence": "silence",
    "link_types": "volume",
    "talkers": "volume",
}
"""Drift of the audit -> measure at which it is marked."""


@dataclass(frozen=True)
class Measure:
    """A measure that has a plot."""

    name: str  # name in the ledger
    title: str  # what it is called on a page
    unit: str  # unit in the plot
    total: bool  # whether a day is the sum of its intervals; otherwise it is their largest, or least, value
    worst: Callable[[Sequence[float]], float] = max  # of the values of a day, the one that is shown
    text: Callable[[float], str] = "{:,.0f}".format  # writes a value


def _span(value: float) -> str:
    return spoken_duration(round(value))


LINK_MEASURES = (
    Measure("volume", "Packets", "packets", True),
    Measure("bytes", "Bytes on the wire", "bytes", True),
    Measure("violating", "Later than the skew", "share", False, text=share_text),
    Measure("malformed", "Malformed", "share", False, text=share_text),
    Measure("copies", "Copies", "packets", True),
    Measure("lateness", "Lateness that 99.9 % keep", "ns", False, text=_span),
    Measure("silence", "Longest silence", "ns", False, text=_span),
    Measure("coverage", "Coverage", "share", False, min, share_text),
)
QUERY_MEASURES = (Measure("volume", "Rows", "rows", True), Measure("seconds", "Cost of the query set", "s", True))


@dataclass(frozen=True)
class Point:
    """The value of an interval or a day: first instant and end (ns), value, and what is unusual about it. The value is
    None where nothing was measured, which is not 0; `why` has the cause."""

    start: int
    end: int
    value: float | None
    unusual: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Series:
    """A measure over time."""

    measure: Measure  # the measure
    days: tuple[Point, ...]  # points by interval of the last days
    weeks: tuple[Point, ...]  # points by day of the last weeks
    plots: tuple[Plot | None, Plot | None]  # plot of the days and of the weeks; None without a point
    words: str  # both in one sentence, for readers who do not see the plots


@dataclass(frozen=True)
class Trend:
    """The measures of a link or a query."""

    kind: str  # `link` or `query`
    name: str  # name of the link or query
    query_set: str  # query set whose audits measured it
    series: tuple[Series, ...]  # measures that are known
    unusual: tuple[tuple[int, int, str], ...]  # (first instant of the interval, end, what is unusual), newest first
    judged: int  # number of intervals that had enough earlier ones to be compared with
    holes: tuple[Point, ...] = ()  # stretches without a measure, oldest first


def subjects(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """Lists (kind, name, query set) of all that has a trend: links by the set that audited most of their intervals."""
    counts: Counter[tuple[str, str]] = Counter()
    for query_set, _, _ in snapshot.keys:
        counts[query_set, ""] += 1
    found = []
    for link in sorted(snapshot.captures):
        reading = [name for name, job in snapshot.jobs.items() if link in job.plan.links and counts[name, ""]]
        if reading:
            found.append((LINK, link, max(sorted(reading), key=lambda name: counts[name, ""])))
    for name, job in sorted(snapshot.jobs.items()):
        found += [(QUERY, query.name, name) for query in job.plan.queries if counts[name, ""]]
    return found


@kept_by_snapshot
def trend(snapshot: Snapshot, kind: str, name: str, query_set: str) -> Trend:
    """Computes the trend of a link or query from the intervals of the last weeks.

    Args:
        kind: `link` or `query`.
        query_set: query set whose audits count.
    """
    last = _last(snapshot, query_set)
    first = max(0, -(-last // DAY) * DAY - WEEKS * WEEK)
    found = _judged(snapshot, _history(snapshot, query_set, first, last, name), kind, name, query_set, first)
    measures = LINK_MEASURES if kind == LINK else QUERY_MEASURES
    points = found.points
    series = tuple(_series(measure, points[measure.name], last) for measure in measures if measure.name in points)
    return Trend(kind, name, query_set, series, tuple(reversed(found.unusual)), found.judged, _stretches(found.absent))


def _last(snapshot: Snapshot, query_set: str) -> int:
    """The end of the last interval of a query set that ran, ns."""
    return max((end for owner, _, end in snapshot.keys if owner == query_set), default=0)


def _history(snapshot: Snapshot, query_set: str, first: int, last: int, name: str | None) -> IntervalHistory:
    """The measures of a query set in [first, last), ns, and before it as far as they are compared with."""
    length, settings = snapshot.jobs[query_set].length, snapshot.config.history
    rows = read_metrics(snapshot.lake, query_set, history_start(settings, first, length), last, name)
    return interval_history(settings, rows, length)


@dataclass
class _Found:
    """What was found of a subject: measure -> points, unusual intervals (oldest first), number that were judged, the
    intervals of which nothing was measured (oldest first)."""

    points: dict[str, list[Point]]
    unusual: list[tuple[int, int, str]]
    judged: int = 0
    absent: list[Point] = field(default_factory=list)


def _judged(snapshot: Snapshot, past: IntervalHistory, kind: str, name: str, query_set: str, first: int) -> _Found:
    """Judges the intervals of a subject from `first` (ns) on, each by those before it."""
    length = snapshot.jobs[query_set].length
    seconds = run_seconds(snapshot, query_set) if kind == QUERY else {}
    found, measured = _Found(defaultdict(list), []), set[int]()
    for start, items, row in past.judged(snapshot.config, kind, name, first):
        found.judged += bool(row["past"]) and is_whole(items)
        marks = {drift: DRIFTS[drift] for drift in DRIFTS if _strange(row, drift)}
        if marks:
            found.unusual.append((start, start + length, ", ".join(drift.replace("_", " ") for drift in marks)))
        values = {measure: value[""] for measure, value in items.items() if "" in value}
        if values.pop(COVERED, 1.0) or values.get("gap"):  # else the interval lies outside of the life of the link
            values["coverage"] = max(0.0, 1 - values.get("gap", 0) / length)
        if "volume" in values:
            measured.add(start)
        if (start, start + length) in seconds:
            values["seconds"] = seconds[start, start + length]
        for measure, value in values.items():
            names = tuple(drift for drift, of in marks.items() if of == measure)
            found.points[measure].append(Point(start, start + length, value, names))
    found.absent = _absent(snapshot, kind, name, query_set, first, measured)
    for points in found.points.values():
        at = {point.start for point in points}
        points += [point for point in found.absent if point.start not in at]
        points.sort(key=lambda point: point.start)
    return found


def _absent(snapshot: Snapshot, kind: str, name: str, query_set: str, first: int, measured: set[int]) -> list[Point]:
    """Returns the intervals from `first` (ns) on of which nothing was measured, with the cause: an axis of time has
    all intervals, also those of an outage."""
    job = snapshot.jobs[query_set]
    captures = {link: snapshot.captures.get(link, Captures()) for link in job.plan.links}
    plan = next((query for query in job.plan.queries if query.name == name), None)
    links = [name] if kind == LINK or plan is None else list(plan.links)
    found, unread = [], unread_rows(snapshot.lake, snapshot.config)
    for start, end in interval_grid(snapshot, query_set, first, _last(snapshot, query_set)):
        if start not in measured:
            why = "not audited"
            if not any_covers(captures, snapshot.config, links, start, end):
                found_gaps = (gaps(link, captures[link], snapshot.config.link(link), start, end) for link in links)
                told = [gap_cause(gap, captures[gap.link]) for each in found_gaps for gap in each]
                refused = [unread_words(list(unread(link, start, end))) for link in links]
                why = ": ".join([NOT_COVERED, *filter(None, [*refused, *told])][:2])
            found.append(Point(start, end, None, why=why))
    return found


def interval_grid(snapshot: Snapshot, query_set: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yields the intervals of a query set that begin in [first, last), ns; a stretch without records has all of its
    own."""
    job = snapshot.jobs[query_set]
    for start, end in times_of(job, {link: snapshot.captures[link] for link in job.plan.links}).intervals():
        for begin in range(start, end, job.length):
            if first <= begin < last:
                yield begin, begin + job.length


def _stretches(points: Sequence[Point]) -> tuple[Point, ...]:
    """Joins neighbours with one cause."""
    joined: list[Point] = []
    for point in points:
        if joined and (joined[-1].end, joined[-1].why) == (point.start, point.why):
            joined[-1] = replace(joined[-1], end=point.end)
        else:
            joined.append(point)
    return tuple(joined)


def _strange(row: Mapping[str, float], drift: str) -> bool:
    """Whether the audit's rule of a drift breaks at the limit of warnings."""
    return f"{drift}_drift" in row and row[f"{drift}_drift"] > row[f"{drift}_drift_warning"]


def run_seconds(snapshot: Snapshot, query_set: str) -> dict[tuple[int, int], float]:
    """Interval -> duration of its last run, all queries of the set and all stages, s."""
    seconds: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    for record in snapshot.records:
        if record.query_set == query_set and record.timings != "{}":
            seconds[record.interval_start, record.interval_end] |= stored_object(record.timings)
    return {interval: sum(each.values()) for interval, each in seconds.items()}


def _series(measure: Measure, points: Sequence[Point], last: int) -> Series:
    by_day: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        by_day[point.start // DAY * DAY].append(point)
    weeks = tuple(_day(measure, day, by_day[day]) for day in sorted(by_day))
    days = tuple(point for point in points if point.start >= last - DAYS * DAY)
    plots = _plot(measure, days, "%H:%M"), _plot(measure, weeks, "")
    return Series(measure, days, weeks, plots, _words(measure, days, weeks))


def _day(measure: Measure, day: int, points: Sequence[Point]) -> Point:
    values = _known(points)
    value = (sum(values) if measure.total else measure.worst(values)) if values else None
    why = next((point.why for point in points if point.why), "")
    return Point(day, day + DAY, value, tuple(dict.fromkeys(name for point in points for name in point.unusual)), why)


def _known(points: Sequence[Point]) -> list[float]:
    return [point.value for point in points if point.value is not None]


def _plot(measure: Measure, points: Sequence[Point], clock: str) -> Plot | None:
    bars = []
    for point in points:
        label = format_instant(point.start)[:16].replace("T", " ") if clock else format_instant(point.start)[:10]
        strange = f"{UNUSUAL} ({', '.join(point.unusual).replace('_', ' ')})" if point.unusual else USUAL
        words = strange if point.value is not None else point.why
        bars.append((label, point.value, words, UNUSUAL if point.unusual else ""))
    return history(bars, measure.unit, measure.text)


def _words(measure: Measure, days: Sequence[Point], weeks: Sequence[Point]) -> str:
    parts = []
    for points, of in ((days, "intervals"), (weeks, "days")):
        if values := _known(points):
            marked = sum(bool(point.unusual) for point in points)
            low, high, end = (measure.text(value) for value in (min(values), max(values), values[-1]))
            absent = f", {len(points) - len(values):,} not measured" if len(points) > len(values) else ""
            parts.append(f"{len(values):,} {of}: {low} to {high}, the last {end}, {marked:,} unusual{absent}")
    return f"{measure.title}. {'; '.join(parts)}."


def links_between(snapshot: Snapshot, start: int, end: int) -> list[tuple[str, str, list[Point], dict[int, float]]]:
    """Returns each link with the query set that measured it, the packets of its intervals in [start, end), ns, and its
    bytes on the wire by first instant (ns)."""
    found, pasts = [], {}
    for kind, name, query_set in subjects(snapshot):
        if kind == LINK:
            if query_set not in pasts:
                pasts[query_set] = _history(snapshot, query_set, start, end, None)
            points = _judged(snapshot, pasts[query_set], kind, name, query_set, start).points
            packets = [point for point in points.get("volume", ()) if point.start < end]
            sizes = {point.start: point.value for point in points.get("bytes", ()) if point.value is not None}
            found.append((name, query_set, packets, sizes))
    return found


@dataclass(frozen=True)
class Summary:
    """A line of the index: the subject, its last value, and how many intervals of its last days are unusual."""

    kind: str
    name: str
    query_set: str
    last: str
    unusual: int
    judged: int
    newest: tuple[int, int, str] | None


@kept_by_snapshot
def summaries(snapshot: Snapshot) -> tuple[Summary, ...]:
    """Returns a line for each link and query over the last days, those with most unusual intervals first."""
    lines, pasts = [], {}
    for kind, name, query_set in subjects(snapshot):
        last = _last(snapshot, query_set)
        first = max(0, last - DAYS * DAY)
        if query_set not in pasts:
            pasts[query_set] = _history(snapshot, query_set, first, last, None)
        found = _judged(snapshot, pasts[query_set], kind, name, query_set, first)
        volume = _known(found.points.get("volume", ()))
        shown = f"{volume[-1]:,.0f} {'packets' if kind == LINK else 'rows'}" if volume else "none"
        newest = found.unusual[-1] if found.unusual else None
        lines.append(Summary(kind, name, query_set, shown, len(found.unusual), found.judged, newest))
    return tuple(sorted(lines, key=lambda line: (-line.unusual, line.kind, line.name)))
