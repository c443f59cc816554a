"""`lowwater serve`: no route without the token, no name of another host, and a real server that answers."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from lowwater_review import Board
from lowwater_review.app import create
from lowwater_review.login import Door
from lowwater_review.serving import Access, access, guarded, is_loopback

from tests.replay.support import ROOT
from tests.review.asgi import ask
from tests.review.ledgers import make

TOKEN = "a token of some length"
HOST = {"Host": "127.0.0.1:8642"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make(tmp_path_factory.mktemp("served"), 3)


def routes(board: Board) -> list[tuple[str, str]]:
    """Every route of the app with each of its methods, placeholders filled."""
    found: list[Any] = list(create(board).routes)
    assert len(found) > 3
    return [
        (method, "/".join("index.html" if part.startswith("{") else part for part in route.path.split("/")))
        for route in found
        for method in sorted(route.methods)
    ]


def test_no_route_answers_without_the_token(lake: tuple[Path, Path]) -> None:
    app = Door(guarded(Board(*lake), Access(None, None)), TOKEN, None, pause=0)
    for method, path in [*routes(Board(*lake)), ("GET", "/login/x"), ("POST", "/index.html"), ("GET", "/x/../login")]:
        wrong: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer no"},
            {"Cookie": "lowwater_login=no"},
            {"Cookie": f"lowwater_login={TOKEN}"},
            {"Authorization": f"Basic {TOKEN}"},
        ]
        for headers in wrong:
            answer = ask(app, path, method, headers=headers)
            assert answer.status == 401 and "January" not in answer.text, (method, path, headers)
    assert ask(app, "/index.html", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_a_login_gives_a_cookie_for_the_pages(lake: tuple[Path, Path]) -> None:
    app = Door(guarded(Board(*lake), Access(None, None)), TOKEN, None, pause=0)
    assert "<form" in ask(app, "/login").text
    assert ask(app, "/login", "POST", body=b"token=other").status == 401
    assert ask(app, "/login", "POST", body=b"token=" + b"x" * 100_000).status == 401
    answer = ask(app, "/login", "POST", body=f"token={TOKEN.replace(' ', '+')}".encode())
    cookie = answer.headers["set-cookie"]
    assert answer.status == 303 and "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert ask(app, "/index.html", headers={"Cookie": cookie.partition(";")[0]}).status == 200


def test_on_loopback_only_its_own_names_are_answered(lake: tuple[Path, Path]) -> None:
    allowed = access("127.0.0.1", None)
    assert allowed.token is None and access("0.0.0.0", None).token is not None and access("0.0.0.0", None).hosts is None
    app = guarded(Board(*lake), allowed)
    for host, status in {"127.0.0.1:1": 200, "localhost": 200, "[::1]:80": 200, "evil.example:1": 421, "": 421}.items():
        assert ask(app, "/index.html", headers={"Host": host}).status == status, host
    assert not is_loopback("evil.example") and not is_loopback("10.0.0.1")


@pytest.mark.slow
def test_a_server_answers_and_ends(lake: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "lowwater.cli.main", "serve", "--lake", lake[0], "--queries", lake[1]]
    with subprocess.Popen([*map(str, command), "--port", "0"], cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = server.stderr.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}index.html", timeout=300) as answer:
            assert answer.status == 200 and b"January 2025" in answer.read()
            assert "server" not in {name.lower() for name in answer.headers}
        server.terminate()
        server.wait(120)
