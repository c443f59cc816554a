"""The command `serve`: the review pages of a lake in a browser, without Airflow."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import click

from lowwater.cli import options


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
@click.option("--host", default="127.0.0.1", help="Address to listen on.", show_default=True)
@click.option("--port", default=8642, type=click.IntRange(0, 65535), help="0 takes a free one.", show_default=True)
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="File with the token to log in with; others cannot read it."
)
@click.option("--no-login", is_flag=True, help="No token: every user of this machine can read the pages.")
def serve(lake: PurePath, queries: Path, host: str, port: int, token_file: Path | None, no_login: bool) -> None:
    """Serves the review pages and the results of a lake to a browser, until Ctrl-C.

    \b
    Open the address that is printed: it logs in. The token in it is made at the start; --token-file names one that
    stays. Only this machine reaches the pages, unless --host says otherwise: then put TLS before it (a reverse proxy).
    Example:
      lowwater serve --lake var/lake
    """
    from lowwater.extras import require
    from lowwater.terminal import say

    # Arrow reads this once, when it is loaded: its own allocators keep what they once had (ADR 131).
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    require("lowwater serve", "serve")
    from lowwater_review.serving import serve as serve_pages

    serve_pages(lake, queries, host, port, token_file, lambda text: say(text, err=True), not no_login)
