"""The command `try`: runs changed queries and skews beside the lake, compares their rows, promotes or drops them."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath

import click

from lowwater.cli import options
from lowwater.extras import require

SHOWN = 10
"""Default number of rows that a comparison shows."""


@click.command("try")
@click.argument("name", required=False)
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@options.CHANGES
@click.option("--query-set", metavar="NAME", help="Query set to change; default the one that has the file of --with.")
@click.option("--from", "start", type=options.INSTANT, help="First instant of the intervals to run, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="End of the intervals, ISO 8601, exclusive.")
@click.option("--jobs", default=1, type=click.IntRange(1, 64), help="Intervals at work at once.", show_default=True)
@click.option("--limit", default=SHOWN, type=click.IntRange(0), metavar="N", help="Rows to print.", show_default=True)
@click.option("--promote", is_flag=True, help="Publish the intervals of the trial, once the lake has its changes.")
@click.option("--drop", is_flag=True, help="Remove the trial.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def try_(
    name: str | None,
    lake: PurePath,
    files: tuple[Path, ...],
    skews: tuple[tuple[str, str], ...],
    query_set: str | None,
    start: int | None,
    end: int | None,
    jobs: int,
    limit: int,
    promote: bool,
    drop: bool,
    queries: Path,
) -> None:
    """Tries other queries or skews beside the lake. Without a name it lists the trials.

    \b
    A trial reads the packets of the lake and has everything else of its own: nothing of it is visible to readers of the
    lake. It runs the intervals whose inputs differ from what is published, and shows the rows that differ. To promote
    it, put its query files and skews into place first; then its rows are audited and published, and nothing is
    evaluated again. Exit code 3: the rows differ.
    Example:
      lowwater try wider --lake var/lake --with new/flows.gsql --skew main1=5s --from 2026-01-01 --to 2026-01-02
      lowwater try wider --lake var/lake --promote
    """
    from lowwater.cli.trials import TrialOptions, list_trials, run_trial
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.trial import drop_trial
    from lowwater.replay.trial_changes import TrialChanges
    from lowwater.terminal import say

    if promote and drop:
        raise click.UsageError("give either --promote or --drop")
    if name is None:
        list_trials(lake_to_read(lake))
        return
    if drop:
        drop_trial(lake_to_read(lake), name)
        say(f"trial {name} is dropped")
        return
    require("lowwater try", "quality")
    changes = TrialChanges(tuple(file.resolve() for file in files), options.durations(skews))
    sys.exit(run_trial(TrialOptions(name, lake, queries, query_set, changes, start, end, jobs, limit, promote)))


vars()["try"] = try_  # the name of the module is a word of Python
