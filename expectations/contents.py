"""The index page, which leads to the pages of every interval, and the files that all pages share.

Beside `pages`, but without Great Expectations: whoever lists the reports need not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader

from .findings import SUITES, Report
from .offline import offline

_HERE = Path(__file__).parent


def index(rows: Iterable[Report]) -> str:
    """The page that leads to all others, for `reports/index.html`.

    Args:
        rows: one an interval and query set, in any order; plain tuples of the same fields do.

    Returns:
        The page: query sets by name, intervals newest first.

    Raises:
        LawError: an address in `pages` is not relative.
    """
    reports = sorted((Report(*row) for row in rows), key=lambda report: report.interval, reverse=True)
    reports.sort(key=lambda report: report.query_set)
    groups = [(name, list(each)) for name, each in groupby(reports, key=lambda report: report.query_set)]
    environment = Environment(loader=FileSystemLoader(_HERE / "templates"), autoescape=True)
    environment.filters["address"] = lambda path: quote(path, safe="/.")
    return offline(environment.get_template("index.html").render(groups=groups, suites=SUITES, root=""))


def assets() -> dict[str, bytes]:
    """The files that every page refers to, by name, for `reports/assets/`."""
    return {path.name: path.read_bytes() for path in sorted((_HERE / "assets").iterdir())}
