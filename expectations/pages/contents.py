"""Renders the index of all report pages, and lists the files that all pages share.

It is apart from `rendering`, so that listing the reports does not import Great Expectations.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader

from ..findings import SUITES, Report
from ..wording import headline, spoken
from .offline import offline

_HERE = Path(__file__).parents[1]


def index(rows: Iterable[Report]) -> str:
    """Renders the index of all pages, for `reports/index.html`.

    Args:
        rows: one for each interval and query set, in any order; plain tuples of the same fields are accepted.

    Returns:
        HTML with query sets by name and intervals from newest to oldest.

    Raises:
        LawError: an address in `pages` is not relative.
    """
    reports = sorted((Report(*row) for row in rows), key=lambda report: report.interval, reverse=True)
    reports.sort(key=lambda report: report.query_set)
    groups = [(name, list(group)) for name, group in groupby(reports, key=lambda report: report.query_set)]
    environment = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True)
    environment.filters |= {"address": lambda path: quote(path, safe="/."), "spoken": spoken}
    environment.globals["headline"] = headline
    return offline(environment.get_template("index.html").render(groups=groups, suites=SUITES, root=""))


def assets() -> dict[str, bytes]:
    """Returns the files that all pages use, by name, for `reports/assets/`."""
    return {path.name: path.read_bytes() for path in sorted((_HERE / "assets").iterdir())}
