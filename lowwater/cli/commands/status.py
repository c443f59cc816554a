"""The command `status`: shows the state of every interval."""

from __future__ import annotations

from itertools import chain
from pathlib import Path, PurePath

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.terminal import open_console, say, styled


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def status(lake: PurePath, queries: Path) -> None:
    """Shows every interval of every query set: missing, provisional, done, incomplete, stale, damaged, failed, cannot
    start.

    Intervals one after another in which nothing is recorded are one line, with their number.
    """
    from lowwater.config import load_config
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.ledgers.coverage import tolerated_lines, undeclared_lines
    from lowwater.lake.ledgers.interval_states import BLOCKED, DAMAGED
    from lowwater.lake.ledgers.outside import outside_lines
    from lowwater.lake.ledgers.runs import FAILED
    from lowwater.lake.ledgers.seen import unread_lines
    from lowwater.lake.ledgers.shared import shared_lines
    from lowwater.lake.ledgers.timetable import range_words
    from lowwater.lake.results.table_state import stray_lines
    from lowwater.replay.interval import statuses

    table = Table("interval", "query set", "query", "state", "reason", box=None)
    unplanned: list[str] = []
    for row in statuses(lake, queries, lambda name, error: unplanned.append(f"query set {name}: {error}")):
        state = styled(row.shown, "bold red" if row.shown in (BLOCKED, DAMAGED, FAILED) else "")
        table.add_row(range_words(row.start, row.end, row.intervals), row.query_set, row.query, state, row.why)
    none = f"no interval: {lake} has no captures, or no query set in {queries} (--queries) reads them"
    if table.row_count or not unplanned:
        open_console().print(table if table.row_count else none)
    opened, config = lake_to_read(lake), load_config(lake)
    lines = outside_lines(opened, config), tolerated_lines(opened, config), undeclared_lines(opened, config)
    more = shared_lines(opened), unread_lines(opened, config), stray_lines(opened)
    for line in chain(*lines, *more):
        say(line)
    for problem in unplanned:
        say(problem, err=True)
