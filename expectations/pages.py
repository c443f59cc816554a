"""The pages of a data-quality report: one a validation, one a suite; offline, escaped, without any script.

The last stage of an audit: `validation` made the result, `renderers` arrange it, `view` makes the page, `offline` holds
it to what a page may contain. The pages lie in `reports/<query set>/<interval>/` and `reports/suites/`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema

from lowwater.errors import LawError

from .entries import read_suite
from .findings import SUITES, Validation, once
from .offline import offline
from .renderers import ResultPage, SuitePage
from .suites import build_suite
from .view import Page

_LINES = re.compile(r"\s*\n\s*")


def render(validation: Validation) -> str:
    """The page of a validation, for `reports/<query set>/<interval>/<suite>.html`.

    Args:
        validation: its document is all that is shown; its findings say what must be on the page.

    Raises:
        LawError: GX left something out (alone it logs that and goes on), or the page is not offline.
    """
    result = expectationSuiteValidationResultSchema.load(validation.document)
    meta = validation.document["meta"]
    page = _page(
        ResultPage().render(result),
        "document.html",
        "../../",
        suite=validation.suite,
        verdict=validation.verdict,
        run=meta["run_id"]["run_name"],
        intervals=meta["intervals"],
        findings=validation.findings,
        failed=once(finding for finding in validation.findings if not finding.success),
    )
    for finding in validation.findings:
        needed = [f'id="{finding.expectation}"', *(html.escape(message, quote=False) for message in finding.messages)]
        if lost := [text for text in needed if _squeezed(text) not in page]:
            raise LawError(f"the page of the suite {validation.suite} lacks {lost[0]!r} of {finding.kind}")
    return page


@cache
def render_suites() -> Mapping[str, str]:
    """The pages of the suites themselves, by file name, for `reports/suites/`; rendered once a process.

    Raises:
        LawError: see `render`.
    """
    made = {}
    for name in SUITES:
        file = read_suite(name)
        document = SuitePage().render(build_suite(file))
        made[f"{name}.html"] = _page(document, "suite.html", "../", suite=name, notes=file.notes)
    return MappingProxyType(made)


@cache
def _view() -> Page:
    return Page()  # keeps its compiled templates


def _page(document: Any, template: str, root: str, **values: Any) -> str:
    text = _view().render(document, template=template, suites=SUITES, root=root, **values)
    return offline(_squeezed(text))


def _squeezed(text: str) -> str:
    return _LINES.sub("\n", text).strip()
