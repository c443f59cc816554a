"""The command `lowwater lsp`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from lowwater.cli import options


@click.command()
@options.DEFINITIONS
def lsp(
    links: Path | None,
    schemas: tuple[Path, ...],
    functions: tuple[Path, ...],
    params: tuple[tuple[str, str], ...],
    dialect: str,
) -> None:
    """Serves the Language Server Protocol on standard input and output; an editor starts it.

    \b
    It gives the mistakes of `lowwater check` as one types, completions, meanings, definitions and formatting. Without
    --links it takes the lowwater.toml beside a query file or above it. It runs no Python of MODULE files.
    Example:
      lowwater lsp --links var/lake/lowwater.toml
    """
    from lowwater.extras import require

    require("lowwater lsp", "editor")
    from .checking import Options
    from .server import Messages, make_server

    source: Any = Messages(sys.stdin.buffer)
    make_server(Options(links, schemas, functions, params, dialect)).start_io(source)
