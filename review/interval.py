"""The page of an interval: what came in, what was made of it, what the audit found, what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater_expectations import Finding, once

from lowwater.instants import format_duration, format_instant
from lowwater.lake.ledgers.captures import Capture, malformed_between
from lowwater.lake.ledgers.history import LinkLateness, read_lateness
from lowwater.lake.ledgers.runs import ReplayRow, read_quarantine, read_violations
from lowwater.quality.lateness.counts import LatenessCounts
from lowwater.quality.verdicts import CRITICAL, Key, findings

from .board import Part, Snapshot

SHOWN = 50
"""Most rows of a table of records; the ledgers hold all."""


SHARES = ("_share", "_drift", "_warning", "_critical")
"""How the names of measures end that are shares."""


@dataclass(frozen=True)
class Rows:
    """The kept rows of one subject that broke an expectation; `total` is how many there were."""

    subject: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int

    @property
    def measured(self) -> bool:
        """Whether these are the measures of a link, an LFTA or a query; else rows of a stream."""
        return {"interval", "captures"} <= set(self.columns)


@dataclass(frozen=True)
class Found:
    """One expectation of the audit."""

    suite: str
    name: str
    severity: str
    success: bool
    evaluated: int
    unexpected: int
    messages: tuple[str, ...]
    kept: tuple[Rows, ...]


@dataclass(frozen=True)
class LinkFacts:
    """A link over the interval.

    Attributes:
        name: the name of the link; `skew` its bound, ns.
        captures: those that meet the interval.
        account: read, malformed, violating, sane (A1).
        lateness: the lateness of its records; None where it was not audited.
        quantiles: the quantiles of the lateness, ns, by share.
        violations: the first records later than the skew; `late` how many there are.
        malformed: the first malformed records; `damaged` how many there are.
    """

    name: str
    skew: int
    captures: tuple[Capture, ...]
    account: Mapping[str, int]
    lateness: LinkLateness | None
    quantiles: Mapping[float, int]
    violations: tuple[Mapping[str, Any], ...]
    late: int
    malformed: tuple[Mapping[str, Any], ...]
    damaged: int


@dataclass(frozen=True)
class Stage:
    """One stage of the last run: rows and seconds a query, or of the whole set."""

    name: str
    query: str
    state: str
    rows: int | None
    seconds: float | None
    finished: str
    reason: str


@dataclass(frozen=True)
class Operator:
    """What an operator of the high level took and gave."""

    output: str
    query: str
    kind: str
    counts: str


def found_of(known: Snapshot, part: Part, key: Key) -> list[Found]:
    """The expectations of the newest audit, those that failed first, each with the rows that it kept."""
    audit = part.audits.get(key)
    if audit is None:
        return []
    kept: dict[str, list[dict[str, Any]]] = {}
    for row in read_quarantine(known.lake, *key).to_pylist():
        kept.setdefault(row["expectation"], []).append(row)
    told = once(findings(known.lake, audit))
    made = [
        Found(
            each.suite,
            each.title,
            each.severity,
            each.success,
            each.evaluated,
            each.unexpected,
            each.messages,
            tuple(_rows(_once(each, told, kept))),
        )
        for each in told
    ]
    return sorted(made, key=lambda each: (each.success, each.severity != "critical"))


def _once(finding: Finding, told: Sequence[Finding], kept: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows that a finding kept, of a warning without those that the critical limit of its rule has kept."""
    graver = [each for each in told if each.severity == CRITICAL and each.kind == finding.kind and not each.success]
    mine = kept.get(finding.expectation, [])
    if finding.severity == CRITICAL or finding.suite == "rows":
        return mine
    subjects = {row["subject"] for each in graver for row in kept.get(each.expectation, [])}
    return [row for row in mine if row["subject"] not in subjects]


def _rows(kept: Sequence[Mapping[str, Any]]) -> list[Rows]:
    subjects: dict[str, list[Mapping[str, Any]]] = {}
    for row in kept:
        subjects.setdefault(row["subject"], []).append(row)
    found = []
    for subject, mine in subjects.items():
        rows = [json.loads(each["row"]) for each in mine[:SHOWN]]
        columns = tuple(dict.fromkeys(name for row in rows for name in row))
        measured = {"interval", "captures"} <= set(columns)
        text = shown if measured else _text
        cells = tuple(tuple(text(name, row.get(name)) for name in columns) for row in rows)
        found.append(Rows(subject, columns, cells, mine[0]["total"]))
    return found


def shown(name: str, value: Any) -> str:
    """A measure as the Data Docs write it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if name.endswith("_ns"):
        return format_duration(int(value))
    return f"{100 * value:.4g}%" if name.endswith(SHARES) else f"{value:,}"


def _text(name: str, value: Any) -> str:
    if name in ("_last", "_tick") and isinstance(value, int):
        return format_instant(value) if value >= 0 else str(value)
    return "NULL" if value is None else str(value)


def links_of(known: Snapshot, part: Part, key: Key) -> list[LinkFacts]:
    """The links that the set reads, or read when the interval was audited."""
    name, start, end = key
    account = _account(part, key)
    job = known.jobs.get(name)
    links = sorted({*account, *(job.plan.links if job else ())})
    return [_link(known, link, start, end, account.get(link, {})) for link in links]


def _account(part: Part, key: Key) -> Mapping[str, Mapping[str, int]]:
    """What the newest audit says of the links (A1)."""
    rows = [json.loads(row.accounting) for row in part.replays.get(key, ()) if row.stage == "audit"]
    found: Mapping[str, Mapping[str, int]] = rows[-1].get("links", {}) if rows else {}
    return found


def _link(known: Snapshot, link: str, start: int, end: int, account: Mapping[str, int]) -> LinkFacts:
    settings = known.config.link(link)
    captures = known.captures.get(link, ())
    mine = [each for each in captures if each.meets(start, end) or (each.covers_from < end and each.covers_to > start)]
    rows = [each for each in read_lateness(known.lake, link, start, start + 1) if each.interval_end == end]
    lags = LatenessCounts.of(rows[0].bounds, rows[0].counts, rows[0].largest) if rows else LatenessCounts()
    shares = {share: lags.quantile(share) or 0 for share in (0.5, 0.99, 0.999)}
    late = read_violations(known.lake, link, settings.skew, start, end)
    broken = malformed_between(known.lake, link, captures, start, end)
    if rows and not account:  # an older version kept no account of an audit that failed
        account = {"malformed": broken.num_rows, "violating": late.num_rows}
    names = {each.capture: Path(each.path).name for each in captures}
    violations = [row | {"file": names.get(row["capture"], "")} for row in late.slice(0, SHOWN).to_pylist()]
    malformed = [row | {"file": names.get(row["capture"], "")} for row in broken.slice(0, SHOWN).to_pylist()]
    return LinkFacts(
        link,
        settings.skew,
        tuple(mine),
        account,
        rows[0] if rows else None,
        shares,
        tuple(violations),
        late.num_rows,
        tuple(malformed),
        broken.num_rows,
    )


def stages_of(part: Part, key: Key) -> list[Stage]:
    """The newest row of each stage and query, in the order in which they were written."""
    newest = {(row.stage, row.query): row for row in part.replays.get(key, ())}
    return [_stage(row) for row in newest.values()]


def _stage(row: ReplayRow) -> Stage:
    seconds = json.loads(row.timings).get(row.stage)
    finished = format_instant(row.finished_at // 10**9 * 10**9)
    return Stage(row.stage, row.query, row.state, row.rows, seconds, finished, row.reason)


def operators_of(part: Part, key: Key) -> list[Operator]:
    """What the operators of the last high stage took and gave."""
    newest = {row.query: row for row in part.replays.get(key, ()) if row.stage == "high" and row.query}
    found = []
    for row in newest.values():
        for each in json.loads(row.accounting).get("operators", []):
            counts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in each["counts"].items())
            found.append(Operator(row.query, each["query"], each["kind"], counts))
    return found
