"""An S3 server in a process of its own, and a proxy before it that breaks requests as networks and stores do."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "lakes"
CONTROL = "/__proxy__"
DELAYS = {"late": 0.05, "far": 1.0}
HANG = 6.0
PACKAGES = Path(sys.prefix) / "s3"
"""Packages of the server, as `make` installs them from `requirements.txt` beside this file."""


@contextmanager
def s3_server(log: Path) -> Iterator[int]:
    """Runs the server; yields its port."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]  # any free one, which it tells
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process:
        try:
            deadline = time.monotonic() + 300
            while (told := re.search(r"http://127\.0\.0\.1:(\d+)\s", log.read_text())) is None:
                assert time.monotonic() < deadline and process.poll() is None, log.read_text()
                time.sleep(0.05)
            make = urllib.request.Request(f"http://127.0.0.1:{told[1]}/{BUCKET}", method="PUT")
            urllib.request.urlopen(make, timeout=60).close()
            yield int(told[1])
        finally:
            process.kill()


DISK = PACKAGES / "bin" / "rclone"
"""A server that keeps objects in a folder, so that it may be killed. What it lacks, conditions of writes and the status
of ranges, the proxy does."""


def disk_server(port: int, folder: Path) -> list[str]:
    """The command of a server that keeps its buckets in a folder."""
    # An upload that the death of the server cut is a file of this name, and no object.
    line = [str(DISK), "serve", "s3", "--config", os.devnull, "--exclude", "*.partial"]
    return [*line, "--addr", f"127.0.0.1:{port}", str(folder)]


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""
CONDITIONS = ("if-none-match", "if-match")
ANSWERS = {"500": (500, "InternalError"), "503": (503, "SlowDown"), "403": (403, "AccessDenied")}
ANSWERS |= {"keys": (403, "InvalidAccessKeyId"), "skewed": (403, "RequestTimeTooSkewed")}
ANSWERS |= {"429": (429, "TooManyRequests"), "409": (409, "ConditionalRequestConflict")}
ANSWERS |= {"412": (412, "PreconditionFailed")}
"""Answers without work: fault -> status and code."""


@dataclass(frozen=True)
class Rule:
    """What happens to some requests."""

    fault: str
    method: str = ".*"
    path: str = ".*"
    times: int = 1 << 30
    share: float = 1.0
    after: int = 0


ANY = (
    Rule("stale", "GET", "list-type", share=0.2),
    Rule("409", "PUT", r"_delta_log/\d+\.json|_locks", share=0.05),
    Rule("412", "PUT", r"_delta_log/\d+\.json|_locks", share=0.05),
    Rule("cut", "GET", share=0.05),
    Rule("slow", "GET", share=0.03),
    *(Rule(fault, "PUT|DELETE", share=0.04) for fault in ("lost", "twice", "late")),
    *(Rule(fault, share=0.03) for fault in ("500", "503", "429", "refused", "reset")),
)
"""Faults of every kind, as a bad hour of a store and of the network has them."""


def kinds_of(method: str, path: str) -> str:
    """Names the kind of a request: what it does, and to which kind of object of a lake."""
    name, _, query = path.partition("?")
    if method == "GET" and "list-type" in query:
        return "list"
    for kind, pattern in _KINDS:
        if re.search(pattern, name):
            return f"{method} {kind}"
    return f"{method} other"


_KINDS = (
    ("lock", r"/_locks/|joining\.lock"),
    ("last checkpoint", r"/_delta_log/_last_checkpoint"),
    ("checkpoint", r"/_delta_log/.*checkpoint.*\.parquet"),
    ("commit", r"/_delta_log/\d+\.json"),
    ("log", r"/_delta_log/"),
    ("data file", r"\.parquet$"),
    ("pins", r"/pins/"),
    ("state", r"/state/"),
    ("page", r"/reports/"),
    ("settings", r"lowwater\.toml$"),
)
"""Kind of an object -> what its key is like."""


@dataclass(frozen=True)
class Proxy:
    """A proxy before a server, in a process of its own: Delta holds Python's lock while it waits for some answers."""

    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def breaks(self, *rules: Rule) -> None:
        """Sets the rules; the first one that fits a request counts."""
        data = json.dumps([asdict(rule) for rule in rules]).encode()
        urllib.request.urlopen(urllib.request.Request(self.url + CONTROL, data), timeout=60).close()

    def seen(self) -> list[tuple[str, str, str]]:
        """Method, path and fault of each request since it was asked last."""
        with urllib.request.urlopen(self.url + CONTROL, timeout=60) as answer:
            return [(method, path, fault) for method, path, fault in json.load(answer)]


@contextmanager
def proxied(server: int | str, seed: int = 7) -> Iterator[Proxy]:
    """Runs a proxy before a server."""
    command = [sys.executable, "-m", "tests.storage.servers", str(server), "0", f"seed={seed}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield Proxy(int(process.stdout.readline()))
        finally:
            process.kill()


def serve(server: str, port: int = 0, conditions: bool = False, seed: int = 7, far: str = "") -> None:
    """Serves as proxy before a server, and prints its own port. `far`: pattern of paths to which writes take long."""
    alone, draw = threading.Lock(), random.Random(seed)
    host, _, behind = server.rpartition(":")
    first = Rule("far", "PUT", far)
    rules: list[tuple[Rule, list[int]]] = [(first, [first.times, first.after])] if far else []
    seen: list[tuple[str, str, str]] = []
    listed: dict[str, Answer] = {}

    def fault_of(method: str, path: str) -> str:
        fault = ""
        for rule, left in rules:
            if not left[0] or not re.search(rule.method, method) or not re.search(rule.path, path):
                continue
            if left[1]:
                left[1] -= 1
            elif draw.random() < rule.share:
                left[0] -= 1
                fault = rule.fault
                break
        seen.append((method, path, fault))
        return fault

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else a small answer waits for the client to confirm its headers, which takes it 40 ms.
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def setup(self) -> None:
            super().setup()
            self.target = http.client.HTTPConnection(host or "127.0.0.1", int(behind), timeout=60)

        def finish(self) -> None:
            self.target.close()
            super().finish()

        def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
            """Asks the server, over one connection for each of the client."""
            try:
                self.target.request(method, path, body, headers)
                reply = self.target.getresponse()
                return reply.status, dict(reply.getheaders()), reply.read()
            except BaseException:
                self.target.close()
                raise

        def log_message(self, *args: Any) -> None:
            pass

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == CONTROL:
                self.control(body)
                return
            fault = fault_of(self.command, self.path)
            if fault in ANSWERS:
                status, code = ANSWERS[fault]
                key = self.headers.get("Authorization", "")
                text = f"<?xml version='1.0'?><Error><Code>{code}</Code><AWSAccessKeyId>{key}</AWSAccessKeyId></Error>"
                self.answer(status, {}, text.encode())
                return
            if fault in ("refused", "reset"):
                self.close_connection = True
                if fault == "reset":
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                return
            if fault == "stale" and self.path in listed:
                self.answer(*listed[self.path])
                return
            if fault in DELAYS:
                time.sleep(DELAYS[fault])
            # The server looks at a condition and writes in two steps; a real store does both at once.
            sent = dict(self.headers)
            with alone if self.command in ("PUT", "POST", "DELETE") else nullcontext():
                if conditions and self.command == "PUT":
                    if not self.holds():
                        self.answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
                        return
                    sent = {name: value for name, value in sent.items() if name.lower() not in CONDITIONS}
                status, headers, content = self.ask(self.command, self.path, body, sent)
                if fault == "twice":
                    status, headers, content = self.ask(self.command, self.path, body, sent)
                if "list-type" in self.path and status == 200:
                    listed.setdefault(self.path, (status, headers, content))
                if conditions and status == 200 and "Content-Range" in headers:
                    status = 206  # as S3 answers; clients take nothing else for a range
            if fault == "lost":
                self.close_connection = True
            elif fault == "hang":
                time.sleep(HANG)
                self.close_connection = True
            else:
                self.answer(status, headers, content, fault)

        def holds(self) -> bool:
            """Whether the object is as a write wants it: absent, or of a version."""
            absent, tag = (self.headers.get(name) for name in CONDITIONS)
            if not absent and not tag:
                return True
            status, headers, _ = self.ask("HEAD", self.path, b"", {"Host": self.headers["Host"]})
            tags = [value for name, value in headers.items() if name.lower() == "etag"]
            return tags == [tag] if tag else status == 404

        def control(self, body: bytes) -> None:
            if self.command == "POST":
                rules[:] = [(Rule(**rule), [rule["times"], rule["after"]]) for rule in json.loads(body)]
                listed.clear()
                self.answer(200, {}, b"")
            else:
                content = json.dumps(seen).encode()
                seen.clear()
                self.answer(200, {}, content)

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
                    self.wfile.flush()
                    time.sleep(0.05)
            else:
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as listener:
        listener.daemon_threads = True
        listener.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that hangs up is no error
        print(listener.server_address[1], flush=True)
        listener.serve_forever()


if __name__ == "__main__":
    named = dict(text.split("=", 1) for text in sys.argv[3:] if "=" in text)
    serve(sys.argv[1], int(sys.argv[2]), "conditions" in sys.argv, int(named.get("seed", 7)), named.get("far", ""))
