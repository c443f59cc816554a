"""Asks an ASGI app directly: a path reaches it as it is written, which no HTTP client would let through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True)
class Answer:
    """What the app answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body of a page."""
        return self.body.decode(errors="replace")


Message = dict[str, Any]


def request(
    path: str, headers: dict[str, str], method: str = "GET", query: str = "", body: bytes = b""
) -> tuple[Message, Callable[[], Awaitable[Message]], list[Message], Callable[[Message], Awaitable[None]]]:
    """A request as an app gets it, the list of what it answers, and what it answers by; `path` is percent-encoded."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    sent: list[Message] = []
    told = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        for message in told:
            return message
        return await asyncio.Future()  # the client stays; whoever waits for its end is cancelled

    async def send(message: Message) -> None:
        sent.append(message)

    return scope, receive, sent, send


def ask(
    app: Any, path: str, method: str = "GET", query: str = "", headers: dict[str, str] | None = None, body: bytes = b""
) -> Answer:
    """One request; `path` is percent-encoded."""
    scope, receive, sent, send = request(path, headers or {}, method, query, body)
    asyncio.run(app(scope, receive, send))
    start = next(each for each in sent if each["type"] == "http.response.start")
    body = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, body)
