"""Audits of an interval: Great Expectations suites over the measures of its links, LFTAs and queries.

`lowwater.quality` takes the measures, and the results decide whether the interval is published. The import of this
package is fast: a process of its own (`worker`) has Great Expectations, whose import takes seconds.
Modules import each other relatively, because the folder `expectations/` is installed as `lowwater_expectations`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lowwater.extras import require

from .entries import Entry, SuiteFile, read_suite
from .findings import SUITES, Fault, Finding, Report, Severity, Validation, Verdict, once, verdict
from .validation import validate
from .wording import headline, spoken

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from lowwater.quality.gx_project import Asset

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


def check_written(entries: Sequence[Mapping[str, Any]], schema: pyarrow.Schema) -> None:
    """Checks that the expectations that people wrote can be judged; see `written.check`."""
    from .written import check

    check(entries, schema)


def write_project(root: Path, assets: Sequence[Asset], suites: Mapping[str, Sequence[str]], scratch: Path) -> None:
    """Writes a project of Great Expectations over a lake; see `project.write_project`."""
    require("lowwater gx", "quality")
    from .project import write_project

    write_project(root, assets, suites, scratch)


def render(validation: Validation) -> str:
    """Renders a validation for `reports/<query set>/<interval>/<suite>.html`; see `rendering.render`."""
    from .pages.rendering import render

    return render(validation)


def render_suites() -> Mapping[str, str]:
    """Renders the descriptions of the suites for `reports/suites/`, by file name; see `rendering.render_suites`."""
    from .pages.rendering import render_suites

    return render_suites()


def index(rows: Iterable[Report]) -> str:
    """Renders the index of all pages for `reports/index.html`; see `contents.index`."""
    from .pages.contents import index

    return index(rows)


def assets() -> dict[str, bytes]:
    """Returns the files that all pages use, by name, for `reports/assets/`."""
    from .pages.contents import assets

    return assets()
