"""An S3 server in a process of its own, and a proxy before it that breaks requests as networks and stores do."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BUCKET = "lakes"
Fault = str
"""What happens to a request: 500, 503, 403, keys, lost (done, but not answered), cut (half of the body), slow, hang."""

Judge = Callable[[str, str], Fault | None]
"""Gets method and path of a request; returns what happens to it."""


@contextmanager
def s3_server(log: Path) -> Iterator[int]:
    """Runs the server; yields its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    make = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
                    urllib.request.urlopen(make, timeout=10).close()
                    break
                except OSError:
                    assert time.monotonic() < deadline and process.poll() is None, log.read_text()
                    time.sleep(0.05)
            yield port
        finally:
            process.kill()


@dataclass
class Proxy:
    """A proxy before a server.

    Attributes:
        port: its port.
        judge: decides what happens to a request.
        seen: method, path and fault of each request so far.
    """

    port: int = 0
    judge: Judge = lambda method, path: None
    seen: list[tuple[str, str, Fault | None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


ANSWERS = {"500": (500, "InternalError"), "503": (503, "SlowDown"), "403": (403, "AccessDenied")}
ANSWERS |= {"keys": (403, "InvalidAccessKeyId"), "skewed": (403, "RequestTimeTooSkewed")}


@contextmanager
def proxied(server: int) -> Iterator[Proxy]:
    """Runs a proxy before the server of a port."""
    proxy, alone = Proxy(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = proxy.judge(self.command, self.path)
            proxy.seen.append((self.command, self.path, fault))
            if fault in ANSWERS:
                status, code = ANSWERS[fault]
                key = self.headers.get("Authorization", "")
                text = f"<?xml version='1.0'?><Error><Code>{code}</Code><AWSAccessKeyId>{key}</AWSAccessKeyId></Error>"
                self.answer(status, {}, text.encode())
                return
            if fault == "refused":
                self.close_connection = True
                return
            # The server looks at a condition and writes in two steps; a real store does both at once.
            with alone:
                target = http.client.HTTPConnection("127.0.0.1", server, timeout=60)
                target.request(self.command, self.path, body, dict(self.headers))
                reply = target.getresponse()
                content, headers = reply.read(), dict(reply.getheaders())
                target.close()
            if fault == "lost":
                self.close_connection = True
            elif fault == "hang":
                time.sleep(6)
                self.close_connection = True
            else:
                self.answer(reply.status, headers, content, fault or "")

        def answer(self, status: int, headers: dict[str, str], content: bytes, fault: str = "") -> None:
            self.send_response(status)
            dropped = ("connection", "transfer-encoding", "content-length", "date", "server")
            for name, value in headers.items():
                if name.lower() not in dropped:
                    self.send_header(name, value)
            length = headers.get("Content-Length", len(content)) if self.command == "HEAD" else len(content)
            if status != 204:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            if self.command == "HEAD":
                return
            if fault == "cut":
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
            elif fault == "slow":
                for at in range(0, len(content), max(1, len(content) // 4)):
                    self.wfile.write(content[at : at + max(1, len(content) // 4)])
                    time.sleep(0.05)
            else:
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        proxy.port = listener.server_address[1]
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield proxy
        finally:
            listener.shutdown()
