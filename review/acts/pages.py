"""Routes of the acts: a page that says what an act would do, and the button that does it.

`app` includes them, behind the login of the host. A form carries a seal over the act and its effects, made for its
user. So another site cannot send it, and what is done is what was shown.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Hashable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from lowwater.errors import LowwaterError
from lowwater.lake.results.exploring import instant_of

from ..ledgers import Ledgers, Snapshot, kept_by_snapshot
from ..pages import fill_template
from ..results.answers import Answer, Answers, BusyError, asked_by_person, person, wait_for
from ..results.pages import METHODS, Shown
from .effects import ACTS, BACKFILL, SHOWN, SKEW, Act, CommandHost, Host, after, make_act

LONGEST_FORM = 16384
"""Most bytes of a form."""
FRESH = 60.0
"""Seconds for which it is shown again what an act would do. Whoever confirms an act has it computed anew."""


def only_commands() -> Host:
    """Returns the host of pages without Airflow."""
    return CommandHost()


async def sent_form(request: Request) -> dict[str, str]:
    """Reads the fields of a form; empty if it is too long, is no text or has not come whole."""
    body = b""
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > LONGEST_FORM:
                return {}
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=20))
    except (ClientDisconnect, UnicodeDecodeError, ValueError):
        return {}


def is_ours(request: Request) -> bool:
    """Whether a page of this site sent the request.

    Browsers say where a form comes from, and no page can change that. A program without these headers has no cookies
    of somebody else.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def add_acts(
    router: APIRouter,
    ledgers: Ledgers,
    permission: Any,
    page: Shown,
    headers: dict[str, str],
    host: Callable[..., Host] = only_commands,
) -> None:
    """Adds the routes of the acts.

    Args:
        permission: FastAPI dependency that returns the query sets that the user may see.
        host: FastAPI dependency that returns what does the acts for the user.
    """
    user_host, form = Depends(host), Depends(sent_form)

    def answer(
        kind: str,
        name: str,
        given: dict[str, str],
        sees: Any,
        acting: Host,
        act_on: Callable[[Act], tuple[str, str]],
        who: Hashable,
    ) -> Response:
        try:
            snapshot = ledgers.now().only(sees)
            if kind in (BACKFILL, SKEW) and act_on is _nothing:
                shown = _shown(snapshot, ledgers, kind, name, given, who)
                if not shown.ready:
                    return page(fill_template(snapshot, "act_waits.html", "", "../../", {"name": name}, True), 200)
                act = shown.value
            else:
                act = make_act(ledgers, snapshot, kind, name, given) if kind in ACTS else None
            if act is None:
                return page("There is no such page.", 404)
            refusal = act.refusal or acting.refusal(act)
            done, wrong = act_on(act) if not refusal else ("", "")
            values = {
                "act": act,
                "refusal": refusal,
                "more": () if refusal else acting.effects(act),
                "seal": "" if refusal else acting.seal(act.said),
                "done": done,
                "wrong": wrong,
                "next": after(act) if done else (),
                "shown": SHOWN,
            }
            status = 403 if wrong or (refusal and act_on is not _nothing) else 200
            return page(fill_template(snapshot, "act.html", "", "../../", values, True), status)
        except BusyError as error:
            return page(str(error), 503)
        except LowwaterError as error:
            return page(str(error), 400)

    @router.api_route("/act/{kind}/{name}", methods=METHODS)
    def show(kind: str, name: str, request: Request, sees: Any = permission, acting: Any = user_host) -> Response:
        if not asked_by_person(request):
            return page("Another site asked for this page, so nothing was computed. Open it from the pages.", 403)
        return answer(kind, name, dict(request.query_params), sees, acting, _nothing, person(request))

    @router.api_route("/act/{kind}/{name}", methods=["POST"])
    def do(
        kind: str, name: str, request: Request, given: Any = form, sees: Any = permission, acting: Any = user_host
    ) -> Response:
        def confirmed(act: Act) -> tuple[str, str]:
            if not is_ours(request):
                return "", "Another site sent this form, so nothing was done."
            if not hmac.compare_digest(given.get("seal", "").encode(), acting.seal(act.said).encode()):
                return "", "Something has changed since the page was made. This is what would be done now."
            try:
                return acting.perform(act), ""
            except LowwaterError as error:
                return "", str(error)

        return answer(kind, name, given, sees, acting, confirmed, person(request))


def _shown(snapshot: Snapshot, ledgers: Ledgers, kind: str, name: str, given: dict[str, str], who: Hashable) -> Answer:
    """Computes an act that is only shown, behind the page if need be: that of a skew looks at all that is published."""
    key = kind, name, tuple(sorted(given.items()))
    intervals = _intervals(snapshot, kind, given)
    answer = _answers(snapshot).ask(
        key, intervals, lambda watch: make_act(ledgers, snapshot, kind, name, given), FRESH, who
    )
    wait_for(intervals, answer)
    return answer


def _intervals(snapshot: Snapshot, kind: str, given: dict[str, str]) -> int:
    """The number of intervals that an act looks at, about."""
    if kind == SKEW:
        return len(snapshot.keys)
    start, end = (instant_of(given.get(name, ""), name) for name in ("start", "end"))
    return sum(start <= begin < end for _, begin, _ in snapshot.keys)


@kept_by_snapshot
def _answers(snapshot: Snapshot) -> Answers:
    return Answers()


def _nothing(act: Act) -> tuple[str, str]:
    return "", ""
