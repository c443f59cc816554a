"""A client of the editor protocol: JSON-RPC over the pipes of a real `lowwater lsp`."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.docs.book import ROOT

ANSWER = 300.0
"""Seconds after which a server that gives no answer has failed; the machine may be busy."""


class Client:
    """An editor with open documents."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.number = 0
        self.answers: dict[int, Any] = {}
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        self.rounds: dict[str, int] = {}
        self.messages: list[str] = []
        self._inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                self._inbox.put(None)
                return
            self._inbox.put(json.loads(stream.read(length)))

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def _receive(self, until: float) -> None:
        try:
            message = self._inbox.get(timeout=max(0.01, until - time.monotonic()))
        except queue.Empty:
            raise AssertionError("the server gives no answer") from None
        assert message is not None, f"the server has ended: {self.process.poll()}"
        if message.get("method") == "textDocument/publishDiagnostics":
            uri = message["params"]["uri"]
            self.diagnostics[uri] = message["params"]["diagnostics"]
            self.rounds[uri] = self.rounds.get(uri, 0) + 1
        elif message.get("method", "").startswith("window/"):
            self.messages.append(message["params"]["message"])
        elif "id" in message and "method" not in message:
            assert "error" not in message, message
            self.answers[message["id"]] = message["result"]

    def notify(self, method: str, **params: Any) -> None:
        self._send(method=method, params=params)

    def ask(self, method: str, **params: Any) -> Any:
        self.number += 1
        number = self.number
        self._send(id=number, method=method, params=params)
        until = time.monotonic() + ANSWER
        while number not in self.answers:
            self._receive(until)
        return self.answers.pop(number)

    def open(self, path: Path, text: str) -> list[dict[str, Any]]:
        """Opens a document; returns its diagnostics."""
        document = {"uri": path.as_uri(), "languageId": "gsql", "version": 1, "text": text}
        return self._checked(path.as_uri(), "textDocument/didOpen", textDocument=document)

    def change(self, path: Path, text: str, version: int = 2) -> list[dict[str, Any]]:
        """Replaces the text of a document; returns its diagnostics."""
        document = {"uri": path.as_uri(), "version": version}
        return self._checked(
            path.as_uri(), "textDocument/didChange", textDocument=document, contentChanges=[{"text": text}]
        )

    def _checked(self, uri: str, method: str, **params: Any) -> list[dict[str, Any]]:
        before = self.rounds.get(uri, 0)
        self.notify(method, **params)
        until = time.monotonic() + ANSWER
        while self.rounds.get(uri, 0) == before:
            self._receive(until)
        return self.diagnostics[uri]

    def at(self, what: str, path: Path, line: int, character: int) -> Any:
        """Asks for completion, hover or definition at a place, counted from 0."""
        position = {"line": line, "character": character}
        return self.ask(f"textDocument/{what}", textDocument={"uri": path.as_uri()}, position=position)

    def labels(self, path: Path, line: int, character: int) -> list[str]:
        """The completions at a place."""
        return [item["label"] for item in self.at("completion", path, line, character)["items"]]

    def hover(self, path: Path, line: int, character: int) -> str:
        """What the name at a place means; empty for nothing."""
        found = self.at("hover", path, line, character)
        return "" if found is None else str(found["contents"]["value"])

    def formatted(self, path: Path, text: str) -> str:
        """The document after the edits of formatting."""
        edits = self.ask(
            "textDocument/formatting", textDocument={"uri": path.as_uri()}, options={"tabSize": 4, "insertSpaces": True}
        )
        return edits[0]["newText"] if edits else text


@contextmanager
def editor(root: Path, *options: Sequence[str] | str | Path) -> Iterator[Client]:
    """A server with a folder open; it has ended well when the block ends."""
    command = [sys.executable, "-m", "lowwater.cli.main", "lsp", *map(str, options)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        client = Client(process)
        try:
            said = client.ask("initialize", processId=None, rootUri=root.as_uri(), capabilities={})
            assert said["serverInfo"]["name"] == "lowwater"
            client.notify("initialized")
            yield client
            client.ask("shutdown")
            client.notify("exit")
            assert process.wait(300) == 0
        finally:
            process.kill()
