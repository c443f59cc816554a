"""Audits without Great Expectations: the suites of measures and their words, findings, and the verdict.

A suite is a file of `suites/`: expectations over measures, and what is said of a row that breaks them. An id never
changes, so results stay comparable for years, whatever the type and the words of an expectation are. The process of
`worker` judges; the replay decides by the verdict whether to publish.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Literal

import pyarrow as pa
from markupsafe import Markup, escape

from lowwater.errors import LawError
from lowwater.instants import (
    SECOND,
    format_duration,
    parse_duration,
    parse_instant,
    spoken_duration,
    spoken_instant,
    spoken_span,
)

_SHARES = ("_share", "_drift", "_warning", "_critical")
_COLUMN, _PART = re.compile(r"\{(\w+):?([\w ]*)\}"), re.compile(r"\[([^][]*)\]")


def count(number: int, noun: str = "") -> str:
    """A number with its noun in singular or plural: 12,345 records."""
    text = f"{number:,}"
    if not noun or abs(number) == 1:
        return f"{text} {noun}".strip()
    return f"{text} {noun[:-1]}ies" if noun.endswith("y") else f"{text} {noun}s"


def span(duration: int) -> str:
    """A duration (ns); above a second it is rounded to milliseconds: 1,201.235s."""
    if duration > SECOND and duration % SECOND:
        return f"{duration / SECOND:,.3f}".rstrip("0").rstrip(".") + "s"
    return format_duration(duration)


def label(column: str) -> str:
    """The heading of a column: `gap_ns` is "gap"."""
    return column.removesuffix("_ns").replace("_", " ")


def shown(column: str, value: Any) -> str:
    """A value as the name of its column says: duration, share (of four digits), number or text."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return "not covered"
    if column.endswith("_ns"):
        return span(int(value))
    return f"{value * 100:.4g}%" if column.endswith(_SHARES) else count(value)


def filled(text: str, row: Mapping[str, Any]) -> str:
    """Fills the columns of a row into a text: `{read}`, or `{read:record}` with a noun. A part in brackets is left out
    where one of its columns is 0, empty or NULL."""

    def part(match: re.Match[str]) -> str:
        return "" if any(not row[name] for name, _ in _COLUMN.findall(match[1])) else match[1]

    def value(match: re.Match[str]) -> str:
        found = row[match[1]]
        return count(found, match[2]) if match[2] else shown(match[1], found)

    return _COLUMN.sub(value, _PART.sub(part, text))


SUITES: tuple[str, ...] = ("links", "skew", "lftas", "queries", "rows", "link_history", "query_history")
"""The suites in the direction of flow: input, late records, LFTAs, output, custom rules; then those of history."""

Severity = Literal["warning", "critical"]
Verdict = Literal["passed", "warned", "failed"]


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
        return verdict(self.findings)


def once(findings: Iterable[Finding]) -> list[Finding]:
    """Removes warnings, or messages of them, that repeat a critical failure of the same rule and subject: its limit
    implies theirs. Custom rules (suite `rows`) are independent of each other."""
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
    """The subject and interval of a message: its text before the colon."""
    return message.partition(": ")[0]


def verdict(findings: Iterable[Finding]) -> Verdict:
    """Returns `failed` if a critical expectation failed, else `warned` if any failed, else `passed`."""
    failed = {finding.severity for finding in findings if not finding.success}
    if "critical" in failed:
        return "failed"
    return "warned" if failed else "passed"


NAMING = ("column", "column_A", "column_B", "column_list")
"""Arguments that name columns."""


@dataclass(frozen=True)
class Entry:
    """One expectation of a suite file."""

    id: str  # never changes
    type: str  # its type in Great Expectations
    kwargs: dict[str, Any]  # arguments of the expectation
    severity: Severity  # whether a failure stops the publication (`critical`) or not (`warning`)
    description: str  # the expectation in one sentence; every page shows it
    notes: list[str]  # paragraphs of markdown: meaning of a failure, and its remedy
    # `rule`, its name (the same where only the limit differs); `title`, the rule in words; `says`, what is said of a
    # row that breaks it (`text.filled`); `shows`, the columns that a page shows
    meta: dict[str, Any]

    def columns(self) -> set[str]:
        return {self.kwargs[key] for key in NAMING if key in self.kwargs}


@dataclass(frozen=True)
class SuiteFile:
    """A suite: its name, notes on its subject (markdown), and its expectations in the order of the page.

    `meta` has the `table` of measures, what a row of it is (`noun`), the columns that tell rows apart (`subjects`), and
    the begin (`about`) and end (`end`) of what is said of a row.
    """

    id: str
    name: str
    notes: list[str]
    meta: dict[str, Any]
    expectations: tuple[Entry, ...]

    def needs(self) -> set[str]:
        """The columns of measures that it judges and that its page shows."""
        own = {name for entry in self.expectations for name in (*entry.columns(), *entry.meta["shows"])}
        return {*own, "interval", "captures", *self.meta["subjects"]}

    def message(self, entry: Entry, row: Mapping[str, Any]) -> str:
        """Describes the failure of a row in one sentence: subject, interval, numbers, offsets, captures."""
        about, says, end = (filled(text, row) for text in (self.meta["about"], entry.meta["says"], self.meta["end"]))
        return f"{about}, {row['interval']}: {says}; {end}"


@cache
def read_suite(name: str) -> SuiteFile:
    """Reads the suite file of a name."""
    data = json.loads((resources.files(__package__) / "suites" / f"{name}.json").read_text(encoding="utf-8"))
    return SuiteFile(**{**data, "expectations": tuple(Entry(**item) for item in data["expectations"])})


def validate(
    frames: Sequence[Mapping[str, pa.Table]],
    runs: Sequence[str],
    ask: Callable[[dict[str, Any]], Iterator[dict[str, Any]]],
) -> list[tuple[Validation, ...]]:
    """Validates the measures of intervals, by table, whose runs have names; one validation for each interval and each
    of `SUITES`. The worker is asked once, about the rows of all of them: each rule is about single rows, and those that
    break it say of which interval they are. Tables of one name have one schema.
    Raises LawError if a frame is missing, has no rows, or lacks a column or value; or an expectation raised an error.
    """
    files = {name: read_suite(name) for name in SUITES}
    mine = {
        name: [_checked(file, of_run.get(file.meta["table"]), run) for of_run, run in zip(frames, runs, strict=True)]
        for name, file in files.items()
    }
    hexes = {name: _hex(pa.concat_tables(mine[name]).select(_read(file))) for name, file in files.items()}
    answers = {each["id"]: each for each in ask({"do": "validate", "frames": hexes})}
    time, found = datetime.now(UTC).isoformat(), list[tuple[Validation, ...]]()
    begins = dict.fromkeys(files, 0)
    for at, run in enumerate(runs):
        found.append(
            tuple(_validation(file, mine[name][at], answers, begins[name], run, time) for name, file in files.items())
        )
        begins = {name: begin + mine[name][at].num_rows for name, begin in begins.items()}
    return found


def _read(file: SuiteFile) -> list[str]:
    return sorted({name for entry in file.expectations for name in entry.columns()})


def _hex(table: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return str(sink.getvalue().to_pybytes().hex())


def _checked(file: SuiteFile, frame: pa.Table | None, run: str) -> pa.Table:
    """Refuses a frame without rows or with missing values, because an audit of an empty frame would pass."""
    if frame is None or not frame.num_rows:
        raise LawError(f"{run}: nothing was measured for the suite {file.name}", "its frame is missing or has no rows")
    if missing := sorted(file.needs() - set(frame.column_names)):
        raise LawError(f"{run}: the measures {file.name} lack the columns {', '.join(missing)}")
    if missing := [name for name in _read(file) if frame.column(name).null_count]:
        raise LawError(f"{run}: the measures {file.name} lack values in the columns {', '.join(missing)}")
    return frame


def _validation(
    file: SuiteFile, frame: pa.Table, answers: Mapping[str, Mapping[str, Any]], begin: int, run: str, time: str
) -> Validation:
    """The result of a suite over a frame whose first row is that with the number `begin` among those of all runs."""
    rows = frame.to_pylist()
    findings = []
    for entry in file.expectations:
        answer = answers[entry.id]
        if answer["error"]:  # GX reports an exception of an expectation as a failure
            rule = f"{entry.meta['rule']} of the suite {file.name}"
            raise LawError(f"{run}: {rule} could not be evaluated: {answer['error']}")
        if answer["success"] == bool(answer["rows"]):  # else it would pass where nobody knows which rows break it
            rule = f"{entry.meta['rule']} of the suite {file.name}"
            raise LawError(f"{run}: {rule} names no row that breaks it, or names some and holds")
        broken = tuple(at - begin for at in answer["rows"] if 0 <= at - begin < len(rows))
        findings.append(
            Finding(
                suite=file.name,
                expectation=entry.id,
                kind=entry.meta["rule"],
                severity=entry.severity,
                success=not broken,
                evaluated=len(rows),
                unexpected=len(broken),
                rows=broken,
                messages=tuple(file.message(entry, rows[at]) for at in broken),
                title=entry.meta["title"],
            )
        )
    return Validation(file.name, tuple(findings), rows, run, time)


LONGEST = 180
"""Most characters of a sentence."""
_INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"
_MESSAGE = re.compile(rf"(?P<about>.+?), {_INSTANT} to {_INSTANT}: (?P<reason>.+)", re.DOTALL)
_END = re.compile(r"; |: no capture covers |, so the interval is ")
# What follows a quotation mark, = or an option is a value that people write as it stands, into settings or a command.
_EXACT = re.compile(
    r"(?P<given>--[a-z-]+ \S+)|(?<!= )(?<!&#34;)(?<!&#39;)"
    rf"(?:\b(?P<start>{_INSTANT}) to (?P<end>{_INSTANT})|(?P<instant>\b{_INSTANT})|"
    r"(?<![^\s(])(?P<duration>\d[\d,]*(?:\.\d+)?(?:ns|us|ms|s|min|h))\b)"
)


def headline(messages: Sequence[str], title: str) -> str:
    """Says what failed in one sentence, such as "Link control: 19.4s of traffic are missing"; the title of the rule
    where no message has the usual form."""
    match = _MESSAGE.fullmatch(messages[0]) if messages else None
    if match is not None:
        reason = _END.split(match["reason"], maxsplit=1)[0]
        text = f"{match['about'][:1].upper()}{match['about'][1:]}: {reason}"
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"
    elif messages and not title:
        text = messages[0]
    else:
        return f"Not so: {title[:1].lower()}{title[1:]}"
    return f"{text} (and {len(messages) - 1} more)" if len(messages) > 1 else text


def spoken(text: str) -> Markup:
    """Escapes a text, and shows its instants and durations as people read them; the exact value is on hover."""
    return Markup(_EXACT.sub(_shown, str(escape(text))))


def _shown(match: re.Match[str]) -> str:
    exact = match.group()
    if match["given"]:
        return exact
    try:
        if match["instant"]:
            return f'<time datetime="{exact}" title="{exact}">{spoken_instant(parse_instant(exact))}</time>'
        if match["start"]:
            said = spoken_span(parse_instant(match["start"]), parse_instant(match["end"]))
        else:
            said = spoken_duration(parse_duration(exact.replace(",", "")))
    except ValueError:
        return exact
    return f'<span title="{exact}">{said}</span>'
