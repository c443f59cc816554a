"""The door before the pages without Airflow: bounded headers, known names of the host, a login for every request.

It is around the whole app, so no route can be without it, and it looks at a request before anything else does.
`serving` sets it up.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from lowwater.hosts import is_known

from .results.answers import PERSON

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "lowwater_login"
LOGIN, LOGOUT = "/login", "/logout"
LONGEST_HEADER, LONGEST_HEADERS = 8 << 10, 64 << 10
"""Most bytes of a header of a request, and of all of them, the path included."""
LONGEST_BODY = 4096
PAUSE = 0.5
"""Seconds that a guess of the token takes. Guesses take turns, whoever makes them."""
GUESSING = 32
"""Most guesses that wait for their turn; a further one is refused at once."""
IDLE, LASTS = 12 * 3600.0, 7 * 24 * 3600.0
"""Seconds after which a session ends: without a request, and in any case."""
COOKIES = 8
"""Most cookies of our name that are looked at."""
SESSIONS = 1000
"""Most sessions; a further login ends the one that was idle longest."""

WELCOME = "The token was printed when the server started, or is in its token file."
FORM = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Login · Lowwater</title><main><h1>Lowwater</h1><p>{}</p><form method="post" action="/login">
<label>Token <input name="token" type="password" autocomplete="current-password" autofocus></label>
<button>Log in</button></form></main></html>"""
HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Sessions:
    """The sessions of those who are logged in: in memory, so that a restart of the server ends them.

    Args:
        clock: gives the seconds by which sessions end.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Name -> when it began and was used; the one that was idle longest comes first.
        self._kept: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def begin(self) -> str:
        """Begins a session, and returns its name, which nobody can guess."""
        name = secrets.token_urlsafe(32)
        self._kept[name] = self._clock(), self._clock()
        while len(self._kept) > SESSIONS:
            self._kept.popitem(last=False)
        return name

    def goes_on(self, name: str) -> bool:
        """Whether there is such a session; it has been used then."""
        now = self._clock()
        began, used = self._kept.pop(name, (now - LASTS, now - IDLE))
        if now - began >= LASTS or now - used >= IDLE:
            return False
        self._kept[name] = began, now
        return True

    def end(self, name: str) -> None:
        self._kept.pop(name, None)


class Door:
    """An ASGI app that lets requests pass to another app.

    Args:
        token: what a request must bring, as a bearer token or by the session of a login; None where none is needed.
        hosts: permitted names in the header `Host`, without port, so that no other site reaches the pages through a
            name of its own that resolves to this machine; None for every name.
        pause: seconds that a guess of the token takes.
        sessions: the sessions; None for new ones.
    """

    def __init__(
        self,
        app: App,
        token: str | None,
        hosts: frozenset[str] | None,
        pause: float = PAUSE,
        sessions: Sessions | None = None,
    ) -> None:
        self._app, self._token, self._hosts, self._pause = app, token, hosts, pause
        self._sessions = sessions or Sessions()
        self._turn, self._guessing = asyncio.Lock(), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            return  # no web sockets
        elif _too_long(scope):
            await _answer(send, 431, "The headers of this request are too long.")
        elif {b"content-length", b"transfer-encoding"} <= {name.lower() for name, _ in scope["headers"]}:
            # A proxy before this server may see the end of such a request elsewhere.
            await _answer(send, 400, "This request has two lengths.", {"connection": "close"})
        elif not is_known(_header(scope, b"host"), self._hosts):
            await _answer(send, 421, "This address is not one of this server.")
        elif self._token is None:
            await self._app(scope, receive, send)
        elif scope["path"] == LOGIN:
            await self._log_in(scope, receive, send)
        elif name := next(filter(self._sessions.goes_on, _cookies(scope)), ""):
            await self._pass(scope, receive, send, name)
        elif _header(scope, b"authorization"):
            kind, _, value = _header(scope, b"authorization").partition(" ")
            status = await self._guess(value.strip() if kind.lower() == "bearer" else "")
            scope[PERSON] = "the token"
            await (self._app(scope, receive, send) if status == 200 else _answer(send, status, FORM.format(WELCOME)))
        else:
            await _answer(send, 401, FORM.format(WELCOME))

    async def _pass(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        if scope["path"] == LOGOUT and scope["method"] == "POST":
            self._sessions.end(name)
            await _answer(send, 303, "", {"location": LOGIN, "set-cookie": _set_cookie(scope, "", 0)})
        else:
            scope[PERSON] = name
            await self._app(scope, receive, send)

    async def _guess(self, given: str) -> int:
        """Compares a token, one after another: 200 if it is right, 401 if not, 429 if too many wait for their turn."""
        if self._guessing >= GUESSING:
            return 429
        self._guessing += 1
        try:
            async with self._turn:
                if hmac.compare_digest(given.encode(), (self._token or "").encode()):
                    return 200
                await asyncio.sleep(self._pause)
                return 401
        finally:
            self._guessing -= 1

    async def _log_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes the token of the form, or of the address that was printed at the start."""
        fields = scope["query_string"]
        if scope["method"] not in ("GET", "HEAD", "POST"):
            await _answer(send, 405, FORM.format(WELCOME), {"allow": "GET, HEAD, POST"})
            return
        if scope["method"] == "POST":
            fields, more = b"", True
            while more and len(fields) <= LONGEST_BODY:
                message = await receive()
                fields += message.get("body", b"")
                more = message["type"] == "http.request" and message.get("more_body", False)
        given = parse_qs(fields[:LONGEST_BODY].decode("latin-1")).get("token", [""])[0].strip()
        if not given:
            await _answer(send, 401 if scope["method"] == "POST" else 200, FORM.format(WELCOME))
            return
        status = await self._guess(given)
        if status == 200:
            for name in _cookies(scope):  # a session of before may be in other hands
                self._sessions.end(name)
            cookie = _set_cookie(scope, self._sessions.begin(), int(LASTS))
            await _answer(send, 303, "", {"location": "/index.html", "set-cookie": cookie})
            return
        await _answer(send, status, FORM.format("This is not the token." if status == 401 else "Too many guesses."))


def _too_long(scope: Scope) -> bool:
    sizes = [len(name) + len(value) for name, value in scope["headers"]]
    line = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    return max(sizes, default=0) > LONGEST_HEADER or sum(sizes) + line > LONGEST_HEADERS


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name), "")


def _cookies(scope: Scope) -> list[str]:
    """The values of our cookie; several where another server of this machine has set one of the same name, since
    cookies know no ports. `http.cookies` takes quadratic time for some headers."""
    parts = (part.strip().partition("=") for part in _header(scope, b"cookie").split(";"))
    return [value for name, _, value in parts if name == COOKIE and value][:COOKIES]


def _set_cookie(scope: Scope, value: str, seconds: int) -> str:
    """A cookie that goes over TLS only, where the browser came by it."""
    forwarded = _header(scope, b"x-forwarded-proto").rpartition(",")[2].strip().lower()
    secure = "; Secure" if "https" in (scope.get("scheme"), forwarded) else ""
    return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"


async def _answer(send: Send, status: int, text: str, more: dict[str, str] | None = None) -> None:
    headers = [(name.encode(), value.encode()) for name, value in (HEADERS | (more or {})).items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
