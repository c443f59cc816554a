"""The command `maintain`: joins small files of a lake and removes unused ones."""

from __future__ import annotations

from pathlib import PurePath

import click

from lowwater.cli import options


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def maintain(lake: PurePath, dry_run: bool) -> None:
    """Joins small files and removes unused ones. Safe at any time, also while intervals run.

    \b
    The files of published hours that no longer change are joined. Files that tables no longer refer to are removed
    after [retention] versions, rows between the stages after [retention] streams, staging of dead runs at once. Rows of
    published tables, packets, and intervals that were audited but not yet published stay.
    Example:
      lowwater maintain --lake var/lake --dry-run
    """
    from rich.table import Table

    from lowwater.config import load_config
    from lowwater.lake.layout import open_lake
    from lowwater.lake.maintain import maintain as maintain_lake
    from lowwater.terminal import open_console

    actions = maintain_lake(open_lake(lake, make=False), load_config(lake).retention, dry_run)
    table = Table("what", "where", "files", "bytes", box=None)
    for action in actions:
        table.add_row(action.what, action.where, f"{action.files:,}", f"{action.bytes:,}")
    open_console().print(table if actions else "nothing to do")
