"""The command `rollback`: makes an earlier version of a published interval visible again, and records the act."""

from __future__ import annotations

import getpass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lowwater.cli import options

if TYPE_CHECKING:
    from lowwater.replay.history import VersionChoice


@click.command()
@click.argument("query")
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--at", required=True, type=options.INSTANT, help="Begin of the interval, ISO 8601.")
@click.option("--to", "chosen", type=options.VERSION, help="Version whose rows come back.")
@click.option("--lift", is_flag=True, help="Lift a roll back: the interval is due again.")
@click.option("--because", "why", required=True, metavar="TEXT", help="Reason, for the ledger and the pages.")
@click.option("--by", metavar="NAME", help="Who decided it; default the user of this process.")
@click.option("--dry-run", is_flag=True, help="Only count the rows that would change.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def rollback(
    query: str,
    lake: PurePath,
    at: int,
    chosen: VersionChoice | None,
    lift: bool,
    why: str,
    by: str | None,
    dry_run: bool,
    queries: Path,
) -> None:
    """Makes the rows of an earlier version of a published interval visible again.

    \b
    The act is a commit of its own, and a row of the ledger with who and why. Subscribers get the interval as restated.
    `lowwater status` and the pages show it as rolled back. It stands for the present inputs: the interval runs again
    only once its inputs change, or after --lift. `lowwater history` lists the versions, `lowwater diff` shows what they
    differ in. VERSION is a number, an ISO 8601 instant at which it was the newest, or `previous`.
    Example:
      lowwater rollback flows --lake var/lake --at 2026-01-01T01:00Z --to previous --because "the new skew lost packets"
    """
    from lowwater.replay.rollback import RollbackTarget
    from lowwater.terminal import say

    if lift == (chosen is not None):
        raise click.UsageError("give either --to VERSION or --lift")
    if not why.strip():
        raise click.UsageError("--because needs a reason")
    target = RollbackTarget.find(lake, queries, query, at)
    person = by or getpass.getuser()
    if chosen is None:
        if not dry_run:
            target.lift(person, why)
        say(f"{query}: {'would be' if dry_run else 'is'} due again: `lowwater backfill --lake {lake}` runs it")
        return
    version = chosen.find(target.job.lake, query, (target.start, target.end))
    found = target.compared(version)
    counts = f"{found.added:,} added, {found.gone:,} gone, {found.changed:,} changed, {found.same:,} the same"
    if dry_run:
        say(f"{query}: rolled back to version {version}, rows would be: {counts}")
        return
    rows = target.roll_back(version, person, why)
    say(f"{query}: rolled back to version {version}, {rows:,} rows: {counts}")
