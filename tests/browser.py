"""Chromium for tests, and pages behind a web server of this process."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI


@contextmanager
def served(app: FastAPI, starts: float = 300) -> Iterator[str]:
    """The address of an app behind a web server of this process."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    with running(server, starts) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running(server: uvicorn.Server, starts: float = 300) -> Iterator[int]:
    """The port of a web server that runs in a thread."""
    opened = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([opened],), daemon=True)
    thread.start()
    deadline = time.monotonic() + starts
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield opened.getsockname()[1]
    server.should_exit = True
    thread.join(300)
    opened.close()


PATIENT = 300_000
"""How long a page waits for what it is asked for, ms: only what hangs takes that long, even on a busy machine."""


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(**options: Any) -> Any:
        found = make(**options)
        found.set_default_timeout(PATIENT)
        return found

    return made


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium without a window, driven by Playwright; skips the test where either is missing."""
    sync = pytest.importorskip("playwright.sync_api")
    browser = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium")
    with sync.sync_playwright() as running:
        started = running.chromium.launch(executable_path=browser, args=["--no-sandbox"], timeout=PATIENT)
        started.new_page, started.new_context = _patient(started.new_page), _patient(started.new_context)
        yield started
        started.close()
