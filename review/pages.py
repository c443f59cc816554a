"""From an address to a page: the same for the browser and for files.

The door of the folder. A kind of page is a template and a function under `page`, which states its address. Addresses in
a page are relative, values are escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lowwater.instants import format_duration, format_instant, parse_instant
from lowwater.lake.tables import interval_label, safe_name
from lowwater.quality.lateness.counts import bound_of
from lowwater.quality.lateness.review import QUANTILES, recommend
from lowwater.quality.lateness.wording import bound_labels, headline, remarks, share_text

from .board import GRAVITY, Interval, Part, Snapshot
from .calendar import LINK_STATES, SIGNS, Month, link_calendar, months, set_calendar, tally
from .drawing import lateness, waterfall
from .interval import SHOWN, found_of, links_of, operators_of, stages_of
from .lateness import link_review
from .queries import cost_history, explained, newest_preview, previews, query_plan, rows_history
from .trace import trace

_CLOCK = re.compile(r"T(\d\d)(\d\d)(\d\d)")
HERE = Path(__file__).parent
RECENT = 168
"""Intervals of a link that its skew review lists; the plot and the ladder are over all."""


@dataclass(frozen=True)
class Page:
    """A kind of page.

    Attributes:
        address: without `.html`; `{}` stands for a part that tells pages of this kind apart.
        template: file in `templates/`.
        section: the entry of the navigation that it belongs to, or empty. An address without `{}` is that entry.
        fill: makes the values of the template from a snapshot and the parts; None where there is no such page.
        parts: the parts of each page of this kind.
    """

    address: str
    template: str
    section: str
    fill: Callable[..., dict[str, Any] | None]
    parts: Callable[[Snapshot], Iterable[tuple[str, ...]]]

    def match(self, address: str) -> list[str] | None:
        """The parts of an address of this kind; None of any other."""
        mine, asked = self.address.split("/"), address.split("/")
        if len(mine) != len(asked) or any(part not in ("{}", given) for part, given in zip(mine, asked, strict=True)):
            return None
        return [given for part, given in zip(mine, asked, strict=True) if part == "{}"]


PAGES: list[Page] = []
"""Every kind of page; of two that match an address the first counts."""

_Fill = TypeVar("_Fill", bound=Callable[..., dict[str, Any] | None])


def page(
    address: str,
    template: str,
    section: str = "",
    parts: Callable[[Snapshot], Iterable[tuple[str, ...]]] = lambda _: [()],
) -> Callable[[_Fill], _Fill]:
    """Makes a function a kind of page; arguments as `Page`."""

    def register(fill: _Fill) -> _Fill:
        PAGES.append(Page(address, template, section, fill, parts))
        return fill

    return register


def render(known: Snapshot, address: str) -> str | None:
    """The page of an address such as `index.html` or `interval/demo/<interval>.html`; None where there is none.

    Raises:
        LakeError: a ledger cannot be read.
    """
    asked = address.removesuffix(".html")
    for kind in PAGES:
        parts = kind.match(asked) if asked != address else None
        if parts is not None:
            values = kind.fill(known, *parts)
            return None if values is None else _filled(kind, known, "../" * address.count("/"), values)
    return None


def addresses(known: Snapshot) -> Iterator[str]:
    """Every page that there is."""
    for kind in PAGES:
        for parts in kind.parts(known):
            yield f"{kind.address.format(*parts)}.html"


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "instant": format_instant,
        "duration": lambda value: format_duration(bound_of(value)) if value >= 0 else f"-{format_duration(-value)}",
        "exact": format_duration,
        "share": share_text,
        "safe_name": safe_name,
        "file": lambda path: Path(path).name,
    }
    made.globals |= {"signs": SIGNS}
    return made


def _filled(kind: Page, known: Snapshot, root: str, values: dict[str, Any]) -> str:
    return (
        _templates()
        .get_template(kind.template)
        .render(
            root=root,
            section=kind.section,
            navigation=[each for each in PAGES if each.section and "{}" not in each.address],
            docs=(known.lake.reports / "index.html").is_file(),
            lake="/".join(known.lake.root.parts[-2:]),
            **values,
        )
    )


@page("index", "overview.html", "Overview")
def _index(known: Snapshot) -> dict[str, Any]:
    parts = months(known)
    return _overview(known, parts[-1] if parts else None)


@page("month/{}", "overview.html", "Overview", lambda known: [(part.name,) for part in months(known)])
def _month(known: Snapshot, name: str) -> dict[str, Any] | None:
    part = next((each for each in months(known) if each.name == name), None)
    return _overview(known, part) if part else None


def _overview(known: Snapshot, part: Month | None) -> dict[str, Any]:
    parts, intervals = months(known), known.part(part.start, part.end).intervals if part else ()
    calendars, links, counted = [], [], _counted(known)
    if part is not None:
        for job in known.jobs.values():
            mine = [each for each in intervals if each.query_set == job.query_set]
            calendars.append(set_calendar(job.query_set, job.length, mine))
        links = [link_calendar(known, link, part.start, part.end) for link in sorted(known.captures)]
    worst = [each for each in sorted(intervals, key=lambda each: GRAVITY.index(each.state)) if each.state != "done"]
    return {
        "part": part,
        "months": [(each, counted.get(each.name, [])) for each in reversed(parts)],
        "calendars": calendars,
        "links": links,
        "states": [state for state in GRAVITY if any(each.state == state for each in intervals)],
        "link_states": [state for state in LINK_STATES if any(each.counts.get(state) for each in links)],
        "attention": worst[:12],
        "more": max(0, len(worst) - 12),
        "unplanned": known.unplanned,
    }


def _counted(known: Snapshot) -> dict[str, list[tuple[str, int]]]:
    """Month -> the states that were last recorded of its intervals, all query sets together."""
    total: dict[str, Counter[str]] = {}
    for (month, _), counts in tally(known).items():
        total.setdefault(month, Counter()).update(counts)
    return {month: sorted(counts.items(), key=lambda each: GRAVITY.index(each[0])) for month, counts in total.items()}


def _named(names: Any, safe: str) -> str | None:
    return next((name for name in names if safe_name(name) == safe), None)


@page("set/{}", "set.html", parts=lambda known: [(safe_name(name),) for name in known.jobs])
def _set(known: Snapshot, safe: str) -> dict[str, Any] | None:
    name = _named(known.jobs, safe)
    if name is None:
        return None
    job = known.jobs[name]
    return {
        "name": name,
        "job": job,
        "plan": explained(job.plan),
        "cost": cost_history(known, name),
        "latest": _latest(known, name),
    }


def _latest(known: Snapshot, name: str) -> list[Interval]:
    """The last intervals of the last month, newest first."""
    parts = months(known)
    shown = known.part(parts[-1].start, parts[-1].end).intervals if parts else ()
    return [each for each in shown if each.query_set == name][:-25:-1]


def _queries(known: Snapshot) -> Iterator[tuple[str, str]]:
    for job in known.jobs.values():
        yield from ((safe_name(job.query_set), safe_name(query.name)) for query in job.plan.queries)


@page("query/{}/{}", "query.html", parts=_queries)
def _query(known: Snapshot, safe: str, query: str) -> dict[str, Any] | None:
    name = _named(known.jobs, safe)
    if name is None:
        return None
    job = known.jobs[name]
    chosen = _named([each.name for each in job.plan.queries], query)
    if chosen is None:
        return None
    return {
        "name": name,
        "query": chosen,
        "links": query_plan(job, chosen).links,
        "plan": explained(query_plan(job, chosen)),
        "rows": rows_history(known, name, chosen),
        "preview": newest_preview(known, name, chosen),
        "cost": cost_history(known, name),
    }


def _intervals(known: Snapshot) -> Iterator[tuple[str, str]]:
    for part in months(known):
        for each in known.part(part.start, part.end).intervals:
            yield safe_name(each.query_set), interval_label(each.start, each.end)


@page("interval/{}/{}", "interval.html", parts=_intervals)
def _interval(known: Snapshot, safe: str, label: str) -> dict[str, Any] | None:
    name, start = _named(known.jobs, safe), _start(label)
    part = next((each for each in months(known) if start is not None and each.start <= start < each.end), None)
    if name is None or part is None:
        return None
    shown = known.part(part.start, part.end)
    mine = [each for each in shown.intervals if each.query_set == name]
    at = next((at for at, each in enumerate(mine) if interval_label(each.start, each.end) == label), None)
    if at is None:
        return None
    before, after = mine[at - 1] if at else None, mine[at + 1] if at + 1 < len(mine) else None
    return _about(known, shown, mine[at], (before, after))


def _start(label: str) -> int | None:
    """The begin of the interval of a label."""
    try:
        return parse_instant(_CLOCK.sub(r"T\1:\2:\3", label.partition("_")[0]))
    except ValueError:
        return None


def _about(
    known: Snapshot, part: Part, found: Interval, beside: tuple[Interval | None, Interval | None]
) -> dict[str, Any]:
    lags = trace(known, found.key)
    named = [(f"{lag.name} on {lag.on}" if lag.on else lag.name, lag) for lag in lags]
    return {
        "interval": found,
        "before": beside[0],
        "after": beside[1],
        "label": interval_label,
        "audit": part.audits.get(found.key),
        "found": found_of(known, part, found.key),
        "links": links_of(known, part, found.key),
        "stages": stages_of(part, found.key),
        "operators": operators_of(part, found.key),
        "previews": previews(known, part, found.key),
        "falls": waterfall([(name, lag.level, lag.before, lag.typical, lag.most, lag.series) for name, lag in named]),
        "shown": SHOWN,
    }


@page("skew/index", "skews.html", "Skew review")
def _skews(known: Snapshot) -> dict[str, Any]:
    found = [link_review(known, link) for link in sorted(known.captures)]
    return {"reviews": [(each, headline(each)) for each in found]}


@page("skew/{}", "skew.html", "Skew review", lambda known: [(safe_name(link),) for link in known.captures])
def _skew(known: Snapshot, safe: str) -> dict[str, Any] | None:
    link = _named(known.captures, safe)
    if link is None:
        return None
    found = link_review(known, link)
    special = {"in force": found.skew, "recommended": found.recommended, "knee": found.knee}
    plot = lateness(found.total.bounds(), {name: bound for name, bound in special.items() if bound is not None})
    listed = [
        (each, [each.lags.quantile(share) or 0 for share in QUANTILES], recommend(each.lags, found.loss))
        for each in found.seen[-RECENT:][::-1]
    ]
    return {
        "review": found,
        "headline": headline(found),
        "remarks": remarks(found),
        "rungs": [(rung, bound_labels(found, rung)) for rung in found.rungs],
        "plot": plot,
        "shares": QUANTILES,
        "intervals": listed,
        "outliers": found.outlier.seen if found.outlier else (),
    }
