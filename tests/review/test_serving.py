"""`lowwater serve`: no route without the token, no name of another host, and a real server that answers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
from lowwater_review import Ledgers
from lowwater_review.app import create
from lowwater_review.login import COOKIE, GUESSING, IDLE, LASTS, Door, Sessions
from lowwater_review.results.answers import person
from lowwater_review.serving import Access, access, guarded
from starlette.requests import Request

from lowwater.errors import LowwaterError
from lowwater.hosts import is_loopback
from tests.replay.support import ROOT
from tests.review.asgi import ask, request
from tests.review.ledgers import make

TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make(tmp_path_factory.mktemp("served"), 3)


def routes(ledgers: Ledgers) -> list[tuple[str, str]]:
    """Every route of the app with each of its methods, placeholders filled."""
    found: list[Any] = list(create(ledgers).routes)
    assert len(found) > 3
    return [
        (method, "/".join("index.html" if part.startswith("{") else part for part in route.path.split("/")))
        for route in found
        for method in sorted(route.methods)
    ]


@pytest.mark.slow
def test_no_route_answers_without_the_token(lake: tuple[Path, Path]) -> None:
    app = Door(guarded(Ledgers(*lake), Access(None, None)), TOKEN, None, pause=0)
    for method, path in [*routes(Ledgers(*lake)), ("GET", "/login/x"), ("POST", "/index.html"), ("GET", "/x/../login")]:
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


@pytest.mark.slow
def test_a_login_gives_a_cookie_for_the_pages(lake: tuple[Path, Path]) -> None:
    app = Door(guarded(Ledgers(*lake), Access(None, None)), TOKEN, None, pause=0)
    assert "<form" in ask(app, "/login").text
    assert ask(app, "/login", "POST", body=b"token=other").status == 401
    assert ask(app, "/login", "POST", body=b"token=" + b"x" * 100_000).status == 401
    answer = ask(app, "/login", "POST", body=f"token={TOKEN.replace(' ', '+')}".encode())
    cookie = answer.headers["set-cookie"]
    assert answer.status == 303 and "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert ask(app, "/index.html", headers={"Cookie": cookie.partition(";")[0]}).status == 200


def test_on_loopback_only_its_own_names_are_answered(lake: tuple[Path, Path]) -> None:
    allowed = access("127.0.0.1", None, login=False)
    assert allowed.token is None and access("0.0.0.0", None).token is not None and access("0.0.0.0", None).hosts is None
    app = guarded(Ledgers(*lake), allowed)
    for host, status in {"127.0.0.1:1": 200, "localhost": 200, "[::1]:80": 200, "evil.example:1": 421, "": 421}.items():
        assert ask(app, "/index.html", headers={"Host": host}).status == status, host
    assert not is_loopback("evil.example") and not is_loopback("10.0.0.1")


def test_a_session_ends_by_itself_by_a_logout_and_with_the_server(lake: tuple[Path, Path]) -> None:
    now = 0.0
    pages = guarded(Ledgers(*lake), Access(None, None))
    app = Door(pages, TOKEN, None, 0, Sessions(lambda: now))

    def logged_in() -> dict[str, str]:
        answer = ask(app, "/login", query=f"token={TOKEN.replace(' ', '+')}")
        assert answer.status == 303 and answer.headers["location"] == "/index.html"
        return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

    first, second = logged_in(), logged_in()
    assert first != second
    for _ in range(3):
        now += IDLE - 1
        assert ask(app, "/index.html", headers=first).status == 200
    assert ask(app, "/index.html", headers=second).status == 401, "nobody used it"
    now += LASTS
    assert ask(app, "/index.html", headers=first).status == 401
    third = logged_in()
    assert ask(app, "/logout", headers=third).status == 404, "a link ends nothing"
    assert ask(app, "/logout", "POST", headers=third).status == 303
    assert ask(app, "/index.html", headers=third).status == 401
    fourth = logged_in()
    assert ask(Door(pages, TOKEN, None, 0), "/index.html", headers=fourth).status == 401, "another server"


def test_a_session_is_made_by_a_login_only_and_ends_with_the_next_one(lake: tuple[Path, Path]) -> None:
    """Fixation: a name that a stranger has set never becomes a session, and a login changes the name."""
    app = Door(guarded(Ledgers(*lake), Access(None, None)), TOKEN, None, 0)
    planted = {"Cookie": f"{COOKIE}=planted"}

    def logged_in(headers: dict[str, str]) -> str:
        answer = ask(app, "/login", "POST", headers=headers, body=f"token={TOKEN.replace(' ', '+')}".encode())
        assert answer.status == 303
        return answer.headers["set-cookie"].partition(";")[0]

    first = logged_in(planted)
    assert first != planted["Cookie"] and ask(app, "/index.html", headers=planted).status == 401
    second = logged_in({"Cookie": first})
    assert second != first
    assert ask(app, "/index.html", headers={"Cookie": first}).status == 401, "it may be in other hands"
    assert ask(app, "/index.html", headers={"Cookie": second}).status == 200
    assert ask(app, "/login", "POST", headers={"Cookie": second}, body=b"token=wrong").status == 401
    assert ask(app, "/index.html", headers={"Cookie": second}).status == 200, "a guess ends no session"


def test_a_cookie_of_another_server_of_the_machine_logs_nobody_out(lake: tuple[Path, Path]) -> None:
    """Cookies know no ports; one with a longer path comes first."""
    app = Door(guarded(Ledgers(*lake), Access(None, None)), TOKEN, None, 0)
    mine = ask(app, "/login", query=f"token={TOKEN.replace(' ', '+')}").headers["set-cookie"].partition(";")[0]
    tossed = {"Cookie": f"{COOKIE}=junk; {COOKIE}=; a=b; {mine}"}
    assert ask(app, "/index.html", headers=tossed).status == 200
    assert ask(app, "/logout", "POST", headers=tossed).status == 303
    assert ask(app, "/index.html", headers=tossed).status == 401, "it is the session that ends, not the junk"
    many = {"Cookie": "; ".join([f"{COOKIE}=junk"] * 300)}
    assert ask(app, "/index.html", headers=many).status == 401


def test_a_person_is_who_is_logged_in_whatever_else_a_request_says() -> None:
    seen = []

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        seen.append(person(Request(scope)))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = Door(pages, TOKEN, None, pause=0)
    cookie = ask(app, "/login", query=f"token={TOKEN.replace(' ', '+')}").headers["set-cookie"].partition(";")[0]
    for more in ("", "; a=1", "; a=2", "; lowwater_login=x"):
        ask(app, "/x", headers={"Cookie": cookie + more, "Authorization": f"Bearer {more}"})
    assert len(set(seen)) == 1
    for more in ("", "a=1"):
        ask(app, "/x", headers={"Authorization": f"Bearer {TOKEN}", "Cookie": more})
        ask(Door(pages, None, None), "/x", headers={"Authorization": more, "Cookie": more})
    assert len(seen) == 8 and len(set(seen)) == 3 and "127.0.0.1" in seen


@pytest.mark.parametrize(("headers", "secure"), [({}, False), ({"X-Forwarded-Proto": "http, https"}, True)])
def test_a_cookie_that_came_by_tls_goes_by_tls_alone(
    lake: tuple[Path, Path], headers: dict[str, str], secure: bool
) -> None:
    app = Door(guarded(Ledgers(*lake), Access(None, None)), "t" * 20, None, pause=0)
    answer = ask(app, "/login", query=f"token={'t' * 20}", headers=headers)
    assert ("; Secure" in answer.headers["set-cookie"]) == secure


def test_headers_are_bounded_before_anything_reads_them(lake: tuple[Path, Path]) -> None:
    app = Door(guarded(Ledgers(*lake), Access(None, None)), TOKEN, None, pause=0)
    for headers in (
        {"Cookie": "\\" * 64_000},
        {"Authorization": "Bearer " + "x" * 10_000},
        {f"X-{number}": "x" * 8_000 for number in range(9)},
    ):
        assert ask(app, "/index.html", headers=headers).status == 431
    quoted = {"Cookie": 'a="' + "\\" * 8_000 + "; " + "b=" + ";" * 100}
    assert ask(app, "/index.html", headers=quoted).status == 401


def test_guesses_take_turns_and_few_of_them_wait(lake: tuple[Path, Path]) -> None:
    """Forty at once: the right one among those that wait is let in, whoever else guesses."""
    app = Door(guarded(Ledgers(*lake), Access(None, None)), TOKEN, None, pause=0.001)

    async def one(number: int) -> int:
        token = TOKEN if number == 20 else number
        scope, receive, sent, send = request("/index.html", {"Authorization": f"Bearer {token}"})
        await app(scope, receive, send)
        return int(sent[0]["status"])

    async def together() -> list[int]:
        return await asyncio.gather(*(one(number) for number in range(40)))

    statuses = asyncio.run(together())
    assert statuses == [200 if number == 20 else 401 if number < GUESSING else 429 for number in range(40)]


def test_a_token_that_others_can_read_is_none(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    for mode, fits in ((0o600, True), (0o440, True), (0o640, True), (0o644, False), (0o660, False), (0o604, False)):
        token.chmod(mode)
        if fits:
            assert access("127.0.0.1", token).token == TOKEN
        else:
            with pytest.raises(LowwaterError, match="other users of this machine"):
                access("127.0.0.1", token)
    with pytest.raises(LowwaterError, match="others reach"):
        access("0.0.0.0", None, login=False)


@pytest.mark.slow
def test_a_server_answers_and_ends(lake: tuple[Path, Path], tmp_path: Path) -> None:
    """And what it says, writes and shows to other processes holds no token but the address that it prints."""
    command = [sys.executable, "-m", "lowwater.cli.main", "serve", "--lake", lake[0], "--queries", lake[1]]
    variables = {**os.environ, "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    with subprocess.Popen(
        [*map(str, command), "--port", "0"], cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        address = server.stderr.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        token = parse_qs(urlsplit(address).query)["token"][0]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=300) as answer:
            assert answer.status == 200 and b"January 2025" in answer.read()
            assert answer.url.endswith("/index.html") and "token" not in answer.url
            assert "server" not in {name.lower() for name in answer.headers}
        parts = urlsplit(address)
        with pytest.raises(HTTPError, match="401") as refused:
            urllib.request.urlopen(f"http://{parts.netloc}/index.html", timeout=300)
        shown = refused.value.read().decode() + str(refused.value.headers)
        refused.value.close()
        for path, headers in ((f"/x?token={token}", {}), ("/x", {"Authorization": f"Bearer {token}"})):
            with pytest.raises(HTTPError) as absent:
                urllib.request.urlopen(urllib.request.Request(f"http://{parts.netloc}{path}", headers=headers))
            shown += absent.value.read().decode() + str(absent.value.headers)
            absent.value.close()
        family = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
        shown += "".join(" ".join(each.cmdline()) + str(each.environ()) for each in family)
        assert token not in shown
        with socket.create_connection((str(parts.hostname), parts.port), timeout=300) as flood:
            flood.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            sent = 0
            with pytest.raises(OSError):  # it takes no more, long before the end
                while sent < 64 << 20:
                    sent += flood.send(b"X-Long: " + b"x" * 8_000 + b"\r\n")
        server.terminate()
        server.wait(120)
        assert token not in server.stderr.read()
    kept = [path for folder in (tmp_path, *lake) for path in folder.rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if token.encode() in path.read_bytes()]
