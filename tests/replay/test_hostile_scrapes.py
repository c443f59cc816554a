"""The endpoint of `metrics` under the hostile requests: an answer, an end of each connection, and no traceback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lowwater.lake.layout import open_lake
from lowwater.limits import SCRAPE_CONNECTIONS
from lowwater.replay import telemetry
from lowwater.replay.telemetry import serving
from tests.breadth import some
from tests.review.hostile_requests import REQUESTS, UNFINISHED, bytes_of, statuses, talk

pytestmark = pytest.mark.slow
REFUSED = {400, 405, 414, 421, 431, 501, 505}
GOOD = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-"


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(telemetry, "SCRAPE_SECONDS", 1.0)
    open_lake(tmp_path / "lake")
    with serving(tmp_path / "lake", tmp_path, "127.0.0.1", 0) as at:
        yield at


def is_well(port: int) -> bool:
    return next(statuses(talk(port, GOOD)))[0] == 200


@pytest.mark.hypothesis
def test_every_request_is_answered_by_design(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for name in some(REQUESTS, 5):
        answered = talk(port, bytes_of(name, "/metrics", "127.0.0.1"))
        got = list(statuses(answered))
        assert len(got) == 1 or (len(got) == 0 and name in {*UNFINISHED, "nothing"}), (name, answered[:200])
        for status, text in got:
            assert status in {200, *REFUSED} and "<script>" not in text, (name, status)
    assert is_well(port)
    assert capfd.readouterr().err == ""


def test_who_says_nothing_keeps_nobody_out(port: int) -> None:
    assert is_well(port)  # threads of what reads the lake begin with the first answer
    before = threading.active_count()
    with ExitStack() as held:
        for at in range(6 * SCRAPE_CONNECTIONS):
            line = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=300))
            line.sendall(HALF if at % 2 else b"")
            if at % SCRAPE_CONNECTIONS == 0:
                assert is_well(port)
        assert is_well(port)
        # The thread of a connection that was ended sees that at its next turn.
        while threading.active_count() - before > SCRAPE_CONNECTIONS:
            time.sleep(0.05)


def test_a_byte_at_a_time_makes_no_connection_last(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=300) as line, pytest.raises(OSError):
        line.sendall(HALF)
        while True:
            line.sendall(b"a")
            time.sleep(0.1)
