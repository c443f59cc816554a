"""The pages behind HTTP: a FastAPI app that only reads, to be mounted where somebody else checks who asks.

Beside `site`, which writes the same pages. No route writes, no file leaves the two folders that are served.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from lowwater.errors import LowwaterError
from lowwater.lake.tables import safe_name

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


METHODS = ["GET", "HEAD"]
SHARED = ("assets", "suites")
"""Folders of the Data Docs that say nothing of any interval."""

Sees = Callable[[str], bool]
"""Whether somebody may see a query set, by its name."""


def everything() -> Sees:
    """Who may see all query sets."""
    return lambda name: True


def create(
    board: Board,
    dependencies: Sequence[Any] = (),
    doors: APIRouter | None = None,
    seen: Callable[..., Sees] = everything,
) -> FastAPI:
    """The app.

    Args:
        board: the lake.
        dependencies: FastAPI dependencies of every route: who may ask.
        doors: further routes, which come first.
        seen: a FastAPI dependency that says what the one who asks may see.
    """
    app = FastAPI(
        title="Lowwater review",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=list(dependencies),
    )

    asked = Depends(seen)
    if doors is not None:
        app.include_router(doors)

    @app.api_route("/", methods=METHODS)
    def start() -> Response:
        return RedirectResponse("index.html", headers=HEADERS)

    @app.api_route("/assets/{name:path}", methods=METHODS)
    def asset(name: str) -> Response:
        return served(HERE / "assets", name, HEADERS)

    @app.api_route("/docs/{name:path}", methods=METHODS)
    def docs(name: str, sees: Any = asked) -> Response:
        policy = HEADERS["Content-Security-Policy"].replace("style-src 'self'", STYLED)
        reports = board.root / "reports"
        try:
            allowed = _documented(board, reports, name, sees)
        except LowwaterError as error:
            return HTMLResponse(_plain(str(error)), 503, HEADERS)
        return served(reports, name if allowed else "", HEADERS | {"Content-Security-Policy": policy})

    @app.api_route("/{address:path}", methods=METHODS)
    def page(address: str, sees: Any = asked) -> Response:
        return answered(board, address, sees)

    return app


def _documented(board: Board, reports: Path, name: str, sees: Sees) -> bool:
    """Whether somebody may see a page of the Data Docs: of a query set, of all suites, or the list of all of them."""
    path = inside(reports, name)
    if path is None:
        return True  # there is none, whoever asks
    folder, *below = path.relative_to(reports.resolve()).parts
    known = board.now()
    if not below:
        return known.only(sees) is known
    names = [each for each in (*known.jobs, *known.unplanned) if safe_name(each) == folder]
    return all(sees(each) for each in names) if names else folder in SHARED or sees(folder)


def answered(board: Board, address: str, sees: Sees) -> Response:
    """The page of an address, or why there is none: 404 for an unknown one, 503 for a lake that cannot be read.

    What somebody may not see is as unknown as what is not there.
    """
    try:
        found = render(board.now().only(sees), address)
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
        return path if path.is_relative_to(base) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None  # too long, no text of a path, or links in a circle


def served(base: Path, name: str, headers: dict[str, str]) -> Response:
    """A file of a folder, or 404."""
    path = inside(base, name)
    if path is None:
        return HTMLResponse(_plain("There is no such file."), 404, headers)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return FileResponse(path, media_type=kind, headers=headers)
