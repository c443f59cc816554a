"""`lowwater why`: what makes an interval what it is, and what would make it `done`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path, PurePath

from lowwater import terminal
from lowwater.instants import SECOND, format_duration, format_instant, range_words
from lowwater.lake.ledgers.captures import short
from lowwater.replay.schedule.why import DefectWhy, QueryWhy, Why, why

MOST_FILES = 20
"""Most files of a link that are printed; JSON has all."""


def asks_why(root: PurePath) -> str:
    """Says how to ask why an interval is what it is."""
    return f"why one is what it is: lowwater why QUERY_SET HOUR --lake {shlex.quote(str(root))}"


def show_why(root: PurePath, query_set: str, queries: Path, at: int, as_json: bool) -> None:
    """Prints why the interval that has an instant (ns) is what it is, as text or as JSON."""
    found = why(root, query_set, queries, at)
    if as_json:
        terminal.say(json.dumps({**asdict(found), "means": found.means}, indent=2, ensure_ascii=False))
        return
    for line in _lines(found):
        terminal.say(line)


def _lines(found: Why) -> Iterator[str]:
    yield f"{found.query_set}, {range_words(found.start, found.end, found.intervals)}: {found.word}, {found.means}"
    for reason in filter(None, found.reason.split("; ")):
        yield f"  {reason}"
    if found.error:
        yield f"its last run failed at {_moment(found.error_at)}: {found.error}"
    for query in found.queries:
        yield from _query_lines(query)
    packets = f"{'' if found.reads.exact else 'about '}{_counted(found.reads.packets, 'record')}"
    yield f"it reads {packets}"
    for link in found.links:
        begin, end = map(format_instant, link.read)
        yield f"  link {link.link}, skew {format_duration(link.skew)}, policy {link.policy}: {begin} to {end}"
        for file in link.files[:MOST_FILES]:
            covers = " to ".join(map(format_instant, file.covers))
            yield f"    {file.path}: {_counted(file.packets, 'record')}, covers {covers}"
        if not link.files:
            yield "    no capture has records of that time"
        if (more := len(link.files) - MOST_FILES) > 0:
            yield f"    and {more:,} more: --json has all"
    if found.defects:
        yield "what is not as it should be"
        for defect in found.defects:
            yield from _defect_lines(defect)
    if found.statements:
        yield "what people said of it"
        for said in found.statements:
            each = said.statement
            force = "" if said.in_force else ", not in force"
            why_said = f": {each.why}" if each.why else ""
            yield f"  {_moment(each.at)}, {each.person or 'unknown'}: {each.act}{force}{why_said}"
    if found.before:
        yield "it continues the state of the intervals before"
        for before in found.before:
            yield f"  {format_instant(before.start)}: {before.word}: {before.reason}"
    if found.steps:
        yield "to make it done"
        for number, step in enumerate(found.steps, 1):
            yield f"  {number}. {step.what}"
            if step.command:
                yield f"     {step.command}"


def _query_lines(query: QueryWhy) -> Iterator[str]:
    rows = "nothing is published"
    if query.have is not None:
        rows = f"{_counted(query.rows or 0, 'row')}, of {_moment(query.published_at)}"
    same = query.have == query.want
    keys = f"inputs {short(query.want)}" + ("" if same or not query.have else f", the rows are of {short(query.have)}")
    yield f"query {query.query}: {query.word}; {rows}; {keys}"
    for line in query.differs:
        yield f"  differs: {line}"
    for name, digest in query.text.items():
        yield f"  {name}: {digest}"


def _defect_lines(defect: DefectWhy) -> Iterator[str]:
    stops = ", nothing runs for it" if defect.stops else ""
    yield f"  {defect.cause}{stops}: {defect.reason}"
    if defect.accepted is not None:
        person, reason, at = defect.accepted
        yield f"    accepted by {person}, {_moment(at)}: {reason}"
    elif defect.remedy:
        yield f"    {defect.remedy}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _moment(at: int | None) -> str:
    return "" if at is None else format_instant(at // SECOND * SECOND)
