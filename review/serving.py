"""Serves the review pages without Airflow, for `lowwater serve`: on this machine alone unless told otherwise.

Whoever reaches another address than loopback needs a token. `app` has the routes, `login` the door before them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from lowwater.errors import LowwaterError
from lowwater.hosts import is_loopback, known_names
from lowwater.storage.untrusted import open_file

from .app import create
from .ledgers import Ledgers, Snapshot, kept_by_snapshot
from .login import App, Door
from .memory import give_back, spare_memory
from .pages import render

if TYPE_CHECKING:
    import uvicorn

LOOK = 5.0
"""Seconds between two looks at the ledgers."""
THREADS = 4
"""Pages that are made at a time; each thread has open tables of its own."""
WARM = ("index.html", "skew/index.html", "trends/index.html")
"""Pages that are made once before the server answers: they compute what is kept as long as no ledger changes."""
OTHERS = stat.S_IRWXO | stat.S_IWGRP
"""Rights that no token file may give. A group may read it: so secrets come into the containers of a cluster."""
HEADERS = 64 << 10
"""Most bytes of a request line and headers that are waited for."""
AT_ONCE = 200
"""Most requests at a time; a further one is refused."""
SHORTEST, LONGEST = 16, 4096
"""Fewest characters of a token, and most bytes of its file."""


@dataclass(frozen=True)
class Access:
    """Who may read the pages."""

    token: str | None  # what everybody has to bring; None if reaching the address is enough
    hosts: frozenset[str] | None  # permitted names of the host; None for every name


def access(host: str, token_file: Path | None, login: bool = True) -> Access:
    """Decides who may read the pages that listen on a host.
    Raises LowwaterError if the file cannot be read, others may read it, its token is too short, or everybody beyond
    this machine could read the pages.

    Args:
        token_file: file with the token; None for a new token.
        login: whether a token is asked for; without, every user of this machine can read the pages.
    """
    local, hosts = is_loopback(host), known_names(host)
    if not login and not local:
        raise LowwaterError(f"--no-login: others reach --host {host}", "leave one of the two options out")
    if not login:
        return Access(None, hosts)
    if token_file is None:
        return Access(secrets.token_urlsafe(32), hosts)
    try:
        with open_file(token_file) as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(LONGEST).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LowwaterError(f"--token-file {token_file}: cannot be read: {error}", "name a text file") from error
    if mode & OTHERS:
        raise LowwaterError(
            f"--token-file {token_file}: other users of this machine can read or change it",
            f"chmod o-rwx,g-w {shlex.quote(str(token_file))}",
        )
    if len(token) < SHORTEST:
        raise LowwaterError(
            f"--token-file {token_file}: the token has {len(token)} characters, and {SHORTEST} are the fewest",
            "leave --token-file out, and a token is made",
        )
    return Access(token, hosts)


def guarded(ledgers: Ledgers, allowed: Access) -> App:
    """Builds the app of a lake with the door before it."""
    return Door(create(ledgers), allowed.token, allowed.hosts)


def make_server(app: App) -> uvicorn.Server:
    """Returns the web server of an app, which is bounded in what it takes and in how long it waits."""
    import uvicorn

    from .connections import Connection

    config = uvicorn.Config(
        app,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        ws="none",
        # Its parser bounds what is taken into memory before the door sees a request; the faster one does not.
        http=Connection,
        h11_max_incomplete_event_size=HEADERS,
        limit_concurrency=AT_ONCE,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Opens the socket of the server; port 0 takes a free one.
    Raises LowwaterError if the address is not of this machine, or its port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise LowwaterError(
            f"--host {host} --port {port}: cannot be listened on: {error.strerror or error}",
            "give another --port, or an address of this machine",
        ) from error


def serve(
    root: PurePath,
    queries: Path,
    host: str,
    port: int,
    token_file: Path | None,
    tell: Callable[[str], None],
    login: bool = True,
) -> None:
    """Serves the pages until the process is interrupted. Raises LowwaterError if there is no lake, the address cannot
    be listened on, or the token is not usable. `tell`: gets the address; one that logs in, if a token was made."""
    allowed = access(host, token_file, login)
    spare_memory()
    ledgers = Ledgers(root, queries)
    with listen(host, port) as opened:

        def ready() -> None:
            name = f"[{host}]" if ":" in host else host
            address = f"http://{name}:{opened.getsockname()[1]}/"
            made = allowed.token is not None and token_file is None
            tell(f"{address}login?token={allowed.token}" if made else address)

        asyncio.run(_answer(make_server(guarded(ledgers, allowed)), ledgers, opened, ready))


async def _answer(server: uvicorn.Server, ledgers: Ledgers, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Answers with few threads; the pages that take longest are made once before anybody asks for them.

    Args:
        server: the web server.
        opened: the socket to listen on.
        ready: is called once the pages are made and the server answers.
    """
    from anyio import to_thread

    to_thread.current_default_thread_limiter().total_tokens = THREADS
    await to_thread.run_sync(ledgers.now)
    await to_thread.run_sync(warm, ledgers)
    serving = asyncio.create_task(server.serve(sockets=[opened]))
    while not server.started and not serving.done():  # before, a signal would not end it in order
        await asyncio.sleep(0.01)
    ready()
    warming = asyncio.create_task(_keep_warm(ledgers))
    await serving
    warming.cancel()


async def _keep_warm(ledgers: Ledgers) -> None:
    """Makes the pages again soon after a ledger has changed, in a tenth of the time at most."""
    from anyio import to_thread

    took = 0.0
    while True:
        await asyncio.sleep(max(LOOK, 10 * took))
        begin = time.monotonic()
        await to_thread.run_sync(warm, ledgers)
        took = time.monotonic() - begin


def warm(ledgers: Ledgers) -> None:
    """Makes the pages that compute most, so that nobody waits for them; nothing where no ledger has changed."""
    with suppress(LowwaterError):  # the page says it
        _warm(ledgers.now())


@kept_by_snapshot
def _warm(snapshot: Snapshot) -> None:
    for address in WARM:
        render(snapshot, address, served=True)
        give_back()
