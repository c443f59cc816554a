"""The pages of the audit: a page for each validation and suite, and the index, without scripts or network.

Templates escape values, and `offline` checks elements and addresses of the finished page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from html.parser import HTMLParser
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from lowwater.errors import LawError

from .audits import (
    SUITES,
    Entry,
    Finding,
    Report,
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

_TAGS = re.compile(
    "html|head|meta|title|link|body|header|nav|main|footer|section|div|p|span|strong|em|small|code|br|hr|h[1-6]"
    "|ul|ol|li|time|table|thead|tbody|tr|th|td|a|details|summary"
)
_ATTRIBUTES = re.compile(
    "id|class|title|datetime|lang|charset|name|content|http-equiv|rel|href|hidden|style|data-[a-z]+"
    "|tabindex|role|aria-label"
)
_RELATIVE = re.compile(r"(?:#|(?:\.\./)*[A-Za-z0-9_%~-])[A-Za-z0-9_.%~/#-]*")
_STYLE = re.compile(r"(?:[a-z-]+:[a-z0-9.% -]*(?:!important)?; ?)*")
_PLAIN = re.compile(
    rf"<(?:!DOCTYPE html|/(?:{_TAGS.pattern})|(?:{_TAGS.pattern})"
    r'(?: (?:(?:id|class|title|datetime|lang|charset|name|content|rel|data-align|tabindex|role|aria-label)="[^"<>]*"'
    rf'|href="{_RELATIVE.pattern}"|http-equiv="Content-Security-Policy"))*)>'
)
"""A tag as templates write it, which is surely permitted; the parser would take a third of an audit."""


def offline(page: str) -> str:
    """Checks that a page works without a network and has no scripts.

    Returns:
        The same page.

    Raises:
        LawError: the page has an element, attribute or address that is not permitted.

    Example:
        >>> offline('<p class="x">text</p>')
        '<p class="x">text</p>'
    """
    if "<" not in _PLAIN.sub("", page):
        return page
    checker = _Checker()
    checker.feed(page)
    checker.close()
    return page


class _Checker(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not _TAGS.fullmatch(tag):
            raise _refuse(f"an element <{tag}>")
        for name, value in attrs:
            if not _ATTRIBUTES.fullmatch(name):
                raise _refuse(f"an attribute {name} on <{tag}>")
            if name == "href" and not _RELATIVE.fullmatch(value or ""):
                raise _refuse(f"the address {value!r}, which is not relative,")
            if name == "http-equiv" and value != "Content-Security-Policy":
                raise _refuse(f"an instruction {value!r}")
            if name == "style" and not _STYLE.fullmatch(value or ""):
                raise _refuse(f"the style {value!r}")

    def unknown_decl(self, data: str) -> None:
        raise _refuse(f"a declaration {data[:40]!r}")


def _refuse(what: str) -> LawError:
    return LawError(f"a page of the report has {what} and is not shown", "this is a fault of the page's template")


_HERE = Path(__file__).parent


def index(rows: Iterable[Report]) -> str:
    """Renders the index of all pages, for `reports/index.html`.

    Returns:
        HTML with query sets by name and intervals from newest to oldest.

    Raises:
        LawError: an address in `pages` is not relative.
    """
    reports = sorted((Report(*row) for row in rows), key=lambda report: report.interval, reverse=True)
    reports.sort(key=lambda report: report.query_set)
    groups = [(name, list(group)) for name, group in groupby(reports, key=lambda report: report.query_set)]
    return _page("index.html", "", groups=groups)


def assets() -> dict[str, bytes]:
    """Returns the files that all pages use, by name, for `reports/assets/`."""
    return {path.name: path.read_bytes() for path in sorted((_HERE / "assets").iterdir())}


_LINES = re.compile(r"\s*\n\s*")
_STRONG, _CODE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"`(.+?)`")


MOST_ROWS = 50
"""Maximum number of rows of measures on a page; rows that break the rule come first."""


def render(validation: Validation) -> str:
    """Renders the page of a validation, for `reports/<query set>/<interval>/<suite>.html`.

    Raises:
        LawError: the page lacks a finding or a message, or has content that `offline` refuses.
    """
    file = read_suite(validation.suite)
    hold = sum(finding.success for finding in validation.findings)
    page = _page(
        "document.html",
        "../../",
        suite=validation.suite,
        verdict=validation.verdict,
        run=validation.run,
        intervals=sorted({row["interval"] for row in validation.rows}),
        findings=validation.findings,
        failed=once(finding for finding in validation.findings if not finding.success),
        outcomes=[
            _outcome(validation, *each, file) for each in zip(validation.findings, file.expectations, strict=True)
        ],
        facts={
            "expectations": len(validation.findings),
            "hold": hold,
            "do not hold": len(validation.findings) - hold,
            "run": validation.run,
            "validated at": f"{validation.time[:19]}Z",
            "Great Expectations": _version(),
        },
    )
    for finding in validation.findings:
        needed = [f'id="{finding.expectation}"', *(str(escape(message)) for message in finding.messages)]
        if lost := [text for text in needed if _squeezed(text) not in page]:
            raise LawError(f"the page of the suite {validation.suite} lacks {lost[0]!r} of {finding.kind}")
    return page


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
    """Renders the descriptions of the suites for `reports/suites/`, by file name; once in a process.

    Raises:
        LawError: a page has content that `offline` refuses.
    """
    files = map(read_suite, SUITES)
    pages = {f"{file.name}.html": _page("suite.html", "../", suite=file.name, file=file) for file in files}
    return MappingProxyType(pages)


@cache
def _version() -> str:
    return version("great_expectations")


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"address": lambda path: quote(path, safe="/."), "marked": marked, "spoken": spoken}
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
