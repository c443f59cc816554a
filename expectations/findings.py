"""Results of an audit: a finding for each expectation, a validation for each suite, and the verdict.

They are plain values without Great Expectations. `validation` returns them, `pages` shows them, and the replay decides
by them whether to publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

SUITES: tuple[str, ...] = ("links", "lftas", "queries", "rows", "link_history", "query_history")
"""The suites in the direction of flow: input, LFTAs, output, custom rules for rows; then comparisons with history."""

Severity = Literal["warning", "critical"]
Verdict = Literal["passed", "warned", "failed"]


class Fault(Exception):
    """What is wrong with an expectation of a suite.

    Attributes:
        number: its number in the suite, from 0.
        message: what is wrong, as the rest of a sentence about it.
        hint: what to do.
    """

    def __init__(self, number: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.number, self.message, self.hint = number, message, hint


@dataclass(frozen=True)
class Finding:
    """Result of one expectation on one measure frame."""

    suite: str  # name of the suite
    expectation: str  # stable id of the expectation
    kind: str  # name of the rule, as in the suite file
    severity: Severity  # whether its failure stops the publication (`critical`) or not (`warning`)
    success: bool  # whether every row of the frame keeps the rule
    evaluated: int  # number of rows of the frame
    unexpected: int  # number of rows that break the rule
    rows: tuple[int, ...]  # positions of these rows in the frame
    messages: tuple[str, ...]  # one for each of these rows, with link or query, interval, captures and offsets
    title: str  # the rule in words


@dataclass(frozen=True)
class Validation:
    """Result of one suite on one measure frame."""

    suite: str  # name of the suite
    findings: tuple[Finding, ...]  # one for each expectation, in the order of the suite file
    rows: Sequence[Mapping[str, Any]]  # the rows of the frame
    run: str  # name of the run
    time: str  # when it was judged (ISO)

    @property
    def verdict(self) -> Verdict:
        """Verdict of all findings."""
        return verdict(self.findings)


class Report(NamedTuple):
    """Line of an interval on the index page."""

    query_set: str  # name of the query set
    interval: str  # the interval as text; lines are sorted by it, newest first
    verdict: Verdict  # verdict of all suites
    state: str  # state of the interval: done, provisional, incomplete, failed or held
    messages: tuple[str, ...]  # messages of the failures, critical ones first
    pages: dict[str, str]  # path of the page by suite, relative to the index page


def once(findings: Iterable[Finding]) -> list[Finding]:
    """Removes messages of warnings that repeat a critical failure, since a critical limit implies the warning limit.

    A message is removed if the critical finding of the same rule has the same subject, and a warning if it has no
    message left. Custom rules (suite `rows`) are independent of each other.
    """
    all_findings = list(findings)
    graver = {
        (finding.suite, finding.kind, subject(message))
        for finding in all_findings
        if finding.severity == "critical" and not finding.success and finding.suite != "rows"
        for message in finding.messages
    }
    reported = []
    for finding in all_findings:
        if finding.severity == "warning" and not finding.success:
            left = tuple(m for m in finding.messages if (finding.suite, finding.kind, subject(m)) not in graver)
            if finding.messages and not left:
                continue
            finding = replace(finding, messages=left)
        reported.append(finding)
    return reported


def subject(message: str) -> str:
    """Returns the subject and interval of a message: its text before the colon."""
    return message.partition(": ")[0]


def verdict(findings: Iterable[Finding]) -> Verdict:
    """Returns `failed` if a critical expectation failed, else `warned` if any failed, else `passed`."""
    failed = {finding.severity for finding in findings if not finding.success}
    if "critical" in failed:
        return "failed"
    return "warned" if failed else "passed"
