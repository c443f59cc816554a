"""Route of the comparison of two versions of a published table: rows added, gone and changed.

Beside `pages`, which link here; `lowwater diff` prints the same.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.results.exploring import compare, instant_of, result_table
from lowwater.plan.properties import unique_key

from ..ledgers import Ledgers
from ..pages import fill_template
from .pages import METHODS, Chosen, Shown, answer_of

LONGEST = 48 * HOUR
"""Longest range that a page compares, ns."""


def add_diff(router: APIRouter, ledgers: Ledgers, permission: Any, page: Shown, headers: dict[str, str]) -> None:
    """Adds the route of comparisons.

    Args:
        router: gets the route.
        ledgers: access to the lake.
        permission: FastAPI dependency that returns the query sets that the user may see.
        page: makes the response of a page.
        headers: headers of files; unused.
    """

    @router.api_route("/results/{set_name}/{query}/diff", methods=METHODS)
    def diff(set_name: str, query: str, request: Request, sees: Any = permission) -> Response:
        given = dict(request.query_params)
        return answer_of(ledgers, sees, (set_name, query), page, lambda chosen: page(_page(chosen, given), 200))


def _page(chosen: Chosen, given: dict[str, str]) -> str:
    lake, query = chosen.snapshot.lake, chosen.query
    versions = sorted(_version(given.get(name, ""), name) for name in ("before", "after"))
    before, after = (result_table(lake, query.name, version) for version in versions)
    start, end = instant_of(given.get("from", ""), "from"), instant_of(given.get("to", ""), "to")
    if not start < end <= start + LONGEST:
        raise LakeError("the range is empty, or longer than 48 h", "`lowwater diff` compares any range")
    values = {
        "name": chosen.job.query_set,
        "query": query.name,
        "before": before,
        "after": after,
        "start": start,
        "end": end,
        "diff": compare(before, after, unique_key(query.logical) or (), start, end),
    }
    return fill_template(chosen.snapshot, "diff.html", "Results", "../../../", values, True)


def _version(text: str, name: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise LakeError(f"{name}={text!r:.40} is no version", "give a number")
    return int(text)
