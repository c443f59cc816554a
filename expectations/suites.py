"""The suites as Great Expectations takes them: made of the suite files, and held against them.

Between `entries`, which reads the files, and `validation`. Importing it registers the custom expectations.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from great_expectations.compatibility import pydantic
from great_expectations.core import ExpectationSuite

from lowwater.errors import LawError

from . import history, lftas, links, queries, rows
from .entries import Entry, SuiteFile, read_suite
from .findings import Severity

FAMILIES = (links, lftas, queries, rows, history)
"""The modules with the classes that the suite files name; importing one registers its classes with GX."""


def load_suite(name: str) -> ExpectationSuite:
    """The suite of a name, made of its file.

    Raises:
        LawError: the file is wrong, or GX did not take every expectation of it as it is written.
    """
    return build_suite(read_suite(name))


def build_suite(file: SuiteFile) -> ExpectationSuite:
    """The expectations of a suite file.

    Raises:
        LawError: GX did not take every expectation as it is written; alone it logs that and goes on without.
    """
    entries = [asdict(entry) for entry in file.expectations]
    try:
        suite = ExpectationSuite(name=file.name, id=file.id, notes=file.notes, expectations=entries)
    except pydantic.ValidationError as error:
        raise LawError(f"suite {file.name}: an expectation does not take its arguments: {error}") from error
    if dump_back(suite) != file:
        kept = {expectation.id for expectation in suite.expectations}
        lost = [entry.name for entry in file.expectations if entry.id not in kept]
        raise LawError(f"suite {file.name}: Great Expectations changed it; lost: {', '.join(lost) or 'nothing'}")
    return suite


def dump_back(suite: ExpectationSuite) -> SuiteFile:
    """The suite file that says what a suite holds."""
    entries = tuple(
        Entry(
            id=each.id or "",
            type=each.type,
            kwargs=dict(each.kwargs),
            severity=cast(Severity, each.severity.value),
            description=each.description or "",
            notes=list(each.notes or []),
        )
        for each in suite.expectation_configurations
    )
    return SuiteFile(suite.id or "", suite.name, list(suite.notes or []), entries)
