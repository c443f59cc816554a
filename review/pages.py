"""Renders the page of an address, both for the browser and for files: the entry of the folder.

A kind of page is a template and a function with the decorator `page`, which declares its address. Addresses inside a
page are relative, and the templates escape all values.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment
from lowwater_expectations.audits import spoken
from lowwater_expectations.pages import templates
from markupsafe import Markup

from lowwater.catalog.localdays import local_days, zone_names
from lowwater.catalog.protocols import RECORD_KINDS
from lowwater.config import section_of
from lowwater.instants import (
    DAY,
    SECOND,
    WEEK,
    format_duration,
    format_instant,
    parse_instant,
    range_words,
    spoken_duration,
    spoken_span,
)
from lowwater.lake.ledgers.files import unread_lines
from lowwater.lake.sheets import Sheet, share_text
from lowwater.lake.tables import interval_label, interval_page, safe_name
from lowwater.lake.words import DONE, WORDS, gravity
from lowwater.plan.temporal import END_OF_TIME
from lowwater.quality.lateness import bound_of
from lowwater.replay.registry import list_streams, published_text, stream_facts
from lowwater.replay.schedule.day_states import Stretch, day_states, days_sheet
from lowwater.replay.schedule.days import day_quality, trust
from lowwater.replay.schedule.due import Due
from lowwater.replay.schedule.skew_review import arrivals_sheet, bounds_sheet, headline, remarks
from lowwater.replay.telemetry import interval_lags

from .accounting import accounting
from .at_work import works
from .calendar import LINK_STATES, SIGNS, Month, link_calendar, months, set_calendar, tally
from .drawing import lateness, waterfall
from .interval import SHOWN, expectations_of, links_of, low_level_of, made_by, operators_of, placed_of, stages_of
from .lateness import MOST_NAMED, last_day, late_intervals, link_headline, link_review, offenders, refused_shares
from .ledgers import Interval, Part, Snapshot
from .queries import cost_history, explained, newest_preview, previews, query_plan, rows_history
from .traffic import timeline
from .trends import subjects, summaries, trend
from .verdict import overview_verdict

_CLOCK = re.compile(r"T(\d\d)(\d\d)(\d\d)")
HERE = Path(__file__).parent
DAYS, DAYS_FIRST = 62, 6
"""Days of the page of days, and lines of the overview: a line is a day of a query set."""
RECENT = 168
"""Number of intervals in the list of a skew review; its plot and its table of bounds use all."""


@dataclass(frozen=True)
class Page:
    """A kind of page."""

    address: str  # address without `.html`; `{}` is a placeholder, for example for the name of a query set
    template: str  # file in `templates/`
    section: str  # navigation entry of the page, or empty. The page without `{}` is the target of the entry.
    # computes the template's values from a snapshot and the placeholders' values; None for an unknown page
    fill: Callable[..., dict[str, Any] | None]
    parts: Callable[[Snapshot], Iterable[tuple[str, ...]]]  # lists the placeholders' values of all pages of this kind

    def match(self, address: str) -> list[str] | None:
        """Returns the placeholders' values of an address; None if the address is of another kind."""
        pattern, actual = self.address.split("/"), address.split("/")
        if len(pattern) != len(actual) or any(
            part not in ("{}", value) for part, value in zip(pattern, actual, strict=True)
        ):
            return None
        return [value for part, value in zip(pattern, actual, strict=True) if part == "{}"]


PAGES: list[Page] = []
"""All kinds of pages; the first one that matches an address renders it."""

_Fill = TypeVar("_Fill", bound=Callable[..., dict[str, Any] | None])


def page(
    address: str,
    template: str,
    section: str = "",
    parts: Callable[[Snapshot], Iterable[tuple[str, ...]]] = lambda _: [()],
) -> Callable[[_Fill], _Fill]:
    """Registers a function as a kind of page; the arguments are the attributes of `Page`."""

    def register(fill: _Fill) -> _Fill:
        PAGES.append(Page(address, template, section, fill, parts))
        return fill

    return register


def render(
    snapshot: Snapshot,
    address: str,
    served: bool = False,
    notices: Sequence[str] = (),
    follow: bool = False,
    runs: str = "",
) -> str | None:
    """Renders the page of an address such as `index.html` or `interval/demo/<interval>.html`; None if unknown.
    Raises LakeError if a ledger cannot be read.

    Args:
        address: address of the page, relative to the start.
        notices: what the server lacks for its work, shown on top.
        follow: whether the browser asks for the page again and again.
        runs: address of Airflow's own pages, relative to the start; empty without Airflow.
    """
    name = address.removesuffix(".html")
    for kind in PAGES:
        parts = kind.match(name) if name != address else None
        if parts is not None:
            values, root = kind.fill(snapshot, *parts), "../" * address.count("/")
            if values is None:
                return None
            values |= {"notices": notices, "follow": follow, "runs": runs}
            return fill_template(snapshot, kind.template, kind.section, root, values, served)
    return None


def addresses(snapshot: Snapshot) -> Iterator[str]:
    """Lists the addresses of all pages."""
    for kind in PAGES:
        for parts in kind.parts(snapshot):
            yield f"{kind.address.format(*parts)}.html"


@cache
def _templates() -> Environment:
    environment = templates(HERE / "templates")
    environment.filters |= {
        "instant": format_instant,
        "plain_duration": format_duration,
        "duration": lambda value: _spoken_duration(value, bound_of(value)),
        "spoken": spoken,
        "second": lambda value: spoken(format_instant(value - value % SECOND)),
        "when": lambda value: spoken(format_instant(value)),
        "range": _range,
        "span": _spoken_span,
        "exact": lambda value: _spoken_duration(value, value),
        "share": share_text,
        "safe_name": safe_name,
        "file": lambda path: Path(path).name,
    }
    environment.globals |= {"signs": SIGNS, "record_kinds": RECORD_KINDS, "interval_page": interval_page}
    return environment


def _range(each: Interval | Due) -> str:
    """Shows when an interval begins, and of a stretch of intervals also when it ends and how many it has."""
    return spoken(range_words(each.start, each.end, each.intervals))


def _spoken_duration(exact: int, shown: int) -> Markup:
    """Shows a duration (ns) as people read it, with the exact one on hover."""
    text = format_duration(exact) if exact >= 0 else f"-{format_duration(-exact)}"
    return Markup('<span title="{}">{}</span>').format(text, spoken_duration(shown if exact >= 0 else exact))


def _spoken_span(start: int, end: int) -> Markup:
    """Shows a range of instants (ns) as people read it, with the exact one on hover."""
    exact = f"{format_instant(start)} to {format_instant(end)}"
    return Markup('<span title="{}">{}</span>').format(exact, spoken_span(start, end))


def fill_template(
    snapshot: Snapshot, template: str, section: str, root: str, values: dict[str, Any], served: bool
) -> str:
    """Fills the template of a page.

    Args:
        template: file in `templates/`.
        section: navigation entry of the page, or empty.
        root: relative address of the start of the pages, such as `../`.
        served: whether a server answers, which has the results too; otherwise pages are files.
    """
    return (
        _templates()
        .get_template(template)
        .render(
            root=root,
            section=section,
            served=served,
            navigation=[kind for kind in PAGES if kind.section and "{}" not in kind.address],
            lake="/".join(snapshot.lake.root.parts[-2:]),
            **values,
        )
    )


_BRAND = b'<span class="brand">Lowwater</span>\n<span class="where">data-quality report</span>\n'
"""Where a page of the Data Docs has the name: as a file of the lake it stands alone, and the name leads nowhere."""


def with_navigation(snapshot: Snapshot, html: bytes, address: str, served: bool) -> bytes:
    """Puts the navigation of the pages into a page of the Data Docs. `address`: of it, relative to the start."""
    root = "../" * address.count("/")
    navigation = fill_template(snapshot, "navigation.html", "Data Docs", root, {}, served)
    return html.replace(_BRAND, navigation.encode(), 1)


@page("index", "overview.html", "Overview")
def _index(snapshot: Snapshot) -> dict[str, Any]:
    parts = months(snapshot)
    return _overview(snapshot, parts[-1] if parts else None)


@page("month/{}", "overview.html", "Overview", lambda snapshot: [(part.name,) for part in months(snapshot)])
def _month(snapshot: Snapshot, name: str) -> dict[str, Any] | None:
    part = next((month for month in months(snapshot) if month.name == name), None)
    return _overview(snapshot, part) if part else None


def _overview(snapshot: Snapshot, part: Month | None) -> dict[str, Any]:
    parts, shown = months(snapshot), snapshot.part(part.start, part.end) if part else None
    intervals = shown.intervals if shown else ()
    calendars, links, counted = [], [], _counted(snapshot)
    if part is not None:
        for job in snapshot.jobs.values():
            intervals_of_set = [interval for interval in intervals if interval.query_set == job.query_set]
            calendars.append(set_calendar(job.query_set, job.length, intervals_of_set, part.end))
        links = [link_calendar(snapshot, link, part.start, part.end) for link in sorted(snapshot.captures)]
    worst = [
        interval
        for interval in sorted(intervals, key=lambda interval: gravity(interval.state))
        if interval.state != DONE
    ]
    return {
        "part": part,
        "verdict": overview_verdict(snapshot, intervals, shown.audits if shown else {}),
        "months": [(month, counted.get(month.name, [])) for month in reversed(parts)],
        "works": works(shown) if shown else [],
        "days": _days(intervals, "UTC", DAYS_FIRST),
        "traffic": timeline(snapshot, part.start, part.end) if part else None,
        "calendars": calendars,
        "links": links,
        "states": [state for state in WORDS if any(interval.state == state for interval in intervals)],
        "link_states": [state for state in LINK_STATES if any(calendar.counts.get(state) for calendar in links)],
        "attention": worst[:12],
        "more": max(0, len(worst) - 12),
        "unplanned": snapshot.unplanned,
        "unread": unread_lines(snapshot.lake, snapshot.config, {*snapshot.captures, *_own_links(snapshot)}, hint=False),
    }


def _days(intervals: Iterable[Interval], zone: str, most: int | None = None) -> Sheet:
    """The days of intervals by the calendar of a zone, the newest first."""
    found = (
        Stretch(each.query_set, each.start, each.end, each.intervals, each.state, each.reason) for each in intervals
    )
    days = sorted(day_states(found, local_days(zone)), key=lambda day: (-day.start, day.query_set))
    return days_sheet(days[:most])


def _zones(snapshot: Snapshot) -> list[str]:
    """The time zones that the settings name, which have pages of their own."""
    pieces = (piece for link in snapshot.config.links.values() for piece in link.pieces())
    return sorted({"UTC", *(piece.settings.timezone for piece in pieces)})


@page("days", "days.html", "Days")
def _days_of(snapshot: Snapshot, zone: str = "UTC") -> dict[str, Any]:
    last = max((end for _, _, end in snapshot.keys), default=0)
    days = _days(snapshot.part(max(0, last - DAYS * DAY), END_OF_TIME).intervals, zone)
    zones = [(each, f"days/{each.replace('/', '~')}") for each in _zones(snapshot)]
    return {"zone": zone, "zones": zones, "days": days, "newest": DAYS}


@page("days/{}", "days.html", "Days", lambda snapshot: [(zone.replace("/", "~"),) for zone in _zones(snapshot)])
def _days_in(snapshot: Snapshot, zone: str) -> dict[str, Any] | None:
    name = zone.replace("~", "/")
    return _days_of(snapshot, name) if name in zone_names() else None


def _own_links(snapshot: Snapshot) -> set[str]:
    """Returns the links of the query sets of a snapshot, also those without captures."""
    return {link for job in snapshot.jobs.values() for link in job.plan.links}


def _counted(snapshot: Snapshot) -> dict[str, list[tuple[str, int]]]:
    """Counts the intervals of every month by their last recorded state, all query sets together."""
    total: dict[str, Counter[str]] = {}
    for (month, _), counts in tally(snapshot).items():
        total.setdefault(month, Counter()).update(counts)
    return {month: sorted(counts.items(), key=lambda count: gravity(count[0])) for month, counts in total.items()}


def _named(names: Any, safe: str) -> str | None:
    return next((name for name in names if safe_name(name) == safe), None)


@page("set/{}", "set.html", parts=lambda snapshot: [(safe_name(name),) for name in snapshot.jobs])
def _set(snapshot: Snapshot, safe: str) -> dict[str, Any] | None:
    name = _named(snapshot.jobs, safe)
    if name is None:
        return None
    job, latest = snapshot.jobs[name], _latest(snapshot, name)
    return {
        "name": name,
        "job": job,
        "plan": explained(job.plan),
        "cost": cost_history(snapshot, name),
        "latest": latest,
        "span": (latest[-1].start, latest[0].end) if latest else None,
    }


def _latest(snapshot: Snapshot, name: str) -> list[Interval]:
    """Returns the newest intervals of the last month, newest first."""
    parts = months(snapshot)
    newest = snapshot.part(parts[-1].start, parts[-1].end).intervals if parts else ()
    return [interval for interval in newest if interval.query_set == name][:-25:-1]


def _queries(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for job in snapshot.jobs.values():
        yield from ((safe_name(job.query_set), safe_name(query.name)) for query in job.plan.queries)


@page("query/{}/{}", "query.html", parts=_queries)
def _query(snapshot: Snapshot, safe: str, query: str) -> dict[str, Any] | None:
    name = _named(snapshot.jobs, safe)
    if name is None:
        return None
    job = snapshot.jobs[name]
    chosen = _named([item.name for item in job.plan.queries], query)
    if chosen is None:
        return None
    return {
        "name": name,
        "query": chosen,
        "links": query_plan(job, chosen).links,
        "plan": explained(query_plan(job, chosen)),
        "rows": rows_history(snapshot, name, chosen),
        "preview": newest_preview(snapshot, name, chosen),
        "cost": cost_history(snapshot, name),
    }


def _intervals(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for part in months(snapshot):
        for interval in snapshot.part(part.start, part.end).intervals:
            yield safe_name(interval.query_set), interval_label(interval.start, interval.end)


@page("interval/{}/{}", "interval.html", parts=_intervals)
def _interval(snapshot: Snapshot, safe: str, label: str) -> dict[str, Any] | None:
    name, start = _named(snapshot.jobs, safe), _start(label)
    part = next((month for month in months(snapshot) if start is not None and month.start <= start < month.end), None)
    if name is None or part is None:
        return None
    month_part = snapshot.part(part.start, part.end)
    intervals = [interval for interval in month_part.intervals if interval.query_set == name]
    at = next(
        (at for at, interval in enumerate(intervals) if interval_label(interval.start, interval.end) == label), None
    )
    if at is None:
        return None
    before, after = intervals[at - 1] if at else None, intervals[at + 1] if at + 1 < len(intervals) else None
    return _about(snapshot, month_part, intervals[at], (before, after))


def _start(label: str) -> int | None:
    """Parses the start of an interval from its label, ns since the epoch; None if malformed."""
    try:
        return parse_instant(_CLOCK.sub(r"T\1:\2:\3", label.partition("_")[0]))
    except ValueError:
        return None


def _about(
    snapshot: Snapshot, part: Part, interval: Interval, beside: tuple[Interval | None, Interval | None]
) -> dict[str, Any]:
    job, lake = snapshot.jobs.get(interval.query_set), str(snapshot.lake.root)
    lags = [] if job is None else interval_lags(job, interval.start, interval.end)
    links, low = links_of(snapshot, part, interval.key), low_level_of(snapshot, interval.key)
    named = [(f"{lag.name} on {lag.on}" if lag.on else lag.name, lag) for lag in lags]
    return {
        "interval": interval,
        "why": shlex.join(["lowwater", "why", interval.query_set, format_instant(interval.start), "--lake", lake]),
        "before": beside[0],
        "after": beside[1],
        "label": interval_label,
        "audit": part.audits.get(interval.key),
        "found": expectations_of(snapshot, part, interval.key),
        "links": links,
        "stages": stages_of(part, interval.key),
        "operators": operators_of(part, interval.key),
        "made": made_by(part, interval.key),
        "low": low,
        "accounts": accounting(interval.key, job.plan if job else None, links, low),
        "placed": placed_of(part, interval.key),
        "previews": previews(snapshot, part, interval.key),
        "falls": waterfall([(name, lag.level, lag.before, lag.typical, lag.most, lag.series) for name, lag in named]),
        "shown": SHOWN,
    }


@page("streams", "streams.html", "Streams")
def _streams(snapshot: Snapshot) -> dict[str, Any]:
    streams = list_streams(snapshot.lake, list(snapshot.jobs.values()), snapshot.unplanned)
    return {"streams": streams, "published_text": published_text, "facts": stream_facts, "planned": snapshot.jobs}


@page("quality", "quality.html", "Quality")
def _quality(snapshot: Snapshot) -> dict[str, Any]:
    """What the last day with intervals is worth, hour by hour; what flaps, and what changed."""
    start, end = last_day(snapshot)
    part = snapshot.part(start, end)
    hours = [(each, *trust(each.state, each.reason, part.audits.get(each.key))) for each in part.intervals]
    worth = ((word, why, each.intervals, each.end) for each, word, why in hours)
    return {
        "start": start,
        "end": end,
        "day": day_quality(snapshot.lake, snapshot.config, snapshot.captures, snapshot.jobs, worth, start, end),
        "hours": sorted(hours, key=lambda each: (each[0].query_set, each[0].start)),
    }


@page("trends/index", "trends.html", "Trends")
def _trends(snapshot: Snapshot) -> dict[str, Any]:
    return {"lines": summaries(snapshot)}


def _subjects(snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    yield from ((kind, safe_name(query_set), safe_name(name)) for kind, name, query_set in subjects(snapshot))


@page("trends/{}/{}/{}", "trend.html", "Trends", _subjects)
def _trend(snapshot: Snapshot, kind: str, safe_set: str, safe: str) -> dict[str, Any] | None:
    for of, name, query_set in subjects(snapshot):
        if (of, safe_name(query_set), safe_name(name)) == (kind, safe_set, safe):
            found = trend(snapshot, kind, name, query_set)
            return {"trend": found, "settings": snapshot.config.history}
    return None


@page("skew/index", "skews.html", "Skew review")
def _skews(snapshot: Snapshot) -> dict[str, Any]:
    return {"reviews": [link_headline(snapshot, link) for link in sorted(snapshot.captures)]}


@page("skew/{}", "skew.html", "Skew review", lambda snapshot: [(safe_name(link),) for link in snapshot.captures])
def _skew(snapshot: Snapshot, safe: str) -> dict[str, Any] | None:
    link = _named(snapshot.captures, safe)
    if link is None:
        return None
    review = link_review(snapshot, link)
    special = {"in force": review.skew, "recommended": review.recommended}
    plot = lateness(review.total.bounds(), {name: bound for name, bound in special.items() if bound is not None})
    shown = review.seen[-RECENT:][::-1]
    late = [f"late/{safe}/{interval_label(each.start, each.end)}.html" if each.refused else "" for each in shown]
    return {
        "review": review,
        "headline": headline(review),
        "remarks": remarks(review),
        "bounds": bounds_sheet(review),
        "plot": plot,
        "intervals": arrivals_sheet(review, shown, refused_shares(snapshot, link)),
        "late": late,
        "acts": [f"act/skew/{safe}?bound={format_duration(rung.bound_ns)}" for rung in review.rungs],
    }


def _late_parts(snapshot: Snapshot) -> Iterator[tuple[str, ...]]:
    for link in snapshot.captures:
        for start, end in late_intervals(snapshot, link):
            yield safe_name(link), interval_label(start, end)


@page("late/{}/{}", "late.html", "Skew review", parts=_late_parts)
def _late(snapshot: Snapshot, safe: str, label: str) -> dict[str, Any] | None:
    """Who was late: captures and senders of the records of an interval that the skew refused."""
    link = _named(snapshot.captures, safe)
    chosen = [each for each in late_intervals(snapshot, link) if interval_label(*each) == label] if link else []
    if link is None or not chosen:
        return None
    ((start, end),) = chosen
    settings, shares = snapshot.config.link(link), refused_shares(snapshot, link)
    return {
        "link": link,
        "start": start,
        "end": end,
        "skew": settings.at(end - 1).skew,
        "limits": snapshot.config.limits(link).violating,
        "limits_in": section_of(link, "thresholds"),
        "share": shares.get((start, end), 0.0),
        "before": shares.get((start - WEEK, end - WEEK)),
        "found": offenders(snapshot.lake, link, snapshot.captures[link], settings, start, end),
        "review": link_headline(snapshot, link),
        "most": MOST_NAMED,
    }
