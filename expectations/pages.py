"""The pages of the audit: a page for each validation and suite, without scripts or network. Templates escape values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from .audits import (
    SUITES,
    Entry,
    Finding,
    SuiteFile,
    Validation,
    count,
    headline,
    label,
    once,
    read_suite,
    shown,
    spoken,
)

_HERE = Path(__file__).parent


def assets() -> dict[str, bytes]:
    """Returns the files that all pages use, by name, for `reports/assets/`."""
    return {path.name: path.read_bytes() for path in sorted((_HERE / "assets").iterdir())}


_LINES = re.compile(r"\s*\n\s*")
_STRONG, _CODE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`(.+?)`")


MOST_ROWS = 50
"""Maximum number of rows of measures on a page; rows that break the rule come first."""


def render(validation: Validation) -> str:
    """Renders the page of a validation, whose expectations its suite has, for
    `reports/<query set>/<interval>/<suite>.html`."""
    file = read_suite(validation.suite)
    entries = {entry.id: entry for entry in file.expectations}
    hold = sum(finding.success for finding in validation.findings)
    return _page(
        "document.html",
        "../../",
        suite=validation.suite,
        verdict=validation.verdict,
        run=validation.run,
        intervals=sorted({row["interval"] for row in validation.rows}),
        findings=validation.findings,
        failed=once(finding for finding in validation.findings if not finding.success),
        outcomes=[_outcome(validation, finding, entries[finding.expectation], file) for finding in validation.findings],
        facts={
            "expectations": len(validation.findings),
            "hold": hold,
            "do not hold": len(validation.findings) - hold,
            "run": validation.run,
            "validated at": f"{validation.time[:19]}Z",
            "Great Expectations": _version("great_expectations"),
        },
    )


def _outcome(validation: Validation, finding: Finding, entry: Entry, file: SuiteFile) -> dict[str, Any]:
    """An expectation for the template: its finding, and a table of measures (text and CSS classes of each cell)."""
    columns, rows, broken = [*file.meta["subjects"], *entry.meta["shows"]], validation.rows, set(finding.rows)
    order = sorted(range(len(rows)), key=lambda position: (position not in broken, position))
    measures = [
        [(shown(name, rows[at][name]), "broken " * (at in broken) + _alignment(rows[at][name])) for name in columns]
        for at in order[:MOST_ROWS]
    ]
    count_of, noun = len(rows), file.meta["noun"]
    if broken:
        said = f"{count(len(broken))} of {count(count_of, noun)} {'fails' if len(broken) == 1 else 'fail'}"
    else:
        said = f"1 {noun} holds" if count_of == 1 else f"all {count(count_of, noun)} hold"
    return {
        "finding": finding,
        "verdict": "passed" if finding.success else "failed" if finding.severity == "critical" else "warned",
        "description": entry.description,
        "rows": said,
        "headings": [(label(name), _alignment(rows[0][name])) for name in columns],
        "measures": measures,
    }


def _alignment(value: Any) -> str:
    return "words" if isinstance(value, str) else "number"


@cache
def render_suites() -> Mapping[str, str]:
    """Renders the descriptions of the suites for `reports/suites/`, by file name; once in a process."""
    files = map(read_suite, SUITES)
    pages = {f"{file.name}.html": _page("suite.html", "../", suite=file.name, file=file) for file in files}
    return MappingProxyType(pages)


_version = cache(version)


def templates(folder: Path) -> Environment:
    """Templates of a folder, which escape every value and refuse a name that has none."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _templates() -> Environment:
    environment = templates(_HERE / "templates")
    environment.filters |= {"marked": marked, "spoken": spoken}
    environment.globals["headline"] = headline
    return environment


def marked(text: str) -> Markup:
    """Renders a paragraph of a note: escaped, with `**strong**` and code in backticks."""
    strong = _STRONG.sub(r"<strong>\1</strong>", str(escape(text)))
    return Markup("<p>" + _CODE.sub(r"<code>\1</code>", strong) + "</p>")


def _page(template: str, root: str, **values: Any) -> str:
    values = {"checked": "", "suites": SUITES, "root": root} | values
    return _LINES.sub("\n", _templates().get_template(template).render(values)).strip()
