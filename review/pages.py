"""From an address to a page: the same for the browser and for files.

The door of the folder. A page is a function of a snapshot; every address in it is relative, every value is escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

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


def render(known: Snapshot, address: str) -> str | None:
    """The page of an address such as `index.html` or `interval/demo/<interval>.html`; None where there is none.

    Raises:
        LakeError: a ledger cannot be read.
    """
    root = "../" * address.count("/")
    match address.removesuffix(".html").split("/") if address.endswith(".html") else ():
        case ["index"]:
            parts = months(known)
            return _overview(known, parts[-1] if parts else None, root)
        case ["month", name]:
            part = next((each for each in months(known) if each.name == name), None)
            return _overview(known, part, root) if part else None
        case ["set", name]:
            return _set(known, name, root)
        case ["query", name, query]:
            return _query(known, name, query, root)
        case ["interval", name, label]:
            return _interval(known, name, label, root)
        case ["skew", "index"]:
            return _skews(known, root)
        case ["skew", link]:
            return _skew(known, link, root)
    return None


def addresses(known: Snapshot) -> Iterator[str]:
    """Every page that there is."""
    yield from ("index.html", "skew/index.html")
    for part in months(known):
        yield f"month/{part.name}.html"
        for each in known.part(part.start, part.end).intervals:
            yield f"interval/{safe_name(each.query_set)}/{interval_label(each.start, each.end)}.html"
    for job in known.jobs.values():
        yield f"set/{safe_name(job.query_set)}.html"
        yield from (f"query/{safe_name(job.query_set)}/{safe_name(query.name)}.html" for query in job.plan.queries)
    yield from (f"skew/{safe_name(link)}.html" for link in known.captures)


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


def _page(template: str, known: Snapshot, root: str, **values: Any) -> str:
    docs = (known.lake.reports / "index.html").is_file()
    return (
        _templates()
        .get_template(template)
        .render(root=root, docs=docs, lake="/".join(known.lake.root.parts[-2:]), **values)
    )


def _overview(known: Snapshot, part: Month | None, root: str) -> str:
    parts, intervals = months(known), known.part(part.start, part.end).intervals if part else ()
    calendars, links, counted = [], [], _counted(known)
    if part is not None:
        for job in known.jobs.values():
            mine = [each for each in intervals if each.query_set == job.query_set]
            calendars.append(set_calendar(job.query_set, job.length, mine))
        links = [link_calendar(known, link, part.start, part.end) for link in sorted(known.captures)]
    worst = [each for each in sorted(intervals, key=lambda each: GRAVITY.index(each.state)) if each.state != "done"]
    return _page(
        "overview.html",
        known,
        root,
        part=part,
        months=[(each, counted.get(each.name, [])) for each in reversed(parts)],
        calendars=calendars,
        links=links,
        states=[state for state in GRAVITY if any(each.state == state for each in intervals)],
        link_states=[state for state in LINK_STATES if any(each.counts.get(state) for each in links)],
        attention=worst[:12],
        more=max(0, len(worst) - 12),
        unplanned=known.unplanned,
    )


def _counted(known: Snapshot) -> dict[str, list[tuple[str, int]]]:
    """Month -> the states that were last recorded of its intervals, all query sets together."""
    total: dict[str, Counter[str]] = {}
    for (month, _), counts in tally(known).items():
        total.setdefault(month, Counter()).update(counts)
    return {month: sorted(counts.items(), key=lambda each: GRAVITY.index(each[0])) for month, counts in total.items()}


def _named(names: Any, safe: str) -> str | None:
    return next((name for name in names if safe_name(name) == safe), None)


def _set(known: Snapshot, safe: str, root: str) -> str | None:
    name = _named(known.jobs, safe)
    if name is None:
        return None
    job = known.jobs[name]
    return _page(
        "set.html",
        known,
        root,
        name=name,
        job=job,
        plan=explained(job.plan),
        cost=cost_history(known, name),
        latest=_latest(known, name),
    )


def _latest(known: Snapshot, name: str) -> list[Interval]:
    """The last intervals of the last month, newest first."""
    parts = months(known)
    shown = known.part(parts[-1].start, parts[-1].end).intervals if parts else ()
    return [each for each in shown if each.query_set == name][:-25:-1]


def _query(known: Snapshot, safe: str, query: str, root: str) -> str | None:
    name = _named(known.jobs, safe)
    if name is None:
        return None
    job = known.jobs[name]
    chosen = _named([each.name for each in job.plan.queries], query)
    if chosen is None:
        return None
    return _page(
        "query.html",
        known,
        root,
        name=name,
        query=chosen,
        links=query_plan(job, chosen).links,
        plan=explained(query_plan(job, chosen)),
        rows=rows_history(known, name, chosen),
        preview=newest_preview(known, name, chosen),
        cost=cost_history(known, name),
    )


def _interval(known: Snapshot, safe: str, label: str, root: str) -> str | None:
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
    return _about(known, shown, mine[at], (before, after), root)


def _start(label: str) -> int | None:
    """The begin of the interval of a label."""
    try:
        return parse_instant(_CLOCK.sub(r"T\1:\2:\3", label.partition("_")[0]))
    except ValueError:
        return None


def _about(
    known: Snapshot, part: Part, found: Interval, beside: tuple[Interval | None, Interval | None], root: str
) -> str:
    lags = trace(known, found.key)
    named = [(f"{lag.name} on {lag.on}" if lag.on else lag.name, lag) for lag in lags]
    return _page(
        "interval.html",
        known,
        root,
        interval=found,
        before=beside[0],
        after=beside[1],
        label=interval_label,
        audit=part.audits.get(found.key),
        found=found_of(known, part, found.key),
        links=links_of(known, part, found.key),
        stages=stages_of(part, found.key),
        operators=operators_of(part, found.key),
        previews=previews(known, part, found.key),
        falls=waterfall([(name, lag.level, lag.before, lag.typical, lag.most, lag.series) for name, lag in named]),
        shown=SHOWN,
    )


def _skews(known: Snapshot, root: str) -> str:
    found = [link_review(known, link) for link in sorted(known.captures)]
    return _page("skews.html", known, root, reviews=[(each, headline(each)) for each in found])


def _skew(known: Snapshot, safe: str, root: str) -> str | None:
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
    return _page(
        "skew.html",
        known,
        root,
        review=found,
        headline=headline(found),
        remarks=remarks(found),
        rungs=[(rung, bound_labels(found, rung)) for rung in found.rungs],
        plot=plot,
        shares=QUANTILES,
        intervals=listed,
        outliers=found.outlier.seen if found.outlier else (),
    )
