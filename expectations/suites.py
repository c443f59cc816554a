"""Builds the suites of Great Expectations from the suite files, and checks that nothing was lost.

`entries` reads the files, and `validation` runs the suites. Importing this module registers the custom expectations.
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
"""Modules of the expectation classes that the suite files name; their import registers the classes with GX."""


def load_suite(name: str) -> ExpectationSuite:
    """Builds the suite of a name from its file.

    Raises:
        LawError: the file is not valid, or GX changed or dropped an expectation.
    """
    return build_suite(read_suite(name))


def build_suite(file: SuiteFile) -> ExpectationSuite:
    """Builds a suite from a suite file.

    Raises:
        LawError: GX changed or dropped an expectation, which GX itself only logs.
    """
    entries = [asdict(entry) for entry in file.expectations]
    try:
        suite = ExpectationSuite(name=file.name, id=file.id, notes=file.notes, expectations=entries)
    except pydantic.ValidationError as error:
        raise LawError(f"suite {file.name}: an expectation does not take its arguments: {error}") from error
    if dump_back(suite) != file:
        ids = {expectation.id for expectation in suite.expectations}
        lost = [entry.name for entry in file.expectations if entry.id not in ids]
        raise LawError(f"suite {file.name}: Great Expectations changed it; lost: {', '.join(lost) or 'nothing'}")
    return suite


def dump_back(suite: ExpectationSuite) -> SuiteFile:
    """Converts a suite back to a suite file, to compare it with its source."""
    entries = tuple(
        Entry(
            id=configuration.id or "",
            type=configuration.type,
            kwargs=dict(configuration.kwargs),
            severity=cast(Severity, configuration.severity.value),
            description=configuration.description or "",
            notes=list(configuration.notes or []),
        )
        for configuration in suite.expectation_configurations
    )
    return SuiteFile(suite.id or "", suite.name, list(suite.notes or []), entries)
