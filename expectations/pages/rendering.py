"""Renders the pages of a data-quality report: one for each validation and each suite, without scripts or network.

The last stage of an audit: `validation` returns JSON, `outcomes` converts it, the templates render it, and `offline`
checks the elements and addresses of the page. The pages are stored in `reports/<query set>/<interval>/` and
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

from ..entries import read_suite
from ..findings import SUITES, Validation, once
from ..rules import Rule
from ..suites import build_suite
from ..wording import headline, spoken
from .offline import offline
from .outcomes import outcome_of

_LINES = re.compile(r"\s*\n\s*")
_STRONG, _CODE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`(.+?)`")


def render(validation: Validation) -> str:
    """Renders the page of a validation, for `reports/<query set>/<interval>/<suite>.html`.

    Args:
        validation: the page shows its document; its findings serve to check that the page is complete.

    Raises:
        LawError: the page lacks a finding or a message, or has content that `offline` refuses.
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
    """Renders the descriptions of the suites for `reports/suites/`, by file name; once in a process.

    Raises:
        LawError: a page has content that `offline` refuses.
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
        loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"marked": marked, "spoken": spoken}
    environment.globals["headline"] = headline
    return environment


def marked(text: str) -> Markup:
    """Renders a paragraph of a note. Supports only `**strong**` and code in backticks.

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
