"""The real language server under hostile texts and messages: bounded time and memory for each, and it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.breadth import examples
from tests.editor.client import Client, editor
from tests.gsql.hostile_texts import TEXTS

pytestmark = [pytest.mark.slow, pytest.mark.hypothesis]
SOUND = "SELECT time FROM main1.TCP"
MOST = 60.0
"""Processor seconds of the server for one text."""
HUGE = 10**18
PLACES = [(0, 0), (HUGE, 0), (0, HUGE), (-1, -1), (2**31, 2**31), (5, -(2**63))]


def sent(body: bytes, head: bytes | None = None) -> bytes:
    return (b"Content-Length: %d\r\n\r\n" % len(body) if head is None else head) + body


def message(**parts: Any) -> bytes:
    return sent(json.dumps({"jsonrpc": "2.0", **parts}).encode())


URI = "file:///hostile.gsql"
DOCUMENT = {"uri": URI, "languageId": "gsql", "version": 1, "text": SOUND}
MESSAGES = {
    "no json": sent(b"{]"),
    "no object": sent(b"[1, 2]"),
    "a number": sent(b"7"),
    "null": sent(b"null"),
    "empty": sent(b"{}"),
    "no text": sent(b"\xff\xfe\x80"),
    "deep": sent(b"[" * 200_000),
    "deep objects": sent(b'{"a":' * 100_000),
    "a long number": sent(b'{"jsonrpc":"2.0","id":' + b"9" * 9000 + b"}"),
    "no length": b"X-A: b\r\n\r\n",
    "a length of none": b"Content-Length: 0\r\n\r\n",
    "a negative length": b"Content-Length: -5\r\n\r\n",
    "a length of words": b"Content-Length: five\r\n\r\n",
    "a length of many digits": b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    "a length beyond memory": b"Content-Length: 99999999999999\r\n\r\n",
    "a long header": b"X-A: " + b"a" * 3_000_000 + b"\r\n\r\n",
    **{
        f"an id: {each!r:.20}": message(id=each, method="textDocument/hover", params={})
        for each in (None, [], {}, True, 1.5, -1, 10**30, "", "x" * 9000, "\0", "<b>")
    },
    **{
        f"parameters: {each!r:.20}": message(id="p", method="textDocument/completion", params=each)
        for each in (None, [], "x", 5, {"textDocument": 5}, {"textDocument": {"uri": URI}, "position": []})
    },
    **{
        f"an address: {each!r:.20}": message(
            id="u",
            method="textDocument/hover",
            params={"textDocument": {"uri": each}, "position": {"line": 0, "character": 0}},
        )
        for each in (
            "",
            "file:",
            "file://\0",
            "http://evil.example/x",
            "file:///" + "a" * 5000,
            "file:///%ff%00",
            "x" * 9000,
        )
    },
    "an unknown method": message(id=5, method="workspace/nothing", params={}),
    "an answer that nobody asked for": message(id=77, result={}),
    "an error that nobody asked for": message(id=78, error={"code": "x", "message": []}),
    "a cancellation": message(method="$/cancelRequest", params={"id": 12345}),
    "a cancellation of nothing": message(method="$/cancelRequest", params={}),
    "initialized twice": message(method="initialized", params={}),
    "a change of nothing": message(
        method="textDocument/didChange",
        params={"textDocument": {"uri": "file:///none.gsql", "version": 1}, "contentChanges": []},
    ),
    "a close of nothing": message(
        method="textDocument/didClose", params={"textDocument": {"uri": "file:///none.gsql"}}
    ),
    **{
        f"a change at {line}, {character}": message(
            method="textDocument/didChange",
            params={
                "textDocument": {"uri": URI, "version": 10**9},
                "contentChanges": [
                    {
                        "range": {"start": {"line": line, "character": character}, "end": {"line": 0, "character": 0}},
                        "rangeLength": -1,
                        "text": "x",
                    }
                ],
            },
        )
        for line, character in PLACES
    },
}


@contextmanager
def spent(client: Client) -> Iterator[None]:
    """Bounds the processor seconds and the memory of the server."""
    server = psutil.Process(client.process.pid)
    before = sum(server.cpu_times()[:2])
    yield
    assert sum(server.cpu_times()[:2]) - before < MOST
    assert server.memory_info().rss < 1 << 30


@pytest.mark.nightly
def test_no_text_stops_the_server(tmp_path: Path) -> None:
    (tmp_path / "lowwater.toml").write_text("[links.main1]\n[links.main2]\n")
    names = list(TEXTS)
    step = max(1, len(names) // examples(10))
    with editor(tmp_path) as client:
        for at, name in enumerate(names[::step]):
            path, text = tmp_path / f"{at}.gsql", TEXTS[name]
            with spent(client):
                problems = client.open(path, text)
                assert len(json.dumps(problems)) < 1 << 20, name
                for place in ((0, 0), (2**31 - 1, 0), (0, 2**31 - 1)):
                    for what in ("completion", "hover", "definition"):
                        client.at(what, path, *place)
                client.formatted(path, text)
        assert client.open(tmp_path / "sound.gsql", SOUND) == [] and client.messages == []


def test_no_message_stops_the_server(tmp_path: Path) -> None:
    """Whatever is sent, the next good request is answered."""
    from lowwater_editor.server import LONGEST_MESSAGE  # the library of the protocol takes half a second

    too_long = {"too long a message": sent(b" " * (LONGEST_MESSAGE + 10))}
    command = [sys.executable, "-m", "lowwater.cli.main", "lsp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        client = Lenient(process)
        try:
            client.ask("initialize", processId=None, rootUri=tmp_path.as_uri(), capabilities={})
            client.notify("textDocument/didOpen", textDocument=DOCUMENT)
            for name, text in (MESSAGES | too_long).items():
                with spent(client):
                    process.stdin.write(text)
                    process.stdin.flush()
                    client.good(name)
            client.ask("shutdown")
            client.notify("exit")
            assert process.wait(300) == 0
            said = process.stderr.read().decode()
            assert len(said) < 200_000, "what is wrong is said in short"
        finally:
            process.kill()


class Lenient(Client):
    """A client that lets the server refuse."""

    def _receive(self, until: float) -> None:
        got = self._inbox.get(timeout=max(0.01, until - time.monotonic()))
        assert got is not None, f"the server has ended: {self.process.poll()}"
        if "id" in got and "method" not in got and isinstance(got["id"], int):
            self.answers[got["id"]] = got.get("result")

    def good(self, name: str) -> None:
        """A good request is answered."""
        self.number += 1000
        uri = {"uri": "file:///good.gsql"}
        document = {**uri, "languageId": "gsql", "version": 1, "text": SOUND}
        self.notify("textDocument/didOpen", textDocument=document)
        found = self.ask("textDocument/completion", textDocument=uri, position={"line": 0, "character": 7})
        assert found and found["items"], name


def test_many_open_documents(tmp_path: Path) -> None:
    (tmp_path / "lowwater.toml").write_text("[links.main1]\n")
    with editor(tmp_path) as client, spent(client):
        for at in range(examples(60)):
            assert client.open(tmp_path / f"{at}.gsql", SOUND) == []
        path = tmp_path / "0.gsql"
        for version in range(2, 200):  # as fast as they come: only the last one is checked
            document = {"uri": path.as_uri(), "version": version}
            client.notify(
                "textDocument/didChange", textDocument=document, contentChanges=[{"text": SOUND + " " * version}]
            )
        assert client.change(path, "SELECT nothing FROM main1.TCP", 200) != []
