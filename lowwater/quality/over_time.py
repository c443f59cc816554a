"""The quality of a lake over time, from its ledgers: what a day is worth, which rules flap, what a change did.

The page *Quality* and the daily digest show it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.config import Config
from lowwater.instants import spoken_duration
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.ledgers.coverage import covered_share
from lowwater.lake.ledgers.history import late_share
from lowwater.lake.ledgers.runs import AUDIT, read_qualities, read_replays
from lowwater.quality.late_records import share_text
from lowwater.quality.reports import IntervalAudit

DAY = 24 * 3600 * 1_000_000_000
WEEK = 7 * DAY
LOOKED_AT = 24
"""Newest audits of a query set in which flapping is looked for, and most audits before and after a change."""
FEWEST_CHANGES = 3
"""A rule flaps that changed its outcome so often in them."""
TRUSTED, DOUBTFUL, PARTIAL, REFUSED, ABSENT = "trusted", "doubtful", "partial", "refused", "absent"
WORDS = (TRUSTED, DOUBTFUL, PARTIAL, REFUSED, ABSENT)
"""What an interval is worth: sound; published with a warning, or its inputs have changed; published without traffic
that is missing; held back by its audit; not published."""
_BY_STATE = {
    "done": TRUSTED, "warned": DOUBTFUL, "provisional": PARTIAL, "incomplete": PARTIAL, "failed": REFUSED,
    "held": ABSENT, "damaged": DOUBTFUL, "stale": DOUBTFUL, "rolled back": DOUBTFUL,
}  # fmt: skip


def trust(state: str, reason: str, audit: IntervalAudit | None) -> tuple[str, str]:
    """What an interval is worth, in a word, and why; the reason is empty where it is trusted."""
    word = _BY_STATE.get(state, ABSENT)
    if word == TRUSTED and audit is not None and audit.verdict != "passed":
        word = DOUBTFUL
    if word == TRUSTED:
        return word, ""
    why = reason or (audit.messages[0] if audit is not None and audit.messages else state)
    return word, why.partition("; ")[0]


@dataclass(frozen=True)
class LinkDay:
    """A link over a day."""

    link: str  # its name
    lost: int  # time that no capture covers, ns
    late: float | None  # share of its records that were refused as late; None where nothing was audited
    before: float | None  # the same a week before


def link_day(lake: Lake, config: Config, link: str, captures: Sequence[Capture], start: int, end: int) -> LinkDay:
    """Measures a link over [start, end), ns, as far as it lives and its captures reach."""
    settings = config.link(link)
    reached = max((capture.covers_to for capture in captures), default=start)
    begin = max(start, settings.since or 0)
    until = min(end, reached if settings.until is None else settings.until)
    lost = 0
    if begin < until:
        lost = round((1 - covered_share(link, captures, settings, begin, until)) * (until - begin))
    late, before = (late_share(lake, link, at, at + end - start) for at in (start, start - WEEK))
    return LinkDay(link, lost, late, before)


@dataclass(frozen=True)
class Flapping:
    """A rule whose outcome changed often: how often, in how many audits, and in how many of them it failed."""

    query_set: str
    rule: str
    title: str
    changes: int
    audits: int
    failed: int


def flapping(lake: Lake, sets: Iterable[str], start: int, end: int) -> list[Flapping]:
    """Finds the rules of query sets that flap over the newest audits of the intervals that begin in [start, end)."""
    rows = read_qualities(lake, start, end)
    kept = ("query_set", "expectation", "interval_start", "success", "title", "kind")
    chosen = (
        rows.filter(pc.is_in(rows.column("query_set"), pa.array(list(sets), pa.string())))
        .select(list(kept))
        .to_pylist()
    )
    chosen.sort(key=lambda row: (row["query_set"], row["expectation"], row["interval_start"]))
    found = []
    for (name, _), outcomes in groupby(chosen, key=lambda row: (row["query_set"], row["expectation"])):
        newest = list(outcomes)[-LOOKED_AT:]
        changes = sum(one["success"] != other["success"] for one, other in pairwise(newest))
        if changes >= FEWEST_CHANGES:
            failed, last = sum(not row["success"] for row in newest), newest[-1]
            found.append(Flapping(name, last["kind"], last["title"] or last["kind"], changes, len(newest), failed))
    return sorted(found, key=lambda each: (-each.changes, each.query_set, each.title))


@dataclass(frozen=True)
class Change:
    """What is different since a release or a text of queries."""

    query_set: str  # its name
    at: int  # when the first run of it ended, ns since the epoch
    what: str  # "release 1 -> 2", "queries", or both
    worse: tuple[str, ...]  # titles of rules that hold less often than before
    better: tuple[str, ...]  # titles of rules that hold more often


def last_change(lake: Lake, query_set: str) -> Change | None:
    """Compares the audits of a query set after its newest release or text of queries with those before."""
    runs = sorted((row for row in read_replays(lake, query_set) if row.stage == AUDIT), key=lambda row: row.finished_at)
    by_run = [(row, json.loads(row.settings)) for row in runs]
    marks = [(row, settings.get("release", ""), settings.get("queries", "")) for row, settings in by_run]
    at = next((n for n in range(len(marks) - 1, 0, -1) if marks[n][1:] != marks[n - 1][1:] and marks[n - 1][1]), None)
    if at is None:
        return None
    (_, old, text), (row, new, other) = marks[at - 1], marks[at]
    what = [f"release {old} -> {new}"] * (old != new) + ["queries"] * (text != other)
    before, after = (
        {(each.interval_start, each.interval_end) for each, *_ in part} for part in (marks[:at], marks[at:])
    )
    quality = read_qualities(lake, 0, 1 << 62)
    shares: dict[str, list[list[bool]]] = {}
    for each in quality.filter(pc.equal(quality.column("query_set"), query_set)).to_pylist():
        interval = each["interval_start"], each["interval_end"]
        if interval in after or interval in before:
            title = each["title"] or each["kind"]
            shares.setdefault(title, [[], []])[interval in after].append(each["success"])
    both = {title: [sum(part) / len(part) for part in parts] for title, parts in shares.items() if all(parts)}
    worse = tuple(sorted(title for title, (was, now) in both.items() if now < was))
    better = tuple(sorted(title for title, (was, now) in both.items() if now > was))
    return Change(query_set, row.finished_at, " and ".join(what), worse, better)


def day_lines(
    words: Mapping[str, int], links: Sequence[LinkDay], flaps: Sequence[Flapping], changes: Sequence[Change], why: str
) -> list[str]:
    """A day in five lines: what its intervals are worth, lost traffic, late records, rules that flap, and changes."""
    worth = ", ".join(f"{words[word]:,} {word}" for word in WORDS if words.get(word)) or "none"
    lost = ", ".join(f"{each.link} {spoken_duration(each.lost)}" for each in links if each.lost)
    late = ", ".join(
        f"{each.link} {share_text(each.late)} (a week before {_share(each.before)})" for each in links if each.late
    )
    flapped = ", ".join(f"{each.title} ({each.changes} changes in {each.audits} audits)" for each in flaps[:3])
    changed = "; ".join(
        f"{each.query_set}: {each.what}, holds less often: {', '.join(each.worse[:3]) or 'no rule'}" for each in changes
    )
    return [
        f"Intervals: {worth}" + (f"; the first: {why[:200]}" if why else ""),
        f"Lost traffic: {lost or 'none'}",
        f"Late records: {late or 'none'}",
        f"Rules that flap: {flapped or 'none'}",
        f"Changes: {changed or 'none'}",
    ]


def _share(value: float | None) -> str:
    return "unknown" if value is None else share_text(value)
