"""The command `check`: reports every error of query files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from lowwater.cli import options


@click.command()
@options.QUERY_FILES
@click.option(
    "--format", "form", default="text", type=click.Choice(["text", "json"]), help="Of the errors.", show_default=True
)
@click.option("--lake", type=options.LAKE, help="A lake whose links and settings the queries are to fit.")
@options.DEFINITIONS
def check(files: tuple[Path, ...], form: str, **definitions: Any) -> None:
    """Parses and plans query files and reports every error; for editors and CI. Exits with 1 if there is one.

    \b
    With --links or --lake a query may read only what the links keep, as applications = ["dns"] of a link does. With
    --lake, files of one of its query sets are checked as that set: with its other files, schemas and parameters.

    \b
    The JSON is {"errors": [{"file", "line", "column", "message", "hint", "source", "kind"}], "notes": [...]}.
    Examples:
      lowwater check queries/*.gsql --format json
      lowwater check queries/*.gsql --lake var/lake
    """
    from lowwater.cli.queries import check_files

    if not check_files(files, form, **definitions):
        sys.exit(1)
