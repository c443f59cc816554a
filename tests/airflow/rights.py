"""What Airflow's own application answers to its roles, to forged logins and to hostile requests; `test_views` runs it
in the process that has this application, and judges it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

from tests.breadth import some
from tests.browser import running
from tests.review.asgi import ask
from tests.review.hostile_requests import REQUESTS, UNFINISHED, bytes_of, statuses, talk

Login = Callable[..., dict[str, str]]
"""(name, role) -> headers of a user who is logged in."""
ROLES = (None, "VIEWER", "USER", "OP", "ADMIN")
SPAN = "start=2025-01-01T00:00:00Z&end=2025-01-01T01:00:00Z"
FILLED = {"set_name": "q", "query": "flows", "form": "csv", "kind": "skew", "name": "main1"}
FILLED |= {"name:path": "index.html", "address:path": "set/q.html"}
SKEW = "/lowwater/act/skew/main1"
INDEX = "/lowwater/index.html"
KEY = "s" * 64
"""The key with which Airflow of the test signs logins."""


def everything(app: Any, login: Login, seal: str) -> dict[str, Any]:
    """All answers; `seal` is that of a form of another user."""
    return {
        "roles": {str(role): _seen(app, login("somebody", role)) for role in ROLES},
        "acted": {f"{role}": _acted(app, login("somebody", role), seal) for role in ROLES},
        "tokens": _tokens(app, login("somebody", "ADMIN")["Authorization"].partition(" ")[2]),
        "failed": _failed(app, login("somebody", "ADMIN")["Authorization"]),
    }


def addresses(app: Any) -> list[tuple[str, str]]:
    """Method and address of every route that the plugin mounts."""
    (ours,) = [route.app for route in app.routes if getattr(route, "path", "") == "/lowwater"]
    found = []
    for route in ours.routes:
        path = route.path
        for name, value in FILLED.items():
            path = path.replace(f"{{{name}}}", value)
        found += [(method, f"/lowwater{path}") for method in sorted(route.methods)]
    return found + [("GET", f"/lowwater/act/{kind}/q") for kind in ("run", "approve", "backfill")]


def _seen(app: Any, headers: dict[str, str]) -> dict[str, str]:
    """What becomes of each address: shown, allowed or refused."""
    seen = {}
    for method, path in addresses(app):
        got = ask(app, path, method, query=f"dag_id=replay_q&run_id=x&bound=9s&{SPAN}", headers=headers)
        about = "refused" if got.status == 403 or "You may not" in got.text else "shown"
        if "/act/" in path and method == "GET" and about == "shown":
            about = "allowed"
        seen[f"{method} {path}"] = about if got.status < 500 else str(got.status)
    return seen


def _acted(app: Any, headers: dict[str, str], seal: str) -> list[int]:
    """Forms with the seal of another act, of another user, and with none."""
    page = ask(app, SKEW, query="bound=8s", headers=headers).text
    own = page.partition('name="seal" value="')[2].partition('"')[0]
    forms = (f"bound=9s&seal={own}", f"bound=8s&seal={seal}", "bound=8s&seal=", "bound=8s", f"bound=8s&seal={own}%00")
    return [ask(app, SKEW, "POST", headers=headers, body=form.encode()).status for form in forms]


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _tokens(app: Any, good: str) -> dict[str, list[int]]:
    """Statuses of forged logins, in a header and in cookies."""
    import jwt

    head, body, sign = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    algorithm = json.loads(base64.urlsafe_b64decode(head + "=="))["alg"]

    def signed(changed: dict[str, Any], key: str = KEY, **headers: str) -> str:
        return jwt.encode({**claims, **changed}, key, algorithm=algorithm, headers=headers or None)

    forged = {
        "none": f"{_encoded({'alg': 'none', 'typ': 'JWT'})}.{body}.",
        "None": f"{_encoded({'alg': 'None', 'typ': 'JWT'})}.{body}.",
        "no signature": f"{head}.{body}.",
        "another signature": f"{head}.{body}.{sign[:-8]}AAAAAAAA",
        "another key": signed({}, "t" * 64),
        "a key id": signed({}, "t" * 64, kid="../../dev/null"),
        "expired": signed({"exp": int(time.time()) - 9999}),
        "not yet": signed({"nbf": int(time.time()) + 9999}),
        "another audience": signed({"aud": "elsewhere"}),
        "other claims": f"{head}.{_encoded({**claims, 'sub': 'boss'})}.{sign}",
        "empty": "",
        "dots": "..",
        "long": "a" * 5000,
        "no base64": "\x80\xff.\x80.\x80",
    }
    told = {}
    for name, text in forged.items():
        ways = (
            {"Authorization": f"Bearer {text}"},
            {"Cookie": f"_token={text}"},
            {"Cookie": f"_token=x; _token={text}"},
        )
        told[name] = sorted({ask(app, INDEX, headers=each).status for each in ways})
    ways = (
        {"Authorization": f"Bearer {good}"},
        {"Authorization": f"Bearer {signed({})}"},
        {"Cookie": f"_token={good}"},
    )
    told["good"] = [ask(app, INDEX, headers=each).status for each in ways]
    return told


def _failed(app: Any, bearer: str) -> list[list[Any]]:
    """The hostile requests over the wire, with a login and without one; what went wrong."""
    import uvicorn

    failed = []
    paths = addresses(app)
    with running(uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))) as port:
        # Airflow's server has no end for requests that stay unfinished, and reports those whose chunks are none.
        for at, name in some(enumerate(name for name in REQUESTS if name not in UNFINISHED), 8):
            for more in (f"Authorization: {bearer}\r\n", ""):
                path = paths[at % len(paths)][1]
                for status, text in statuses(talk(port, bytes_of(name, path, "127.0.0.1", more), 6)):
                    ours = "Lowwater" in text  # elsewhere it answers with the page of its own programs, to anybody
                    if status >= 500 or "Traceback" in text or (ours and (not more or "<script>" in text)):
                        failed.append([name, path, status, text[:200]])
    return failed
