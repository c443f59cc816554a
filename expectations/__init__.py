"""Audits of an interval: Great Expectations suites over the measures of its links, LFTAs and queries.

`lowwater.quality` takes the measures, and the results decide whether the interval is published. The import of this
package is fast: a process of its own (`worker`) has Great Expectations, whose import takes seconds.
Modules import each other relatively, because the folder `expectations/` is installed as `lowwater_expectations`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .audits import (
    SUITES,
    Entry,
    Fault,
    Finding,
    Report,
    Severity,
    SuiteFile,
    Validation,
    Verdict,
    headline,
    once,
    read_suite,
    spoken,
    validate,
    verdict,
)

if TYPE_CHECKING:
    from .judging import check_written
    from .pages import assets, index, render, render_suites
    from .project import write_project

__all__ = [
    "SUITES",
    "Entry",
    "Fault",
    "Finding",
    "Report",
    "Severity",
    "SuiteFile",
    "Validation",
    "Verdict",
    "assets",
    "check_written",
    "headline",
    "index",
    "once",
    "read_suite",
    "render",
    "render_suites",
    "spoken",
    "validate",
    "verdict",
    "write_project",
]

# It must precede the import of Great Expectations, which happens only in modules of this package.
os.environ["GX_ANALYTICS_ENABLED"] = "false"

_LATER = {"check_written": "judging", "write_project": "project"}
_LATER |= dict.fromkeys(("assets", "index", "render", "render_suites"), "pages")


def __getattr__(name: str) -> Any:
    """What takes time to import, when it is asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LATER[name]}", __package__), name)
