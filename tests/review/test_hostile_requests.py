"""The real server under requests of every shape: a designed answer, a bounded wait, and the next one is answered."""

from __future__ import annotations

import http.client
import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest
from lowwater_review import Ledgers, connections
from lowwater_review.app import create
from lowwater_review.login import FORM, Door
from lowwater_review.serving import AT_ONCE, Access, guarded, make_server

from lowwater.hosts import LOOPBACK
from tests.breadth import examples, some
from tests.browser import running
from tests.review.hostile_requests import REQUESTS, SEVERAL, UNFINISHED, bytes_of, statuses, talk
from tests.review.ledgers import make
from tests.review.test_routes import KNOWN

pytestmark = pytest.mark.slow
TOKEN = "a token of some length"
REFUSED = {400, 401, 403, 404, 405, 413, 421, 431}
"""What a request may be answered with besides its page; 303 and 307 lead elsewhere."""
WAIT = 0.5
"""Seconds that the server of these tests waits for the rest of a request."""


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Ledgers:
    return Ledgers(*make(tmp_path_factory.mktemp("hostile"), 2))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", WAIT)


@pytest.fixture
def open_port(ledgers: Ledgers) -> Iterator[int]:
    """A server that asks for no token."""
    with running(make_server(guarded(ledgers, Access(None, LOOPBACK)))) as port:
        yield port


def is_well(port: int, status: int = 200) -> None:
    """The next good request is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", "/index.html")
    assert connection.getresponse().status == status
    connection.close()


def paths(ledgers: Ledgers) -> list[str]:
    """An address of each route."""
    routes = create(ledgers).routes
    filled = (re.sub(r"\{([^}]*)\}", lambda found: KNOWN[found[1]], route.path) for route in routes)
    return [*dict.fromkeys(filled), "/login", "/logout"]


def sample(count: int, of: int) -> Iterator[tuple[int, str]]:
    """Every request, each with `count` of so many paths; in `make fuzz` with all."""
    for at, name in enumerate(REQUESTS):
        yield from ((number % of, name) for number in range(at, at + min(count, of)))


@pytest.mark.hypothesis
def test_every_route_answers_every_request_by_design(
    ledgers: Ledgers, open_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    routes, answered = paths(ledgers), set[int]()
    before = psutil.Process().memory_info().rss
    for at, name in some(sample(examples(1), len(routes)), 2):
        found = talk(open_port, bytes_of(name, routes[at], "127.0.0.1"))
        got = list(statuses(found))
        assert len(got) == 1 or name in SEVERAL or (name in UNFINISHED and not got), (name, got)
        for status, text in got:
            assert status in REFUSED | {200, 206, 303, 304, 307, 416}, (name, routes[at], status, text)
            assert "<script>" not in text.replace('<script src="../assets/write.js"', ""), (name, routes[at])
            answered.add(status)
    assert {200, 400, 404, 405, 421, 431} <= answered
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]
    assert psutil.Process().memory_info().rss - before < 200 << 20
    is_well(open_port)


@pytest.mark.hypothesis
def test_nothing_is_told_without_the_token(ledgers: Ledgers, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the request looks like, who brings no token gets the form of the login or a refusal."""
    routes, told = paths(ledgers), FORM.format("").partition("<main")[0]
    with running(make_server(Door(guarded(ledgers, Access(None, None)), TOKEN, LOOPBACK, pause=0))) as port:
        for at, name in some(sample(examples(1), len(routes)), 4):
            for status, text in statuses(talk(port, bytes_of(name, routes[at], "127.0.0.1"))):
                assert status in REFUSED - {404} or (status == 200 and routes[at] == "/login"), (name, routes[at])
                assert not text or text.startswith(told) or len(text) < 80, (name, routes[at], text)
        is_well(port, 401)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info]


def test_two_lengths_hide_no_second_request(open_port: int) -> None:
    """A proxy that reads one of the two lengths would take the rest for a request of somebody else."""
    for name in ("length and chunks", "more than its length", "two lengths", "chunks twice", "chunks in disguise"):
        answered = talk(open_port, bytes_of(name, "/index.html", "127.0.0.1"))
        (status, _), *more = statuses(answered)
        assert status in (400, 405) and not more, name


def test_a_body_in_chunks_is_refused_before_it_comes(open_port: int) -> None:
    """To read chunks of a byte takes the time of everybody else: 60 such bodies held all others up for 48 s."""
    head = b"POST /act/run/q HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    for body in (b"", b"1\r\na\r\n" * 100_000):
        with socket.create_connection(("127.0.0.1", open_port), timeout=300) as line:
            line.sendall(head)
            assert line.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
            with suppress(OSError):
                line.sendall(body)
                assert line.recv(1) == b"", "it is left"
    is_well(open_port)


def count(port: int) -> int:
    """The connections that the server has."""
    here = [each for each in psutil.Process().net_connections("tcp") if each.laddr.port == port]
    return sum(each.status in ("ESTABLISHED", "CLOSE_WAIT") for each in here)


def await_none(port: int) -> None:
    """Waits until the server has no connection."""
    while count(port):
        time.sleep(0.05)


def test_who_says_nothing_keeps_nobody_out(ledgers: Ledgers, open_port: int, caplog: pytest.LogCaptureFixture) -> None:
    """More connections than the server answers at a time: silent ones, half requests, and forms that never end."""
    halves = [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-", bytes_of("half a form", "/act/run/q", "127.0.0.1")]
    halves += [b"POST /act/run/q HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"]
    with ExitStack() as held:
        for at in range(AT_ONCE + 50):
            line = held.enter_context(socket.create_connection(("127.0.0.1", open_port), timeout=300))
            line.sendall(halves[at % len(halves)])
            if at % 50 == 49:
                is_well(open_port)
        await_none(open_port)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"GET /index.html HTTP/1.1\r\nHost: localhost\r\n", b"a"),
        (b"POST /act/run/q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", b"a"),
        (b"GET /index.html HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", b"a"),
        (b"POST /index.html HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    ],
    ids=["header", "form", "body that nobody reads", "chunks"],
)
def test_a_byte_at_a_time_makes_no_connection_last(start: bytes, drop: bytes, open_port: int) -> None:
    with socket.create_connection(("127.0.0.1", open_port), timeout=300) as line, pytest.raises(OSError):
        line.sendall(start)
        while True:
            line.sendall(drop)
            time.sleep(0.1)


def test_who_takes_no_answer_is_left(open_port: int) -> None:
    """Answers wait in no memory: the next page is made once the one before is taken."""
    before = psutil.Process().memory_info().rss
    with socket.create_connection(("127.0.0.1", open_port), timeout=2 * WAIT) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pytest.raises(OSError):
            for _ in range(100_000):
                line.sendall(b"GET /index.html HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await_none(open_port)
    assert psutil.Process().memory_info().rss - before < 256 << 20
    is_well(open_port)
