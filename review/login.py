"""The door before the pages without Airflow: a token for every request, and known names of the host only.

It is around the whole app, so no route can be without it. `serving` sets it up.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "lowwater_login"
LOGIN = "/login"
LONGEST_BODY = 4096
PAUSE = 0.5
"""Seconds before the answer to a wrong token."""

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


class Door:
    """An ASGI app that lets requests pass to another app.

    Args:
        app: the app behind the door.
        token: what a request must bring, as a bearer token or by the cookie of the login; None where none is needed.
        hosts: permitted names in the header `Host`, without port, so that no other site reaches the pages through a
            name of its own that resolves to this machine; None for every name.
        pause: seconds before the answer to a wrong token.
    """

    def __init__(self, app: App, token: str | None, hosts: frozenset[str] | None, pause: float = PAUSE) -> None:
        self._app, self._token, self._hosts, self._pause = app, token, hosts, pause
        self._ticket = "" if token is None else hmac.new(token.encode(), b"login", sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            return  # no web sockets
        elif not self._knows_host(scope):
            await _answer(send, 421, "This address is not one of this server.")
        elif self._token is None or self._logged_in(scope):
            await self._app(scope, receive, send)
        elif scope["path"] == LOGIN and scope["method"] == "POST":
            await self._log_in(receive, send)
        else:
            status = 200 if scope["path"] == LOGIN else 401
            await _answer(send, status, FORM.format("The token was printed when the server started."))

    def _knows_host(self, scope: Scope) -> bool:
        if self._hosts is None:
            return True
        host = _header(scope, b"host")
        name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
        return name.lower() in self._hosts

    def _logged_in(self, scope: Scope) -> bool:
        kind, _, value = _header(scope, b"authorization").partition(" ")
        if kind.lower() == "bearer" and self._is(value.strip(), self._token or ""):
            return True
        try:
            morsel = SimpleCookie(_header(scope, b"cookie")).get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and self._is(morsel.value, self._ticket)

    @staticmethod
    def _is(given: str, right: str) -> bool:
        return hmac.compare_digest(given.encode(), right.encode())

    async def _log_in(self, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more and len(body) <= LONGEST_BODY:
            message = await receive()
            body += message.get("body", b"")
            more = message["type"] == "http.request" and message.get("more_body", False)
        given = parse_qs(body[:LONGEST_BODY].decode("latin-1")).get("token", [""])[0].strip()
        if self._is(given, self._token or ""):
            cookie = f"{COOKIE}={self._ticket}; Path=/; HttpOnly; SameSite=Strict"
            await _answer(send, 303, "", {"location": "/index.html", "set-cookie": cookie})
            return
        await asyncio.sleep(self._pause)
        await _answer(send, 401, FORM.format("This is not the token."))


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name), "")


async def _answer(send: Send, status: int, text: str, more: dict[str, str] | None = None) -> None:
    headers = [(name.encode(), value.encode()) for name, value in (HEADERS | (more or {})).items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
