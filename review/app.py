"""FastAPI app that serves the review pages. The host application authenticates the users.

`site` writes the same pages as files. Only the acts write, through the host; routes serve files from two folders only.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from lowwater import limits
from lowwater.errors import LowwaterError
from lowwater.lake.tables import safe_name
from lowwater.quality import reports

from .acts.effects import Host
from .acts.pages import add_acts, only_commands
from .ledgers import Ledgers, Snapshot
from .pages import HERE, render, with_navigation
from .results.packet_pages import add_packets
from .results.pages import add_diff, add_results, as_page
from .write_page import add_write

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response: no scripts, no content from other hosts, no frames of other sites."""

INLINE_STYLES = "style-src 'self' 'unsafe-inline'"
"""Style policy of the Data Docs, whose tables use inline styles."""

FOLLOW = 10
"""Seconds after which a browser asks again for a page that is followed."""
METHODS = ["GET", "HEAD"]
SHARED = ("assets", "suites")
"""Folders of the Data Docs that hold no data of an interval."""

Permission = Callable[[str], bool]
"""Predicate: whether the user may see the query set of this name."""


Notices = Callable[[Permission], Sequence[str]]
"""What the server lacks for its work, for a user with a permission: a sentence each."""


def nothing(sees: Permission) -> Sequence[str]:
    """Returns no notice."""
    return ()


def see_all() -> Permission:
    """Returns the permission to see all query sets."""
    return lambda name: True


def create(
    ledgers: Ledgers,
    dependencies: Sequence[Any] = (),
    routes: APIRouter | None = None,
    permissions: Callable[..., Permission] = see_all,
    host: Callable[..., Host] = only_commands,
    notices: Notices = nothing,
    runs: str = "",
) -> FastAPI:
    """Creates the app that serves the pages of a lake.

    Args:
        dependencies: FastAPI dependencies of every route, for example authentication.
        routes: further routes, which are matched first.
        permissions: FastAPI dependency that returns the query sets that the user may see.
        host: FastAPI dependency that returns what does the acts for the user.
        notices: returns what the server lacks, for the top of the pages.
        runs: address of Airflow's own pages, relative to the start of these; empty without Airflow.
    """
    app = FastAPI(
        title="Lowwater review",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=list(dependencies),
    )

    permission = Depends(permissions)
    if routes is not None:
        app.include_router(routes)

    results = APIRouter()
    for add in (add_results, add_packets, add_diff, add_write):
        add(results, ledgers, permission, as_page(_plain, HEADERS), HEADERS)
    add_acts(results, ledgers, permission, as_page(_plain, HEADERS), HEADERS, host)
    app.include_router(results)

    @app.api_route("/", methods=METHODS)
    def start() -> Response:
        return RedirectResponse("index.html", headers=HEADERS)

    @app.api_route("/assets/{name:path}", methods=METHODS)
    async def asset(name: str) -> Response:
        # Small files, answered here: the threads of the server may all be at work on pages.
        path = inside(HERE / "assets", name)
        if path is None:
            return HTMLResponse(_plain("There is no such file."), 404, HEADERS)
        return Response(path.read_bytes(), media_type=mimetypes.guess_type(path.name)[0], headers=HEADERS)

    @app.api_route("/docs/{name:path}", methods=METHODS)
    def docs(name: str, sees: Any = permission) -> Response:
        policy = HEADERS["Content-Security-Policy"].replace("style-src 'self'", INLINE_STYLES)
        headers, folder = HEADERS | {"Content-Security-Policy": policy}, Path(ledgers.root / "reports")
        try:
            snapshot, path = ledgers.now(), inside(folder, name)
            if path is None:
                content = _drawn(snapshot, name, sees)
            elif not _documented(snapshot, path.relative_to(folder.resolve()), sees):
                content = None
            elif path.suffix != ".html" or path.stat().st_size > limits.STATE_BYTES:
                return file_response(path, headers)
            else:
                content = path.read_bytes()
            if content is not None and name.endswith(".html"):
                content = with_navigation(snapshot, content, f"docs/{name}", True)
        except LowwaterError as error:
            return HTMLResponse(_plain(str(error)), 503, HEADERS)
        if content is None:
            return HTMLResponse(_plain("There is no such file."), 404, headers)
        return Response(content, media_type=mimetypes.guess_type(name)[0], headers=headers)

    @app.api_route("/{address:path}", methods=METHODS)
    def page(address: str, request: Request, sees: Any = permission) -> Response:
        return page_response(ledgers, address, sees, notices, "follow" in request.query_params, runs)

    return app


def _drawn(snapshot: Snapshot, name: str, sees: Permission) -> bytes | None:
    """Returns a page of the Data Docs that is no file: what all pages share, or the page of an audit, of its ledgers;
    None without one, or where the user may not see it."""
    if (content := reports.shared_files().get(name)) is not None:
        return content
    page = reports.page(snapshot.lake, name)
    return page.html.encode() if page is not None and sees(page.query_set) else None


def _documented(snapshot: Snapshot, path: Path, sees: Permission) -> bool:
    """Whether the user may see a file of the Data Docs, by its path below them: a page of a query set, of all suites,
    or the index."""
    folder, *below = path.parts
    if not below:
        return snapshot.only(sees) is snapshot
    names = [name for name in (*snapshot.jobs, *snapshot.unplanned) if safe_name(name) == folder]
    return all(sees(name) for name in names) if names else folder in SHARED or sees(folder)


def page_response(
    ledgers: Ledgers,
    address: str,
    sees: Permission,
    notices: Notices = nothing,
    follow: bool = False,
    runs: str = "",
) -> Response:
    """Returns the page of an address: 404 for an unknown address, 503 if the lake cannot be read.

    A page that a reader chose to `follow` is asked for again by the browser, without a script.

    A page that the user may not see is also 404, so that its existence stays hidden.
    """
    try:
        html = render(ledgers.now().only(sees), address, True, notices(sees), follow, runs)
    except LowwaterError as error:
        return HTMLResponse(_plain(str(error)), 503, HEADERS)
    if html is None:
        return HTMLResponse(_plain("There is no such page."), 404, HEADERS)
    return HTMLResponse(html, 200, HEADERS | ({"Refresh": str(FOLLOW)} if follow else {}))


def _plain(text: str) -> str:
    from html import escape

    return f'<!DOCTYPE html><html lang="en"><title>Lowwater</title><main><p>{escape(text)}</p></main></html>'


def inside(base: Path, name: str) -> Path | None:
    """Returns the path of a file by its relative name; None if it does not exist or lies outside the folder."""
    if "\0" in name or "\\" in name or name.startswith("/"):
        return None
    base = base.resolve()
    try:
        path = (base / name).resolve()
        return path if path.is_relative_to(base) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None  # too long, not a valid path, or a cycle of symbolic links


def file_response(path: Path, headers: dict[str, str]) -> Response:
    """Returns a file."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return FileResponse(path, media_type=kind, headers=headers)
