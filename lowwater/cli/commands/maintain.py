"""The command `maintain`: joins small files of a lake and removes unused ones."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lowwater.cli import options
from lowwater.errors import LakeError

if TYPE_CHECKING:
    from lowwater.lake.layout import Lake


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--mend", is_flag=True, help="Take out rows that another program has doubled.")
@click.option("--verify", is_flag=True, help="Only compare what the logs say of each file with the file.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def maintain(lake: PurePath, dry_run: bool, mend: bool, verify: bool, queries: Path) -> None:
    """Joins small files and removes unused ones. Safe at any time, also while intervals run.

    \b
    The files of published hours that no longer change are joined. Files that tables no longer refer to are removed
    after [retention] versions, rows between the stages after [retention] streams, staging of dead runs at once. Rows of
    published tables, packets, and intervals that were audited but not yet published stay. Tables that an older version
    made get the columns of instants, for which their queries must be there. A table whose files another program joined
    beside others has rows twice: it is left alone, until --mend takes them out as its log says.

    --verify reads the footer of every file and changes nothing. Readers choose files by what the logs say: do it once
    with a lake that somebody else gave you. It fails where a log is wrong.
    Example:
      lowwater maintain --lake var/lake --dry-run
    """
    from rich.table import Table

    from lowwater.config import load_config
    from lowwater.lake.commits import MEND
    from lowwater.lake.layout import lake_to_read, open_lake
    from lowwater.lake.maintain import DOUBLED, clock_words
    from lowwater.lake.maintain import maintain as maintain_lake
    from lowwater.replay.taking_over import take_over
    from lowwater.terminal import open_console, say

    if verify:
        _verify(lake_to_read(lake))
        return
    opened, retention = open_lake(lake, make=False), load_config(lake).retention
    actions = take_over(lake, queries, dry_run, lambda name, error: say(f"query set {name}: {error}", err=True))
    actions += maintain_lake(opened, retention, dry_run, mend=mend)
    if words := clock_words(opened):
        say(words, err=True)
    table = Table("what", "where", "files", "bytes", "why", box=None)
    for action in actions:
        table.add_row(action.what, action.where, f"{action.files:,}", f"{action.bytes:,}", action.why)
    open_console().print(table if actions else "nothing to do")
    if twice := [action for action in actions if action.what == DOUBLED]:
        raise LakeError("; ".join(f"{each.where} {each.why}" for each in twice), MEND)


def _verify(lake: Lake) -> None:
    from lowwater.lake.claims import wrong_claims
    from lowwater.terminal import say

    count = 0
    for claim in wrong_claims(lake):
        count += 1
        say(claim)
    if count:
        raise LakeError(
            f"{lake.root}: the logs say something wrong {count:,} times",
            "damage or somebody else did this: do not use these tables; make them again from the captures",
        )
    say("the logs say what the files hold")
