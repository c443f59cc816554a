"""Contents of the page of an interval: input of each link, audit, stages of the run and their cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from lowwater_expectations.audits import Finding, headline, once

from lowwater.capture.records.facts import Hole
from lowwater.cluster import TaskRun
from lowwater.documents import stored_object
from lowwater.instants import format_duration, format_instant
from lowwater.lake.layout import OUTCOMES
from lowwater.lake.ledgers.captures import Capture, Captures, malformed_between
from lowwater.lake.ledgers.coverage import undeclared
from lowwater.lake.ledgers.drops import counted
from lowwater.lake.ledgers.missing import drop_words, lost_of_link, unread_rows, unread_words
from lowwater.lake.ledgers.runs import (
    LinkLateness,
    ReplayRow,
    read_heartbeats,
    read_lateness,
    read_quarantine,
    read_violations,
)
from lowwater.quality.lateness import LatenessCounts
from lowwater.quality.reports import CRITICAL, Key, findings

from .ledgers import Part, Snapshot

SHOWN = 50
"""Maximum number of rows in a table of records; the ledgers hold all."""

_TASK = re.compile(r"dags/(?P<dag>[\w.~%-]+)/runs/(?P<run>[\w.~%-]+)/tasks/[\w.~%-]+(?:/mapped/\d+)?", re.ASCII)
"""Address of a task, as a ledger has it: anything else leads nowhere."""
SHARES = ("_share", "_drift", "_warning", "_critical")
"""Suffixes of the names of measures that are shares, shown in per cent."""


@dataclass(frozen=True)
class Rows:
    """Rows of one subject that broke an expectation, as far as they are stored; `total` counts all of them."""

    subject: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int

    @property
    def measured(self) -> bool:
        """Whether the rows are measures of a link, an LFTA or a query rather than rows of a stream."""
        return {"interval", "captures"} <= set(self.columns)


@dataclass(frozen=True)
class ExpectationResult:
    """Result of one expectation of the audit; `headline` says in a sentence what failed, `name` is the rule."""

    suite: str
    name: str
    severity: str
    success: bool
    evaluated: int
    unexpected: int
    messages: tuple[str, ...]
    examples: tuple[Rows, ...]
    headline: str = ""


@dataclass(frozen=True)
class Stretch:
    """Bytes of a capture that are no records (T5)."""

    capture: Capture
    hole: Hole
    since: int  # its time [since, until), ns
    until: int


@dataclass(frozen=True)
class LinkFacts:
    """Measures of a link over the interval."""

    name: str  # name of the link
    skew: int  # maximum lateness that the link allows, ns
    captures: tuple[Capture, ...]  # captures that overlap the interval
    # number of records by class: read, malformed, violating, duplicates, sane (A1) and, where the link looks for them,
    # copies (D5)
    account: Mapping[str, int]
    lateness: LinkLateness | None  # lateness of the records; None without an audit
    quantiles: Mapping[float, int]  # quantiles of the lateness, ns, by share
    violations: tuple[Mapping[str, Any], ...]  # the first records later than the skew
    late: int  # number of records later than the skew
    malformed: tuple[Mapping[str, Any], ...]  # the first malformed records
    damaged: int  # number of malformed records
    lost: str = ""  # records that the captures say were lost, in words; empty without
    silent: tuple[Capture, ...] = ()  # captures that cover the interval, and do not declare this interface of the link
    stretches: tuple[Stretch, ...] = ()  # bytes of its captures that are no records, of the time of the interval
    unread: str = ""  # files in its folders that may hold records of the interval and are not read, in words


@dataclass(frozen=True)
class Stage:
    """One stage of the last run, of a query or of the whole set: state, rows and duration (s)."""

    name: str
    query: str
    state: str
    rows: int | None
    seconds: float | None
    finished: str
    reason: str


@dataclass(frozen=True)
class MadeBy:
    """The task of Airflow that ran the interval last."""

    address: str  # of its page, below that of Airflow's own pages
    dag: str
    run: str


@dataclass(frozen=True)
class Operator:
    """Rows in and out of an operator of the high level."""

    output: str
    query: str
    kind: str
    counts: str


@dataclass(frozen=True)
class LowLevel:
    """What became of the sane records of a link in an LFTA (A1)."""

    lfta: str  # name of the LFTA
    link: str  # name of the link
    sane: int  # sane records of the link, which are those of all outcomes
    outcomes: Mapping[str, int]  # outcome -> records, a name of `OUTCOMES`
    minutes: int  # minutes in which records were shed (O5)
    most: tuple[int, int] | None  # the minute in which most were shed, ns since the epoch, and how many; None without


@dataclass(frozen=True)
class Placed:
    """Tasks of the last low stage on a cluster."""

    tasks: tuple[TaskRun, ...]  # runs of tasks, the longest first; see `lowwater.cluster.TaskRun`
    machines: Mapping[str, tuple[int, int, float]]  # machine -> (tasks, packets, seconds) on it
    again: int  # number of tasks that were tried more than once


def expectations_of(snapshot: Snapshot, part: Part, key: Key) -> list[ExpectationResult]:
    """Returns the results of the newest audit with their stored rows; failed expectations first."""
    audit = part.audits.get(key)
    if audit is None:
        return []
    quarantine: dict[str, list[dict[str, Any]]] = {}
    for row in read_quarantine(snapshot.lake, *key).to_pylist():
        quarantine.setdefault(row["expectation"], []).append(row)
    reported = once(findings(snapshot.lake, audit))
    expectations = [
        ExpectationResult(
            finding.suite,
            finding.title,
            finding.severity,
            finding.success,
            finding.evaluated,
            finding.unexpected,
            finding.messages,
            tuple(_rows(_once(finding, reported, quarantine))),
            "" if finding.success else headline(finding.messages, finding.title),
        )
        for finding in reported
    ]
    return sorted(expectations, key=lambda item: (item.success, item.severity != "critical"))


def _once(
    finding: Finding, reported: Sequence[Finding], quarantine: Mapping[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Returns the stored rows of a finding. A warning omits the subjects that its critical limit reports."""
    graver = [
        other for other in reported if other.severity == CRITICAL and other.kind == finding.kind and not other.success
    ]
    rows = quarantine.get(finding.expectation, [])
    if finding.severity == CRITICAL or finding.suite == "rows":
        return rows
    subjects = {row["subject"] for other in graver for row in quarantine.get(other.expectation, [])}
    return [row for row in rows if row["subject"] not in subjects]


def _rows(records: Sequence[Mapping[str, Any]]) -> list[Rows]:
    subjects: dict[str, list[Mapping[str, Any]]] = {}
    for row in records:
        subjects.setdefault(row["subject"], []).append(row)
    tables = []
    for subject, records_of_subject in subjects.items():
        rows = [stored_object(record["row"]) for record in records_of_subject[:SHOWN]]
        columns = tuple(dict.fromkeys(name for row in rows for name in row))
        measured = {"interval", "captures"} <= set(columns)
        text = shown if measured else _text
        cells = tuple(tuple(text(name, row.get(name)) for name in columns) for row in rows)
        tables.append(Rows(subject, columns, cells, records_of_subject[0]["total"]))
    return tables


def shown(name: str, value: Any) -> str:
    """Formats a measure as the Data Docs do: durations, shares and counts."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if name.endswith("_ns"):
        return format_duration(int(value))
    return f"{100 * value:.4g}%" if name.endswith(SHARES) else f"{value:,}"


def _text(name: str, value: Any) -> str:
    if name in ("_last", "_tick") and isinstance(value, int):
        return format_instant(value) if value >= 0 else str(value)
    return "NULL" if value is None else str(value)


def links_of(snapshot: Snapshot, part: Part, key: Key) -> list[LinkFacts]:
    """Returns the measures of all links that the set reads now or read at the time of the audit."""
    name, start, end = key
    account = _account(part, key)
    job = snapshot.jobs.get(name)
    links = sorted({*account, *(job.plan.links if job else ())})
    return [_link(snapshot, link, start, end, account.get(link, {})) for link in links]


def _account(part: Part, key: Key) -> Mapping[str, Mapping[str, int]]:
    """Reads the record counts of the links from the newest audit (A1)."""
    rows = [stored_object(row.accounting) for row in part.replays.get(key, ()) if row.stage == "audit"]
    accounts: Mapping[str, Mapping[str, int]] = rows[-1].get("links", {}) if rows else {}
    return accounts


def _link(snapshot: Snapshot, link: str, start: int, end: int, account: Mapping[str, int]) -> LinkFacts:
    settings = snapshot.config.link(link)
    captures = snapshot.captures.get(link, Captures())
    meeting = [captures[at] for at in captures.covering(start, end)]
    rows = [row for row in read_lateness(snapshot.lake, link, start, start + 1) if row.interval_end == end]
    lags = LatenessCounts.of(rows[0].bounds, rows[0].counts, rows[0].largest) if rows else LatenessCounts()
    shares = {share: lags.quantile(share) or 0 for share in (0.5, 0.99, 0.999)}
    late = read_violations(snapshot.lake, link, settings, start, end)
    broken = malformed_between(snapshot.lake, link, captures, start, end)
    if rows and not account:  # an older version stored no record counts after a failed audit
        account = {"malformed": broken.num_rows, "violating": late.num_rows}
    holes = (Stretch(capture, hole, *span) for capture, hole, span in captures.holes_in(start, end))
    unread = list(unread_rows(snapshot.lake, snapshot.config)(link, start, end))
    digests = {row["capture"] for rows in (late, broken) for row in rows.slice(0, SHOWN).to_pylist()}
    names = captures.names_of(digests)
    violations = [row | {"file": names.get(row["capture"], "")} for row in late.slice(0, SHOWN).to_pylist()]
    malformed = [row | {"file": names.get(row["capture"], "")} for row in broken.slice(0, SHOWN).to_pylist()]
    return LinkFacts(
        link,
        settings.at(start).skew,
        tuple(meeting),
        account,
        rows[0] if rows else None,
        shares,
        tuple(violations),
        late.num_rows,
        tuple(malformed),
        broken.num_rows,
        drop_words(lost) if counted(lost := lost_of_link(snapshot.lake, link, captures, start, end))[0] else "",
        tuple(undeclared(link, captures, settings, start, end)),
        tuple(holes),
        unread_words(unread),
    )


def stages_of(part: Part, key: Key) -> list[Stage]:
    """Returns the newest row of each stage and query, in the order of writing."""
    newest = {(row.stage, row.query): row for row in part.replays.get(key, ())}
    return [_stage(row) for row in newest.values()]


def _stage(row: ReplayRow) -> Stage:
    seconds = stored_object(row.timings).get(row.stage)
    finished = format_instant(row.finished_at // 10**9 * 10**9)
    return Stage(row.stage, row.query, row.state, row.rows, seconds, finished, row.reason)


def made_by(part: Part, key: Key) -> MadeBy | None:
    """Returns what ran an interval last; None where it was a command, or an older version."""
    rows = part.replays.get(key, ())
    said = str(stored_object(rows[-1].settings).get("by", "")) if rows else ""
    found = _TASK.fullmatch(said)
    return MadeBy(said, unquote(found["dag"]), unquote(found["run"])) if found else None


def operators_of(part: Part, key: Key) -> list[Operator]:
    """Returns the row counts of the operators of the last high stage."""
    newest = {row.query: row for row in part.replays.get(key, ()) if row.stage == "high" and row.query}
    operators = []
    for row in newest.values():
        account = stored_object(row.accounting)
        batch = " to ".join(map(format_instant, account["range"])) if "range" in account else ""
        for operator in account.get("operators", []):
            counts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in operator["counts"].items())
            counts += f", of all that ran together, {batch}" if batch else ""
            operators.append(Operator(row.query, operator["query"], operator["kind"], counts))
    return operators


def placed_of(part: Part, key: Key) -> Placed | None:
    """Returns where the tasks of the last run went; None for a run without a cluster."""
    newest = {(row.stage, row.query): stored_object(row.accounting) for row in part.replays.get(key, ())}
    runs = [
        TaskRun(**{name: value for name, value in run.items() if name != "planned"})  # of an earlier version
        for (stage, _), account in newest.items()
        if stage == "low"
        for run in account.get("tasks", ())
    ]
    if not runs:
        return None
    machines: dict[str, tuple[int, int, float]] = {}
    for run in runs:
        tasks, size, seconds = machines.get(run.host, (0, 0, 0.0))
        machines[run.host] = tasks + 1, size + run.size, seconds + run.seconds
    return Placed(
        tuple(sorted(runs, key=lambda run: -run.seconds)),
        dict(sorted(machines.items())),
        sum(run.tries > 1 for run in runs),
    )


def low_level_of(snapshot: Snapshot, key: Key) -> list[LowLevel]:
    """Returns what became of the sane records of each link in each LFTA, in the last run of the interval (A1)."""
    names = ["lfta", "link", "start", "sane", *OUTCOMES]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in read_heartbeats(snapshot.lake, *key).select(names).to_pylist():
        groups.setdefault((row["lfta"], row["link"]), []).append(row)
    found = []
    for (lfta, link), minutes in sorted(groups.items()):
        counts = {name: sum(row[name] or 0 for row in minutes) for name in ("sane", *OUTCOMES)}
        shed = [row for row in minutes if row["shed"]]
        worst = max(shed, key=lambda row: row["shed"], default=None)
        most = (worst["start"], worst["shed"]) if worst else None
        found.append(LowLevel(lfta, link, counts.pop("sane"), counts, len(shed), most))
    return found
