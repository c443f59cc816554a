"""Reads the suite files: expectations as JSON with stable ids.

`suites` builds expectations from them, and people edit them. An id depends only on the names of suite and expectation.
So a new wording of a description changes one line, and results stay comparable for years.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from lowwater.errors import LawError

from .findings import Severity


@dataclass(frozen=True)
class Entry:
    """One expectation of a suite file.

    Attributes:
        id: result of `stable_id`.
        type: name of the class in snake case.
        kwargs: arguments of the expectation.
        severity: whether a failure stops the publication (`critical`) or not (`warning`).
        description: the expectation in one sentence; every page shows it.
        notes: paragraphs of markdown: meaning of a failure, and its remedy.
    """

    id: str
    type: str
    kwargs: dict[str, Any]
    severity: Severity
    description: str
    notes: list[str]

    @property
    def name(self) -> str:
        """The type and the arguments, if any; unique in the suite."""
        return "/".join([self.type, *(str(value) for value in self.kwargs.values())])


@dataclass(frozen=True)
class SuiteFile:
    """A suite: its name, notes on its subject (markdown), and its expectations in the order of the page."""

    id: str
    name: str
    notes: list[str]
    expectations: tuple[Entry, ...]


def stable_id(*names: str) -> str:
    """Computes the id of a suite or of one of its expectations (UUID 5)."""
    return str(uuid5(NAMESPACE_URL, "/".join(["lowwater:expectations", *names])))


def read_suite(name: str) -> SuiteFile:
    """Reads the suite file of a name.

    Raises:
        LawError: as `parse_suite`.
    """
    path = resources.files(__package__) / "suites" / f"{name}.json"
    return parse_suite(path.read_text(encoding="utf-8"), f"{name}.json")


def parse_suite(text: str, file: str) -> SuiteFile:
    """Reads the text of a suite file.

    Args:
        text: JSON of the file.
        file: name of the file, for messages.

    Raises:
        LawError: a key is missing or unknown, a value is not allowed, an id is not stable, or a name occurs twice.
    """
    data = json.loads(text)
    _same_keys(data, SuiteFile, file)
    for item in data["expectations"]:
        _same_keys(item, Entry, f"{file}: {item.get('type')}")
    suite = SuiteFile(**{**data, "expectations": tuple(Entry(**item) for item in data["expectations"])})
    names = [entry.name for entry in suite.expectations]
    ids = {stable_id(suite.name): suite.id} | {stable_id(suite.name, e.name): e.id for e in suite.expectations}
    for right, written in ids.items():
        if right != written:
            raise LawError(f"{file}: id {written} is not the stable one", f"write {right}")
    if len(set(names)) < len(names):
        raise LawError(f"{file}: an expectation occurs twice: {', '.join(names)}")
    for entry in suite.expectations:
        if entry.severity not in ("warning", "critical"):
            raise LawError(f"{file}: {entry.name}: severity {entry.severity!r}", "write warning or critical")
    return suite


def _same_keys(data: Any, kind: type[Entry] | type[SuiteFile], where: str) -> None:
    keys = [field.name for field in fields(kind)]
    if not isinstance(data, dict) or list(data) != keys:
        raise LawError(f"{where}: has not the keys {', '.join(keys)}, in this order")
