"""A small web server for one page of numbers: few connections, each with an end, whatever is sent.

`collector` gives it the page. Prometheus' own server has a thread for everybody who connects, for as long as they like.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from lowwater.hosts import is_known
from lowwater.terminal import say

PATIENCE = 10.0
"""Seconds for which a request, and then its answer, may be under way."""
MOST = 16
"""Most connections. A further one ends the one whose request has been under way longest."""
PLAIN = [("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")]

App = Callable[[Mapping[str, Any], Callable[..., Any]], Any]


class _Answer(ServerHandler):
    def log_exception(self, exc_info: Any) -> None:
        if not isinstance(exc_info[1], OSError):  # else the client is gone
            say(f"error: {type(exc_info[1]).__name__}: {exc_info[1]}", err=True)


class _Request(WSGIRequestHandler):
    server: Endpoint

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(PATIENCE)

    def handle(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if len(self.raw_requestline) > 65536:
            self.requestline, self.command = "", ""
            self.send_error(414)
        elif not self.parse_request():
            return
        elif self.request_version == "HTTP/0.9":
            self.send_error(505)
        else:
            self.server.heard(self.connection)
            reader: Any = self.rfile
            writer: Any = self.wfile
            app: Any = self.server.get_app()
            answer: Any = _Answer(reader, writer, self.get_stderr(), self.get_environ(), multithread=True)
            answer.request_handler = self
            answer.run(app)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuses a request, and says nothing of what it holds."""
        self.request_version = "HTTP/1.0"  # the one before has no headers
        self.send_response(code)
        for header in PLAIN:
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(b"Only GET is of use here.\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a line for each request is of no use to anybody."""


class Endpoint(ThreadingMixIn, WSGIServer):
    """The server.

    Args:
        host: name or address to listen at.
        port: port; 0 for a free one.
        app: gives the page.
        names: permitted names in the header `Host`; None for every name.

    Raises:
        OSError: the address cannot be had.
    """

    daemon_threads, request_queue_size = True, 128

    def __init__(self, host: str, port: int, app: App, names: frozenset[str] | None) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, _, _, _, address = found[0]
        # Connection -> since when its request is under way; None once it is here.
        self._open: dict[socket.socket, float | None] = {}
        self._lock = threading.Lock()
        super().__init__(address[:2], _Request)  # type: ignore[arg-type]
        self.set_app(_guarded(app, names))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Takes a connection, in place of one that makes the server wait if there are many."""
        with self._lock:
            waiting = [(since, line) for line, since in self._open.items() if since is not None]
            full = len(self._open) >= MOST
            if full and waiting:
                _end(min(waiting, key=lambda each: each[0])[1])
            if not full or waiting:
                self._open[request] = time.monotonic()
        if request in self._open:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def heard(self, request: socket.socket) -> None:
        """Notes that a request is here."""
        with self._lock:
            self._open[request] = None

    def service_actions(self) -> None:
        """Ends the connections whose requests do not come; called twice a second."""
        with self._lock:
            now = time.monotonic()
            for line, since in self._open.items():
                if since is not None and now - since > PATIENCE:
                    _end(line)

    def shutdown_request(self, request: Any) -> None:
        """Forgets a connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client that ends early is no news."""


def _end(line: socket.socket) -> None:
    try:
        line.shutdown(socket.SHUT_RDWR)  # its thread sees the end, and closes it
    except OSError:
        return


def _guarded(app: App, names: frozenset[str] | None) -> App:
    """Returns an application that answers to its own names only, and reads the lake for one request at a time."""
    turn = threading.Lock()

    def answer(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Any:
        if not is_known(environ.get("HTTP_HOST", ""), names):
            start_response("421 Misdirected Request", PLAIN)
            return [b"This server has another name.\n"]
        if environ["REQUEST_METHOD"] != "GET":
            start_response("405 Method Not Allowed", [*PLAIN, ("Allow", "GET")])
            return [b"Only GET is of use here.\n"]
        with turn:
            return app(environ, start_response)

    return answer
