"""The process that has Great Expectations: it judges measures, and the rows of a query by its suite.

Its imports take seconds, so a command that audits starts it first, and this module imports next to nothing. It stays
for the next interval. It can be ended: a regular expression of Python cannot be interrupted, and SQL may take any
memory. `lowwater_expectations.worker` is what it runs.
"""

from __future__ import annotations

import atexit
from typing import Any

from lowwater import errors, extras, processes


def begin() -> None:
    """Starts the process, if there is none."""
    extras.require("an audit", "quality")
    PROCESS.begin()


def request(what: dict[str, Any]) -> processes.Answers:
    """Yields the answers to a request; EndedError if the process ended before the last one."""
    extras.require("an audit", "quality")
    return PROCESS.ask(what)


def ask(what: dict[str, Any]) -> processes.Answers:
    """As `request`, for something that takes no long time; LakeError if the process ended."""
    try:
        yield from request(what)
    except processes.EndedError as error:
        raise errors.LakeError(
            f"the process with Great Expectations ended: {error}", "run the command again: nothing was published"
        ) from error


PROCESS = processes.Process("lowwater_expectations.worker")
atexit.register(PROCESS.end)
