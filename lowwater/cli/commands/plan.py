"""The command `plan`: shows the intervals that a backfill would run, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lowwater.cli import options


@click.command()
@options.INTERVALS
@options.CHANGES
@click.option(
    "--format", "form", default="text", type=click.Choice(["text", "json"]), help="Of the plan.", show_default=True
)
def plan(form: str, files: tuple[Path, ...], skews: tuple[tuple[str, str], ...], **selection: Any) -> None:
    """Shows what a backfill would run, and why: nothing runs.

    \b
    An interval is due if it was never published (missing), if its last run failed (failed), or if its inputs have
    changed (stale): the reason names the query, the capture or the setting. For each interval the table shows how many
    packets it reads ("about" if it reads a part of a file), and how long it takes, estimated from earlier runs. Every
    interval that holds packets is listed. One in which captures begin or end cannot start, unless `until`, `since` or
    the policy of the link permits it, or --through-end. With --with and --skew the plan is that of other queries and
    settings; `lowwater try` runs such a plan beside the lake.
    Example:
      lowwater plan --lake var/lake --from 2026-01-01 --to 2026-01-02
      lowwater plan --lake var/lake --with new/flows.gsql --skew main1=5s
    """
    from lowwater.cli.backfills import IntervalSelection, show_plan
    from lowwater.replay.trial_changes import TrialChanges

    changes = TrialChanges(tuple(file.resolve() for file in files), options.durations(skews))
    show_plan(IntervalSelection(**selection, changes=changes or None), form)
