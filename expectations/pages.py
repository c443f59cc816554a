"""The pages of a data-quality report: one a validation, one a suite; offline, escaped, without any script.

The last stage of an audit: `validation` made the JSON of the result, `outcomes` reads it, our templates show it, and
`offline` holds the page to what it may contain. The pages lie in `reports/<query set>/<interval>/` and
`reports/suites/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from lowwater.errors import LawError

from .entries import read_suite
from .findings import SUITES, Validation, once
from .offline import offline
from .outcomes import outcome_of
from .rules import Rule
from .suites import build_suite

_LINES = re.compile(r"\s*\n\s*")
_STRONG, _CODE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`(.+?)`")


def render(validation: Validation) -> str:
    """The page of a validation, for `reports/<query set>/<interval>/<suite>.html`.

    Args:
        validation: its document is all that is shown; its findings say what must be on the page.

    Raises:
        LawError: a finding or a message is not on the page, or the page is not offline.
    """
    document = validation.document
    meta, statistics = document["meta"], document["statistics"]
    page = _page(
        "document.html",
        "../../",
        suite=validation.suite,
        verdict=validation.verdict,
        run=meta["run_id"]["run_name"],
        intervals=meta["intervals"],
        findings=validation.findings,
        failed=once(finding for finding in validation.findings if not finding.success),
        outcomes=[outcome_of(result) for result in document["results"]],
        facts={
            "expectations": statistics["evaluated_expectations"],
            "hold": statistics["successful_expectations"],
            "do not hold": statistics["unsuccessful_expectations"],
            "run": meta["run_id"]["run_name"],
            "validated at": f"{meta['run_id']['run_time'][:19]}Z",
            "Great Expectations": meta["great_expectations_version"],
        },
    )
    for finding in validation.findings:
        needed = [f'id="{finding.expectation}"', *(str(escape(message)) for message in finding.messages)]
        if lost := [text for text in needed if _squeezed(text) not in page]:
            raise LawError(f"the page of the suite {validation.suite} lacks {lost[0]!r} of {finding.kind}")
    return page


@cache
def render_suites() -> Mapping[str, str]:
    """The pages of the suites themselves, by file name, for `reports/suites/`; rendered once a process.

    Raises:
        LawError: a page is not offline.
    """
    pages = {}
    for name in SUITES:
        file = read_suite(name)
        rules = [rule for rule in build_suite(file).expectations if isinstance(rule, Rule)]
        entries = [(entry, rule.title()) for entry, rule in zip(file.expectations, rules, strict=True)]
        pages[f"{name}.html"] = _page("suite.html", "../", suite=name, notes=file.notes, entries=entries)
    return MappingProxyType(pages)


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked"] = marked
    return environment


def marked(text: str) -> Markup:
    """A paragraph of a note: `**strong**` and code in backticks are all the markdown that it has.

    Example:
        >>> str(marked("**Do** `x < y`"))
        '<p><strong>Do</strong> <code>x &lt; y</code></p>'
    """
    strong = _STRONG.sub(r"<strong>\1</strong>", str(escape(text)))
    return Markup("<p>" + _CODE.sub(r"<code>\1</code>", strong) + "</p>")


def _page(template: str, root: str, **values: Any) -> str:
    values = {"checked": "", "suites": SUITES, "root": root} | values
    return offline(_squeezed(_templates().get_template(template).render(values)))


def _squeezed(text: str) -> str:
    return _LINES.sub("\n", text).strip()
