"""The command `plan`: shows the intervals that a backfill would run, and why."""

from __future__ import annotations

from typing import Any

import click

from lowwater.cli import options


@click.command()
@options.INTERVALS
@click.option(
    "--format", "form", default="text", type=click.Choice(["text", "json"]), help="Of the plan.", show_default=True
)
def plan(form: str, **selection: Any) -> None:
    """Shows what a backfill would run, and why: nothing runs.

    \b
    An interval is due if it was never published (missing), if its last run failed (failed), or if its inputs have
    changed (stale): the reason names the query, the capture or the setting. For each interval the table shows how many
    packets it reads ("about" if it reads a part of a file), and how long it takes, estimated from earlier runs. Every
    interval that holds packets is listed. One in which captures begin or end cannot start, unless `until`, `since` or
    the policy of the link permits it, or --through-end.
    Example:
      lowwater plan --lake var/lake --from 2026-01-01 --to 2026-01-02
    """
    from lowwater.cli.backfills import IntervalSelection, show_plan

    show_plan(IntervalSelection(**selection), form)
