"""The process that has Great Expectations: it judges measures, and the rows of a query by its suite.

Its imports take seconds, so a command that audits starts it first, and this module imports next to nothing. It stays
for the next interval. It can be ended: a regular expression of Python cannot be interrupted, and SQL may take any
memory. `lowwater_expectations.worker` is what it runs.
"""

from __future__ import annotations

import atexit
from threading import RLock
from typing import TYPE_CHECKING, Any

from lowwater import errors, extras, processes

if TYPE_CHECKING:
    from lowwater.quality.modules import Modules


def begin() -> None:
    """Starts the process, if there is none."""
    extras.require("an audit", "quality")
    PROCESS.begin()


def request(what: dict[str, Any], modules: Modules | None = None) -> processes.Answers:
    """Yields the answers to a request, by the expectations of Great Expectations and of people's modules; EndedError if
    the process ended before the last one."""
    extras.require("an audit", "quality")
    with _TURN:
        if modules is not None:
            _renew(modules)
            what = {**what, "modules": modules.folder}
        yield from PROCESS.ask(what)


def _renew(modules: Modules) -> None:
    """Ends a process that has loaded other modules: what they define cannot be taken back."""
    if _LOADED and [modules] != _LOADED:
        PROCESS.end()
    _LOADED[:] = [modules]


def ask(what: dict[str, Any], modules: Modules | None = None) -> processes.Answers:
    """As `request`, for something that takes no long time; LakeError if the process ended."""
    try:
        yield from request(what, modules)
    except processes.EndedError as error:
        raise errors.LakeError(
            f"the process with Great Expectations ended: {error}", "run the command again: nothing was published"
        ) from error


PROCESS = processes.Process("lowwater_expectations.worker")
_LOADED: list[Modules] = []
"""The modules that the process has, at most one entry."""
_TURN = RLock()
atexit.register(PROCESS.end)
