"""The pages behind HTTP: a FastAPI app that only reads, to be mounted where somebody else checks who asks.

Beside `site`, which writes the same pages. No route writes, no file leaves the two folders that are served.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from lowwater.errors import LowwaterError

from .board import Board
from .pages import HERE, render

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer: nothing runs, nothing is fetched from elsewhere, nobody else frames it."""

STYLED = "style-src 'self' 'unsafe-inline'"
"""Of Data Docs, whose tables have styles in their elements."""


def create(board: Board, dependencies: Sequence[Any] = (), doors: APIRouter | None = None) -> FastAPI:
    """The app.

    Args:
        board: the lake.
        dependencies: FastAPI dependencies of every route: who may ask.
        doors: further routes, which come first.
    """
    app = FastAPI(
        title="Lowwater review",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=list(dependencies),
    )

    if doors is not None:
        app.include_router(doors)

    @app.get("/")
    def start() -> Response:
        return RedirectResponse("index.html", headers=HEADERS)

    @app.get("/assets/{name:path}")
    def asset(name: str) -> Response:
        return served(HERE / "assets", name, HEADERS)

    @app.get("/docs/{name:path}")
    def docs(name: str) -> Response:
        policy = HEADERS["Content-Security-Policy"].replace("style-src 'self'", STYLED)
        return served(board.root / "reports", name, HEADERS | {"Content-Security-Policy": policy})

    @app.get("/{address:path}")
    def page(address: str) -> Response:
        return answered(board, address)

    return app


def answered(board: Board, address: str) -> Response:
    """The page of an address, or why there is none: 404 for an unknown one, 503 for a lake that cannot be read."""
    try:
        found = render(board.now(), address)
    except LowwaterError as error:
        return HTMLResponse(_plain(str(error)), 503, HEADERS)
    return HTMLResponse(
        _plain("There is no such page.") if found is None else found, 404 if found is None else 200, HEADERS
    )


def _plain(text: str) -> str:
    from html import escape

    return f'<!DOCTYPE html><html lang="en"><title>Lowwater</title><main><p>{escape(text)}</p></main></html>'


def inside(base: Path, name: str) -> Path | None:
    """The file of a relative name in a folder; None if it is not there, or not really in it."""
    if "\0" in name or "\\" in name or name.startswith("/"):
        return None
    base = base.resolve()
    try:
        path = (base / name).resolve()
    except OSError:
        return None
    return path if path.is_relative_to(base) and path.is_file() else None


def served(base: Path, name: str, headers: dict[str, str]) -> Response:
    """A file of a folder, or 404."""
    path = inside(base, name)
    if path is None:
        return HTMLResponse(_plain("There is no such file."), 404, headers)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return FileResponse(path, media_type=kind, headers=headers)
