"""Reads the suites of the audit: expectations of Great Expectations over measures, and the words for what fails.

An id never changes, so results stay comparable for years, whatever the type and the words of an expectation are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

from lowwater.errors import LawError

from .findings import Severity
from .text import filled

Row = Mapping[str, Any]
NAMING = ("column", "column_A", "column_B")
"""Arguments that name columns."""


@dataclass(frozen=True)
class Entry:
    """One expectation of a suite file."""

    id: str  # never changes
    type: str  # its type in Great Expectations, or one of `law`
    kwargs: dict[str, Any]  # arguments of the expectation
    severity: Severity  # whether a failure stops the publication (`critical`) or not (`warning`)
    description: str  # the expectation in one sentence; every page shows it
    notes: list[str]  # paragraphs of markdown: meaning of a failure, and its remedy
    # `rule`, its name (the same where only the limit differs); `title`, the rule in words; `says`, what is said of a
    # row that breaks it (`text.filled`); `shows`, the columns that a page shows
    meta: dict[str, Any]

    def configuration(self) -> dict[str, Any]:
        """What Great Expectations makes the expectation of."""
        return {"id": self.id, "type": self.type, "kwargs": self.kwargs, "severity": self.severity}

    def columns(self) -> set[str]:
        """The columns that decide."""
        return {value for key, value in self.kwargs.items() if key in NAMING}


@dataclass(frozen=True)
class SuiteFile:
    """A suite: its name, notes on its subject (markdown), and its expectations in the order of the page.

    `meta` has what a row is (`noun`), the columns that tell rows apart (`subjects`), and the begin (`about`) and end
    (`end`) of what is said of a row.
    """

    id: str
    name: str
    notes: list[str]
    meta: dict[str, Any]
    expectations: tuple[Entry, ...]

    def message(self, entry: Entry, row: Row) -> str:
        """Describes the failure of a row in one sentence: subject, interval, numbers, offsets, captures."""
        about, says, end = (filled(text, row) for text in (self.meta["about"], entry.meta["says"], self.meta["end"]))
        return f"{about}, {row['interval']}: {says}; {end}"


@cache
def read_suite(name: str) -> SuiteFile:
    """Reads the suite file of a name.

    Raises:
        LawError: as `parse_suite`.
    """
    path = resources.files(__package__) / "suites" / f"{name}.json"
    return parse_suite(path.read_text(encoding="utf-8"), f"{name}.json")


def parse_suite(text: str, file: str) -> SuiteFile:
    """Reads the text of a suite file.

    Raises:
        LawError: a key is missing or unknown, a value is not allowed, or an id occurs twice.
    """
    data = json.loads(text)
    _same_keys(data, SuiteFile, file)
    for item in data["expectations"]:
        _same_keys(item, Entry, f"{file}: {item.get('type')}")
    suite = SuiteFile(**{**data, "expectations": tuple(Entry(**item) for item in data["expectations"])})
    if len({entry.id for entry in suite.expectations}) < len(suite.expectations):
        raise LawError(f"{file}: an id occurs twice")
    for entry in suite.expectations:
        if entry.severity not in ("warning", "critical"):
            raise LawError(f"{file}: {entry.meta['rule']}: severity {entry.severity!r}", "write warning or critical")
    return suite


def _same_keys(data: Any, kind: type[Entry] | type[SuiteFile], where: str) -> None:
    keys = [field.name for field in fields(kind)]
    if not isinstance(data, dict) or list(data) != keys:
        raise LawError(f"{where}: has not the keys {', '.join(keys)}, in this order")
