"""`doctor --lake` finds what a store or a disk lacks: behind a proxy that lies as stores do, and in folders."""

from __future__ import annotations

import fcntl
import http.client
import os
import re
import threading
import unicodedata
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lowwater.errors import LakeError
from lowwater.storage import paths, probes
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.probes import MISSING, OK, WARNING, Finding, findings
from tests.replay.support import listening, lowwater
from tests.storage import gateway
from tests.storage.servers import BUCKET, Proxy, Rule

KEYS = {"AWS_ACCESS_KEY_ID": gateway.KEY, "AWS_SECRET_ACCESS_KEY": gateway.SECRET, "AWS_REGION": "us-east-1"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "TIMES", 2)
    monkeypatch.setattr(probes, "ROUNDS", 1)
    monkeypatch.setattr(probes, "PARTS", 2)
    monkeypatch.setattr(probes, "PATIENCE", 0.3)


@contextmanager
def lying(server: int, *lies: str) -> Iterator[str]:
    """A proxy before a server that does not do some things as it should; yields its address."""
    alone, before = threading.Lock(), dict[str, bytes]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = 1 << 16

        def log_message(self, *_: Any) -> None: ...

        def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                    self.send_header(name, value)
            length = headers.get("Content-Length", str(len(body))) if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers, path, method = dict(self.headers), self.path, self.command
            listing = method == "GET" and "list-type=2" in path
            if "no conditions" in lies:
                headers = {name: value for name, value in headers.items() if not name.lower().startswith("if-")}
            if "one case" in lies:
                place, mark, rest = path.partition("?")
                path = place.lower() + mark + rest
            if "composed" in lies:
                path = urllib.parse.quote(unicodedata.normalize("NFC", urllib.parse.unquote(path)), "/?&=%-")
            if "no copies" in lies and "x-amz-copy-source" in {name.lower() for name in headers}:
                self.answer(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
                return
            if "no parts" in lies and ("uploads" in path or "uploadId" in path):
                self.answer(400, {}, b"<Error><Code>NotImplemented</Code></Error>")
                return
            if "keeps" in lies and method in ("DELETE", "POST") and "upload" not in path:
                self.answer(
                    *(
                        (204, {}, b"")
                        if method == "DELETE"
                        else (200, {}, b"<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>")
                    )
                )
                return
            if "old lists" in lies and listing and path in before:
                self.answer(200, {"Content-Type": "application/xml"}, before[path])
                return
            if "old reads" in lies and method == "GET" and not listing and path in before:
                self.answer(200, {"ETag": '"old"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}, before[path])
                return
            with alone:
                target = http.client.HTTPConnection("127.0.0.1", server, timeout=60)
                target.request(method, path, body, headers)
                reply = target.getresponse()
                status, found, content = reply.status, dict(reply.getheaders()), reply.read()
                target.close()
            if status == 200 and (listing or "overwritten" in path) and method == "GET":
                before.setdefault(path, content)
            if "whole" in lies and status == 206:
                content = content[::-1]
            if "other clock" in lies and method == "HEAD":
                found = {name: value for name, value in found.items() if name.lower() != "last-modified"}
                found["Last-Modified"] = "Thu, 01 Jan 2026 00:00:00 GMT"
            if "no offset" in lies and listing and "start-after" in path:
                target = http.client.HTTPConnection("127.0.0.1", server, timeout=60)
                target.request("GET", re.sub(r"&?start-after=[^&]*", "", path), headers=headers)
                content = target.getresponse().read()
                target.close()
            self.answer(status, found, content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as listener:
        yield f"http://127.0.0.1:{listener.server_address[1]}"


def of(found: list[Finding]) -> dict[str, Finding]:
    return {each.name: each for each in found if each.state != OK}


@pytest.mark.slow
def test_a_store_that_has_all_is_sound_and_nothing_stays(root: ObjectPath) -> None:
    paths.write(root / "own", b"1")
    found = list(findings(root))
    assert of(found) == {} and len(found) == 12
    assert all(each.found and not each.then for each in found)
    assert all(each.timing for each in found)
    assert paths.children(root) == [root / "own"]


LIES: list[dict[str, tuple[str, str]]] = [
    {
        "no offset": ("list from a name on", "are listed behind"),
        "no conditions": ("create, if absent", "8 of 8 writers at once"),
        "no copies": ("copy", "cannot do it"),
        "no parts": ("large files in parts", "cannot do it"),
        "one case": ("names, byte for byte", "lost or changed"),
        "other clock": ("clock", "behind this machine"),
    },
    {
        "old lists": ("write, then list", "not listed within"),
        "old reads": ("overwrite, then read", "is read after"),
        "whole": ("read a range", "are others"),
        "composed": ("names, byte for byte", "lost or changed"),
    },
    {"keeps": ("delete", "after it was removed")},
]
"""Lies that are told together: what of a lake they take, and what is seen of that."""
BESIDE = {"no conditions": {"replace, if unchanged", "read a range"}, "keeps": {"write, then list"}}


@pytest.mark.slow
@pytest.mark.parametrize("lies", LIES, ids=lambda lies: ", ".join(lies))
def test_what_a_store_does_not_do_is_found(
    lies: dict[str, tuple[str, str]], moto: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lying(moto, *lies) as address:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": address, "LOWWATER_STORE_PATIENCE": "0.1"}.items():
            monkeypatch.setenv(name, value)
        found = of(list(findings(ObjectPath("s3:", BUCKET, f"lie-{uuid.uuid4().hex[:8]}"))))
    beside = set().union(*(BESIDE.get(lie, set()) for lie in lies))
    assert {*found} == {name for name, _ in lies.values()} | beside
    for lie, (name, words) in lies.items():
        assert words in found[name].found and found[name].then
        assert found[name].state == (WARNING if lie == "no offset" else MISSING)


@pytest.mark.slow
def test_keys_that_may_only_read_are_told_and_nothing_else_is_tried(root: ObjectPath, proxy: Proxy) -> None:
    proxy.breaks(Rule("403", "PUT|POST|DELETE"))
    (found,) = findings(root)
    assert (found.name, found.state) == ("write", MISSING) and "does not allow it to write" in found.found
    assert "only read" in found.then
    proxy.breaks(Rule("keys"))
    with pytest.raises(LakeError, match="refuses the keys"):
        list(findings(root))


@pytest.mark.slow
def test_a_folder_that_has_all_is_sound_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "FREE", 0)
    said = lowwater("doctor", "--lake", tmp_path)
    assert said.code == 0 and "one of two processes" in said.out, said
    assert [*tmp_path.iterdir()] == []
    said = lowwater("doctor", "--lake", tmp_path / "none")
    assert said.code in (1, 2) and "there is no such folder" in said.err + said.out


def _refused(*_: object, **__: object) -> None:
    raise OSError(1, "Operation not permitted")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "where", "what", "instead"),
    [
        ("links of files", os, "link", _refused),
        ("locks", fcntl, "flock", lambda *_: None),
        ("rename over a file", os, "replace", _refused),
        ("free space", probes, "FREE", 1 << 60),
    ],
)
def test_what_a_disk_does_not_do_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: Any, what: str, instead: Callable[..., Any]
) -> None:
    monkeypatch.setattr(probes, "FREE", 0)
    monkeypatch.setattr(where, what, instead)
    found = of(list(findings(tmp_path)))
    assert list(found) == [name] and found[name].then
    assert found[name].state == (WARNING if name == "free space" else MISSING)
