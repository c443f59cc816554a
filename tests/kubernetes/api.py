"""An API server of Kubernetes as far as Spark's driver uses it: pods of executors, which run as processes here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.replay.support import ROOT

Resource = dict[str, Any]
PATH = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<kind>pods|configmaps|services|persistentvolumeclaims)(?:/(?P<name>[^/]+))?"
)
KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}


class Api(ThreadingHTTPServer):
    """The server."""

    daemon_threads = True

    def __init__(self, token: str, logs: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.token, self.logs = token, logs
        self.kept: dict[str, dict[str, Resource]] = {kind: {} for kind in KINDS}
        self.asked: list[tuple[str, str]] = []
        self.refused = 0
        self.created: list[Resource] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._version = 1

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, kind: str, resource: Resource) -> Resource:
        """Keeps a resource, and starts the process of a pod."""
        with self._lock:
            self._version += 1
            metadata = resource.setdefault("metadata", {})
            metadata |= {
                "uid": str(uuid.uuid4()),
                "resourceVersion": str(self._version),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            }
            resource |= {"apiVersion": "v1", "kind": KINDS[kind]}
            if kind == "pods":
                resource["status"] = {"phase": "Running", "podIP": "127.0.0.1"}
            self.kept[kind][metadata["name"]] = resource
        return resource

    def start(self, pod: Resource) -> None:
        """Runs the container of an executor."""
        (container,) = [each for each in pod["spec"]["containers"] if each.get("args") == ["executor"]]
        name = pod["metadata"]["name"]
        own = {each["name"]: _value(each, name) for each in container["env"]}
        base = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "LANG") if key in os.environ}
        with (self.logs / f"{name}.log").open("w") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, ROOT / "docker" / "executor"],
                env={**base, **own, "SPARK_LOCAL_DIRS": str(self.logs)}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def remove(self, kind: str, name: str) -> None:
        """Forgets a resource, and kills the process of a pod."""
        self.kept[kind].pop(name, None)
        process = self._processes.pop(name, None)
        if process is not None:
            kill(process)

    def stop(self) -> None:
        """Ends the server and all executors."""
        for name in list(self._processes):
            self.remove("pods", name)
        self.shutdown()
        self.server_close()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children, which may have ended."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _value(variable: Resource, pod: str) -> str:
    field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    return {"status.podIP": "127.0.0.1", "metadata.name": pod}[field] if field else str(variable.get("value", ""))


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Api
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        self.server.asked.append((self.command, parts.path))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self.server.refused += 1
            return self._answer(401, {"kind": "Status", "status": "Failure", "code": 401})
        found = PATH.fullmatch(parts.path)
        if found is None:
            return self._answer(404, {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"})
        self._resource(found["kind"], found["name"], json.loads(body) if body else {}, parse_qs(parts.query))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _resource(self, kind: str, name: str | None, sent: Resource, query: dict[str, list[str]]) -> None:
        kept = self.server.kept[kind]
        if self.command == "POST":
            self.server.created.append(json.loads(json.dumps(sent)))
            added = self.server.add(kind, sent)
            if kind == "pods":
                self.server.start(added)
            return self._answer(201, added)
        if name is None:
            chosen = list(_selected(kept.values(), query))
            if self.command == "DELETE":
                for each in chosen:
                    self.server.remove(kind, each["metadata"]["name"])
                return self._answer(200, {"kind": "Status", "status": "Success"})
            if query.get("watch") == ["true"]:  # the driver also asks for the list from time to time
                return self._answer(200, None)
            listed = {"apiVersion": "v1", "kind": f"{KINDS[kind]}List", "metadata": {"resourceVersion": "1"}}
            return self._answer(200, {**listed, "items": chosen})
        if name not in kept:
            return self._answer(404, {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"})
        if self.command == "DELETE":
            self.server.remove(kind, name)
            return self._answer(200, {"kind": "Status", "status": "Success"})
        self._answer(200, kept[name])

    def _answer(self, code: int, document: Resource | None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _selected(resources: Any, query: dict[str, list[str]]) -> Iterator[Resource]:
    wanted = [pair for text in query.get("labelSelector", ()) for pair in re.findall(r"([\w./-]+)=([\w.-]*)", text)]
    for resource in list(resources):
        labels = resource["metadata"].get("labels", {})
        if all(labels.get(key) == value for key, value in wanted):
            yield resource
