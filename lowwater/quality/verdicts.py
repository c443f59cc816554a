"""What the audits of a lake found, interval by interval: verdict, messages, pages.

Read from the table `quality` by the index of the report and by `lowwater report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.runs import read_qualities, read_quality

if TYPE_CHECKING:
    from lowwater_expectations import Finding, Verdict

FAILED = "failed"
CRITICAL = "critical"
ALIKE = 3
"""Messages of one kind that are told one by one; of more the first, and how many."""

KEY = ("query_set", "interval_start", "interval_end")
Key = tuple[str, int, int]


@dataclass(frozen=True)
class Audited:
    """The newest audit of one interval of a query set.

    Attributes:
        query_set: its name.
        start: the start of the interval, ns; `end` its end.
        verdict: passed, warned or failed.
        failures: the findings that failed, critical ones first, each fact once; their rows are not kept.
        pages: suite -> address of its page, relative to `reports/`.
    """

    query_set: str
    start: int
    end: int
    verdict: Verdict
    failures: tuple[Finding, ...]
    pages: dict[str, str]

    @property
    def key(self) -> Key:
        """What tells it from others: query set and bounds."""
        return self.query_set, self.start, self.end

    @property
    def interval(self) -> str:
        """The interval as a text."""
        return f"{format_instant(self.start)} to {format_instant(self.end)}"

    @property
    def messages(self) -> tuple[str, ...]:
        """What failed, critical ones first."""
        return tuple(message for finding in self.failures for message in finding.messages)

    @property
    def brief(self) -> tuple[tuple[str, str], ...]:
        """(severity, message) of each kind of failure: of many links or queries that fail alike the first."""
        found = []
        for finding in self.failures:
            more = len(finding.messages) - ALIKE
            kept = finding.messages if more <= 0 else finding.messages[:1]
            found += [(finding.severity, message) for message in kept]
            found += [(finding.severity, f"and {more + ALIKE - 1} more like it")] if more > 0 else []
        return tuple(found)

    @property
    def page(self) -> str:
        """The address of the page to read first: the one with the gravest failure."""
        return self.pages[self.failures[0].suite] if self.failures else next(iter(self.pages.values()))


def graver_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings that failed, critical ones first, else in their order."""
    failed = [finding for finding in findings if not finding.success]
    return tuple(sorted(failed, key=lambda finding: finding.severity != CRITICAL))


def audited(lake: Lake, start: int = 0, end: int = 1 << 62) -> list[Audited]:
    """Every audit of an interval that begins in [start, end), ns, by query set and interval."""
    from lowwater_expectations import SUITES, once, verdict

    rows = read_qualities(lake, start, end)
    failed: dict[Key, list[Finding]] = {}
    for row in _in_order(rows.filter(pc.invert(rows.column("success")))):
        failed.setdefault(_key(row), []).append(_finding(row))
    pages: dict[Key, dict[str, str]] = {}
    for row in rows.select([*KEY, "suite", "page"]).group_by([*KEY, "suite", "page"]).aggregate([]).to_pylist():
        pages.setdefault(_key(row), {})[row["suite"]] = row["page"]
    return [
        Audited(
            *key,
            verdict(failed.get(key, ())),
            graver_first(once(failed.get(key, ()))),
            {suite: pages[key][suite] for suite in SUITES if suite in pages[key]},
        )
        for key in sorted(pages)
    ]


def findings(lake: Lake, audit: Audited) -> list[Finding]:
    """Every finding of an audit, in the order of its suites."""
    rows = read_quality(lake, audit.query_set, audit.start, audit.end)
    return [_finding(row) for row in _in_order(rows)]


def _in_order(rows: pa.Table) -> list[dict[str, Any]]:
    from lowwater_expectations import SUITES

    found: list[dict[str, Any]] = rows.to_pylist()
    return sorted(found, key=lambda row: (SUITES.index(row["suite"]), row["kind"], row["severity"]))


def _key(row: dict[str, Any]) -> Key:
    return row["query_set"], row["interval_start"], row["interval_end"]


def _finding(row: dict[str, Any]) -> Finding:
    from lowwater_expectations import Finding

    said = {name: row[name] for name in ("suite", "expectation", "kind", "severity", "success")}
    counts = {name: row[name] for name in ("evaluated", "unexpected")}
    messages = tuple(filter(None, row["messages"].split("\n")))
    title = row["title"] or row["kind"].removeprefix("expect_").replace("_", " ")
    return Finding(**said, **counts, rows=(), messages=messages, title=title)
