"""The command `backfill`: runs every interval that is due."""

from __future__ import annotations

import sys
from typing import Any

import click

from lowwater.cli import options
from lowwater.extras import require


@click.command()
@options.INTERVALS
@click.option("--jobs", default=1, type=click.IntRange(1, 64), help="Intervals at work at once.", show_default=True)
@click.option(
    "--order",
    default="oldest",
    type=click.Choice(["oldest", "newest", "random"]),
    help="Which intervals begin first; the tables do not depend on it.",
    show_default=True,
)
@options.SPARK
def backfill(jobs: int, order: str, spark: str | None, **selection: Any) -> None:
    """Runs every interval that is due, in one process: what `plan` shows.

    \b
    An interval that fails does not stop the others; the summary names it and the exit code is 1. Stop it when you like:
    started again it goes on with what is left, and the tables are the same. What runs elsewhere is `running`: it is
    waited for at the end, and is no failure.
    Example:
      lowwater backfill --lake var/lake --from 2026-01-01 --to 2026-02-01 --jobs 2
    """
    require("lowwater backfill", "quality")
    from lowwater.cli.backfills import IntervalSelection, run_backfill

    if not run_backfill(IntervalSelection(**selection), jobs, order, spark):
        sys.exit(1)
