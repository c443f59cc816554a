"""What an audit found: one finding an expectation, one validation a suite, and the verdict of several.

Plain values without Great Expectations: `validation` makes them, `pages` shows them, the replay decides by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

SUITES: tuple[str, ...] = ("links", "lftas", "queries", "rows", "link_history", "query_history")
"""The suites, in the order in which an interval is read: what came in, what was made of it, what came out, what people
expect of its rows; then all of it beside the intervals before."""

Severity = Literal["warning", "critical"]
Verdict = Literal["passed", "warned", "failed"]


@dataclass(frozen=True)
class Finding:
    """What one expectation found on one measure frame.

    Attributes:
        suite: name of the suite.
        expectation: stable id of the expectation.
        kind: its type, as the suite file names it.
        severity: whether its failure stops the publication (`critical`) or not (`warning`).
        success: whether every row of the frame keeps the rule.
        evaluated: rows of the frame.
        unexpected: rows that break the rule.
        rows: their positions in the frame.
        messages: one a broken row: names link or query, interval, captures and offsets.
        title: the rule in words.
    """

    suite: str
    expectation: str
    kind: str
    severity: Severity
    success: bool
    evaluated: int
    unexpected: int
    rows: tuple[int, ...]
    messages: tuple[str, ...]
    title: str


@dataclass(frozen=True)
class Validation:
    """One suite on one measure frame.

    Attributes:
        suite: name of the suite.
        findings: one an expectation, in the order of the suite file.
        document: the whole result of Great Expectations, JSON-able; a page is rendered from it alone.
    """

    suite: str
    findings: tuple[Finding, ...]
    document: dict[str, Any]

    @property
    def verdict(self) -> Verdict:
        """What the findings come to."""
        return verdict(self.findings)


class Report(NamedTuple):
    """One interval's line on the index page.

    Attributes:
        query_set: name of the query set.
        interval: its text; lines are in descending order of it.
        verdict: of all suites.
        state: the state of the interval: done, provisional, incomplete, failed or held.
        messages: what failed, critical ones first.
        pages: suite -> path of its page, relative to the index page.
    """

    query_set: str
    interval: str
    verdict: Verdict
    state: str
    messages: tuple[str, ...]
    pages: dict[str, str]


def once(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in which each fact is told once: what breaks the critical limit of a rule also breaks its warning limit.

    The message of the warning goes where the critical one is about the same subject, and the warning where none is
    left. Rules by hand (suite `rows`) are each a fact of its own.
    """
    kept = list(findings)
    graver = {
        (finding.suite, finding.kind, subject(message))
        for finding in kept
        if finding.severity == "critical" and not finding.success and finding.suite != "rows"
        for message in finding.messages
    }
    found = []
    for finding in kept:
        if finding.severity == "warning" and not finding.success:
            left = tuple(m for m in finding.messages if (finding.suite, finding.kind, subject(m)) not in graver)
            if finding.messages and not left:
                continue
            finding = replace(finding, messages=left)
        found.append(finding)
    return found


def subject(message: str) -> str:
    """What a message is about: its words before the colon, subject and interval."""
    return message.partition(": ")[0]


def verdict(findings: Iterable[Finding]) -> Verdict:
    """`failed` if a critical expectation failed, else `warned` if any did, else `passed`."""
    failed = {finding.severity for finding in findings if not finding.success}
    if "critical" in failed:
        return "failed"
    return "warned" if failed else "passed"
