"""Converts the JSON of a validation result to plain values for the templates.

`pages` uses it on the document of `validation`. Great Expectations renders nothing; only its JSON is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..text import count, label, shown

MOST_ROWS = 50
"""Maximum number of rows of measures on a page; rows that break the rule come first."""


class Measure(NamedTuple):
    """A cell of the table of measures: its text and its CSS classes."""

    text: str
    classes: str


@dataclass(frozen=True)
class Outcome:
    """Result of one expectation, ready for a template.

    Attributes:
        id: stable id of the expectation.
        verdict: `passed`, `warned` or `failed`.
        severity: `critical` or `warning`.
        title: the rule in words.
        description: the expectation in a sentence.
        messages: a sentence for each row that breaks the rule.
        rows: how many rows keep the rule, in words.
        headings: column headings of the measures: (text, alignment).
        measures: rows of the frame; rows that break the rule come first.
    """

    id: str
    verdict: str
    severity: str
    title: str
    description: str
    messages: Sequence[str]
    rows: str
    headings: Sequence[tuple[str, str]]
    measures: Sequence[Sequence[Measure]]


def outcome_of(result: Mapping[str, Any]) -> Outcome:
    """Converts an entry of `results` in the JSON of a validation result."""
    config, values = result["expectation_config"], result["result"]
    details, severity = values["details"], config["severity"]
    headings, measures = _measures(values)
    return Outcome(
        id=config["id"],
        verdict="passed" if result["success"] else "failed" if severity == "critical" else "warned",
        severity=severity,
        title=details["title"],
        description=config["description"],
        messages=details["messages"],
        rows=_row_summary(values["element_count"], values["unexpected_count"], details["noun"]),
        headings=headings,
        measures=measures,
    )


def _row_summary(rows: int, broken: int, noun: str) -> str:
    if broken:
        return f"{count(broken)} of {count(rows, noun)} {'fails' if broken == 1 else 'fail'}"
    return f"1 {noun} holds" if rows == 1 else f"all {count(rows, noun)} hold"


def _measures(result: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[list[Measure]]]:
    columns, rows = result["details"]["columns"], result["details"]["rows"]
    broken = set(result["unexpected_index_list"])
    order = sorted(range(len(rows)), key=lambda position: (position not in broken, position))
    headings = [(label(name), _alignment(value)) for name, value in zip(columns, rows[0], strict=True)]
    measures = []
    for position in order[:MOST_ROWS]:
        mark = "broken " if position in broken else ""
        cells = zip(columns, rows[position], strict=True)
        measures.append([Measure(shown(name, value), mark + _alignment(value)) for name, value in cells])
    return headings, measures


def _alignment(value: Any) -> str:
    return "words" if isinstance(value, str) else "number"
