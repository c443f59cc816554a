"""The audits of an interval: Great Expectations suites over the measures of its links, LFTAs and queries.

Between the measures that `lowwater.quality` takes and the decision to publish. Importing the package is light; Great
Expectations, which takes seconds, is imported by the first `validate`, `render` or `render_suites`. Modules import each
other relatively, because the folder `expectations/` is installed as `lowwater_expectations`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .entries import Entry, SuiteFile, read_suite
from .findings import SUITES, Finding, Report, Severity, Validation, Verdict, once, verdict
from .lazy import load_lazily

if TYPE_CHECKING:
    import pandas

__all__ = [
    "SUITES",
    "Entry",
    "Finding",
    "Report",
    "Severity",
    "SuiteFile",
    "Validation",
    "Verdict",
    "assets",
    "index",
    "once",
    "read_suite",
    "render",
    "render_suites",
    "validate",
    "verdict",
]

# Both before Great Expectations is imported, which only modules of this package do.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
load_lazily()


def validate(frames: Mapping[str, pandas.DataFrame], run: str) -> tuple[Validation, ...]:
    """Runs every suite on its measure frame; see `validation.validate`."""
    from .validation import validate

    return validate(frames, run)


def render(validation: Validation) -> str:
    """The page of a validation, for `reports/<query set>/<interval>/<suite>.html`; see `pages.render`."""
    from .pages import render

    return render(validation)


def render_suites() -> Mapping[str, str]:
    """The pages of the suites themselves, by file name, for `reports/suites/`; see `pages.render_suites`."""
    from .pages import render_suites

    return render_suites()


def index(rows: Iterable[Report]) -> str:
    """The page that leads to all others, for `reports/index.html`; see `contents.index`."""
    from .contents import index

    return index(rows)


def assets() -> dict[str, bytes]:
    """The files that every page refers to, by name, for `reports/assets/`."""
    from .contents import assets

    return assets()
