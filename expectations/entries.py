"""The suite files: expectations as JSON with ids that never change by themselves.

Read by `validation`, which makes expectations of them, and by whoever edits a suite. An id is made from the names of
suite and expectation, so that rewording a description changes one line and results stay comparable for years.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from importlib import resources
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from lowwater.errors import LawError

from .findings import Severity


@dataclass(frozen=True)
class Entry:
    """One expectation of a suite file.

    Attributes:
        id: made by `stable_id`.
        type: name of the class in snake case.
        kwargs: its arguments.
        severity: what its failure means.
        description: what is expected, one sentence; shown on every page.
        notes: paragraphs of markdown: what a failure means, what to do.
    """

    id: str
    type: str
    kwargs: dict[str, Any]
    severity: Severity
    description: str
    notes: list[str]

    @property
    def name(self) -> str:
        """The type, with the arguments where there are any: unique in its suite."""
        return "/".join([self.type, *(str(value) for value in self.kwargs.values())])


@dataclass(frozen=True)
class SuiteFile:
    """A suite: its name, what it is about (markdown), and its expectations in order of their pages."""

    id: str
    name: str
    notes: list[str]
    expectations: tuple[Entry, ...]


def stable_id(*names: str) -> str:
    """The id of a suite, or of an expectation of it (UUID 5)."""
    return str(uuid5(NAMESPACE_URL, "/".join(["lowwater:expectations", *names])))


def read_suite(name: str) -> SuiteFile:
    """Reads the suite file of a name.

    Raises:
        LawError: it is not what `parse_suite` takes.
    """
    path = resources.files(__package__) / "suites" / f"{name}.json"
    return parse_suite(path.read_text(encoding="utf-8"), f"{name}.json")


def parse_suite(text: str, file: str) -> SuiteFile:
    """Reads the text of a suite file.

    Args:
        text: the JSON.
        file: its name, for messages.

    Raises:
        LawError: a key is missing, unknown or has no such value, an id is not the stable one, or a name occurs twice.
    """
    data = json.loads(text)
    _same_keys(data, SuiteFile, file)
    for each in data["expectations"]:
        _same_keys(each, Entry, f"{file}: {each.get('type')}")
    suite = SuiteFile(**{**data, "expectations": tuple(Entry(**each) for each in data["expectations"])})
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


def dump_suite(suite: SuiteFile) -> str:
    """The text of a suite file; reading it gives the suite again, and dumping that the same text."""
    return json.dumps(asdict(suite), indent=2, ensure_ascii=False) + "\n"


def _same_keys(data: Any, kind: type[Entry] | type[SuiteFile], where: str) -> None:
    keys = [field.name for field in fields(kind)]
    if not isinstance(data, dict) or list(data) != keys:
        raise LawError(f"{where}: has not the keys {', '.join(keys)}, in this order")
