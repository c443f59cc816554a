"""The page on which a query is written, checked and explained as one types, and tried on some packets; beside it the
page that answers a statement of SQL.

`app` includes its routes, behind the login of the host. Only the first page has a script, a file of ours; without it
the page does the same by its form. Nothing is written, and no file of the machine and no Python of a user is read or
run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from lowwater.errors import LowwaterError
from lowwater.instants import HOUR, SECOND, format_instant, parse_instant
from lowwater.replay.look import LookRequest, run_look
from lowwater.replay.preview import (
    LONGEST,
    MOST_PACKETS,
    MOST_ROWS,
    Limits,
    Preview,
    PreviewRequest,
    lake_of,
    run_preview,
)

from .checking import Checker
from .ledgers import Ledgers, Snapshot
from .pages import fill_template
from .results.answers import asked_by_person, person
from .results.pages import METHODS, Shown

LENGTHS = {"1 minute": 60 * SECOND, "5 minutes": 300 * SECOND, "15 minutes": 900 * SECOND, "1 hour": HOUR}
NEWEST = 30
"""Captures among which the hour to try is looked for."""
EXAMPLE = (
    "SELECT tb*60 AS begin, srcIP, count(*) AS packets, sum(len) AS bytes\nFROM {}.TCP\nGROUP BY time/60 AS tb, srcIP\n"
)
STATEMENT = (
    "SELECT time_bucket(INTERVAL '10 minutes', timestamp) AS begin, srcIP, sum(len) AS bytes\nFROM {}.TCP\n"
    "GROUP BY begin, srcIP\nORDER BY bytes DESC\n"
)
SCRIPTED = "script-src 'self'; connect-src 'self'; form-action 'self'"


@dataclass(frozen=True)
class Written:
    """What somebody wrote, and what is known of it."""

    text: str  # the query text
    query_set: str  # the query set whose protocols, functions and parameters it uses; empty for none
    start: str  # first instant of the range to try, ISO 8601, as written
    length: str  # name of the length of the range, of LENGTHS
    known: Mapping[str, Any]  # what `Checker.check` says

    @property
    def error(self) -> str:
        """Why nothing was checked; empty if it was."""
        return str(self.known["error"])

    @property
    def problems(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.known["problems"]
        return found


def add_write(router: APIRouter, ledgers: Ledgers, permission: Any, page: Shown, headers: dict[str, str]) -> None:
    """Adds the routes of the page. `permission`: FastAPI dependency that returns the query sets that a user may see."""
    policy = headers["Content-Security-Policy"].replace("form-action 'none'", SCRIPTED)
    own = headers | {"Content-Security-Policy": policy}
    asking = headers["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'")
    plain = headers | {"Content-Security-Policy": asking}
    alone, checker = threading.BoundedSemaphore(1), Checker()

    @router.api_route("/write/index.html", methods=METHODS)
    def write(request: Request, sees: Any = permission) -> Response:
        try:
            snapshot = ledgers.now().only(sees)
        except LowwaterError as error:
            return page(str(error), 503)
        asked = checker if asked_by_person(request) else None
        written = _written(snapshot, request.query_params, asked, person(request))
        values: dict[str, Any] = {"preview": None, "refused": ""}
        if request.query_params.get("action") == "try" and not written.error and request.method == "GET":
            values |= _tried(snapshot, written, request, alone)
        return HTMLResponse(_page(snapshot, written, values), 200, own)

    @router.api_route("/write/sql.html", methods=METHODS)
    def sql(request: Request, sees: Any = permission) -> Response:
        try:
            snapshot = ledgers.now().only(sees)
        except LowwaterError as error:
            return page(str(error), 503)
        given = request.query_params
        start, length, text = *_range(snapshot, given), _clean(given.get("text", ""))
        values: dict[str, Any] = {"text": text or _statement(snapshot), "start": start, "length": length}
        values |= {"look": None, "refused": ""}
        if text and not asked_by_person(request):
            values["refused"] = "Another site sent this text. Press the button to run it."
        elif text and request.method == "GET":
            values |= _looked(snapshot, text, start, length, alone)
        filled = {**values, "lengths": LENGTHS, "longest": LONGEST, "limits": Limits(), "most_rows": MOST_ROWS}
        return HTMLResponse(fill_template(snapshot, "write_sql.html", "Write", "../", filled, True), 200, plain)

    @router.api_route("/write/check", methods=METHODS)
    def check(request: Request, sees: Any = permission) -> Response:
        try:
            snapshot = ledgers.now().only(sees)
        except LowwaterError as error:
            return JSONResponse({"error": str(error)}, 503, headers)
        asked = asked_by_person(request)
        written = _written(snapshot, request.query_params, checker if asked else None, person(request))
        return JSONResponse(dict(written.known), 200 if asked else 403, headers)


def _written(snapshot: Snapshot, given: Mapping[str, str], checker: Checker | None, who: Hashable) -> Written:
    """Reads what was sent, and checks it; without a checker it is only read."""
    links = sorted(snapshot.captures)
    text = _clean(given.get("text", EXAMPLE.format(links[0] if links else "main1")))
    query_set, (start, length), error = given.get("set", ""), _range(snapshot, given), ""
    if len(text) > LONGEST:
        error = f"The text has {len(text):,} characters, and {LONGEST:,} are the most here: use `lowwater check`."
        text = text[:LONGEST]
    elif query_set and query_set not in snapshot.jobs:
        query_set, error = "", "There is no such query set."
    elif checker is None:
        error = "Another site sent this text. Press the button to check it."
    if error or checker is None:
        known: Mapping[str, Any] = {"error": error, "problems": (), "explained": "", "queries": ()}
    else:
        known = checker.check(snapshot.lake.root, text, query_set, links, who)
    return Written(text, query_set, start, length, known)


def _clean(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _range(snapshot: Snapshot, given: Mapping[str, str]) -> tuple[str, str]:
    """The range that is asked for: its first instant as written, and the name of its length."""
    length = given.get("length", "")
    start = given.get("from", "") or format_instant(_newest_hour(snapshot))
    return start, length if length in LENGTHS else "1 hour"


def _statement(snapshot: Snapshot) -> str:
    links = sorted(snapshot.captures)
    return STATEMENT.format(links[0] if links else "main1")


def _looked(
    snapshot: Snapshot, text: str, begin: str, length: str, alone: threading.BoundedSemaphore
) -> dict[str, Any]:
    """The rows of a statement over what the user may see, or why there are none."""
    if len(text) > LONGEST:
        return {
            "refused": f"The text has {len(text):,} characters, and {LONGEST:,} are the most here: use `lowwater sql`."
        }
    try:
        start = parse_instant(begin)
    except ValueError as error:
        return {"refused": str(error)}
    tables = tuple(sorted(query.name for job in snapshot.jobs.values() for query in job.plan.queries))
    links = tuple(sorted(snapshot.captures))
    asked = LookRequest(lake_of(snapshot.lake.root), text, links, tables, start, start + LENGTHS[length])
    return _alone(alone, lambda: {"look": run_look(asked)})


def _alone(alone: threading.BoundedSemaphore, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Does what takes a machine's time, one at a time; says why it is not done."""
    if not alone.acquire(blocking=False):
        return {"refused": "Another query is being tried. Try again in some seconds."}
    try:
        return work()
    except LowwaterError as error:
        return {"refused": str(error)}
    finally:
        alone.release()


def _newest_hour(snapshot: Snapshot) -> int:
    """The hour in which the largest of the newest captures begins, ns; 0 without captures."""
    found = [rows[at] for rows in snapshot.captures.values() for at in rows.newest(NEWEST)]
    captures = sorted(found, key=lambda row: row.covers_from)
    newest = max(captures[-NEWEST:], key=lambda row: row.packets, default=None)
    return 0 if newest is None or newest.first is None else newest.first // HOUR * HOUR


def _tried(snapshot: Snapshot, written: Written, request: Request, alone: threading.BoundedSemaphore) -> dict[str, Any]:
    """The result of a preview, or why there is none."""
    if any(problem["kind"] == "error" for problem in written.problems):
        return {"refused": "The text has mistakes; they are listed above."}
    try:
        start = parse_instant(written.start)
    except ValueError as error:
        return {"refused": str(error)}
    end = start + LENGTHS[written.length]
    links = tuple(sorted(snapshot.captures))
    asked = PreviewRequest(lake_of(snapshot.lake.root), written.text, written.query_set, links, start, end)
    return _alone(alone, lambda: {"preview": run_preview(asked)})


def _page(snapshot: Snapshot, written: Written, values: Mapping[str, Any]) -> str:
    preview: Preview | None = values["preview"]
    filled = {
        **values,
        "written": written,
        "problems": written.problems,
        "sets": sorted(snapshot.jobs),
        "lengths": LENGTHS,
        "longest": LONGEST,
        "limits": Limits(),
        "most_packets": MOST_PACKETS,
        "most_rows": MOST_ROWS,
        "tried": preview.queries if preview is not None else (),
    }
    return fill_template(snapshot, "write.html", "Write", "../", filled, True)
