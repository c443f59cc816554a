"""The command `plan`: what a backfill would run, and why."""

from __future__ import annotations

from typing import Any

import click

from lowwater.cli import options


@click.command()
@options.INTERVALS
@click.option(
    "--format", "form", default="text", type=click.Choice(["text", "json"]), help="Of the plan.", show_default=True
)
def plan(form: str, **asked: Any) -> None:
    """Shows what a backfill would run, and why: nothing runs.

    \b
    An interval is due if it was never published (missing), if its last run failed (failed), or if what it was published
    from has changed (stale): the reason names the query, the capture or the setting. Of each: how many packets it
    reads ("about" where a file of them is read in part), and about how long it takes by the runs before. Every interval
    that holds packets is listed; one in which captures begin or end cannot start: `until`, `since` or the policy of the
    link let it, or --through-end.
    Example:
      lowwater plan --lake var/lake --from 2026-01-01 --to 2026-01-02
    """
    from lowwater.cli.backfills import Asked, show_plan

    show_plan(Asked(**asked), form)
