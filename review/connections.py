"""Connections of `lowwater serve`: whoever makes the server wait is left, so that many of them keep nobody else out.

Below the door of `login`, which sees whole requests only: here a request has not come, or an answer is not taken.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 20.0
"""Seconds for which the server waits for the rest of a request, or for somebody who takes nothing of an answer."""
MOST = 100
"""Connections above which a new one ends the one that has made the server wait longest."""


class Requests(h11.Connection):
    """What a client sends, without bodies in chunks: of chunks of a byte, a megabyte is seconds of the event loop, in
    which nobody else is answered. Browsers send forms as a whole, and say how long they are."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            raise h11.RemoteProtocolError("a body in chunks")
        return event


class Connection(H11Protocol):
    """A connection with an end: uvicorn waits for ever for a request that has begun, and counts such connections."""

    since = 0.0
    """When the server began to wait, seconds of the loop."""
    _end: asyncio.TimerHandle | None = None

    def __init__(self, config: Config, *others: Any, **named: Any) -> None:
        super().__init__(config, *others, **named)
        self.conn = Requests(h11.SERVER, config.h11_max_incomplete_event_size or 0)

    @property
    def waits(self) -> bool:
        """Whether the client has to go on: with its request, or by taking of the answer."""
        asked = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        return not asked or self.flow.write_paused or self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes the place of one that waits, if there are many."""
        others: set[Any] = self.connections
        waiting = [other for other in others if isinstance(other, Connection) and other.waits]
        for other in sorted(waiting, key=lambda each: each.since)[: max(0, len(others) + 1 - MOST)]:
            others.discard(other)
            other.leave()
        super().connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._end is not None:
            self._end.cancel()

    def data_received(self, data: bytes) -> None:
        """Reads on; a request that goes on does not begin anew."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """Waits for a client that takes less than it gets."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._look()

    def leave(self) -> None:
        """Ends the connection, whatever is left to write."""
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no HTTP. An answer that is at work on the part before comes too late."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        return False  # nothing else is spoken here; the request is answered as it is

    def _look(self) -> None:
        if not self.waits:
            if self._end is not None:
                self._end.cancel()
            self._end = None
        elif self._end is None:
            self.since = self.loop.time()
            self._end = self.loop.call_later(PATIENCE, self.leave)
