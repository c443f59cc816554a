"""The command `replay`: replays the intervals of a time range, stage by stage."""

from __future__ import annotations

from pathlib import Path, PurePath

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.extras import require
from lowwater.instants import format_instant
from lowwater.terminal import open_console


@click.command()
@click.argument("query_set")
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--from", "start", required=True, type=options.INSTANT, help="First instant, ISO 8601.")
@click.option("--to", "end", required=True, type=options.INSTANT, help="End, ISO 8601, exclusive.")
@click.option("--stage", type=click.Choice(["low", "high", "audit", "publish"]), help="Only this stage.")
@click.option("--hold", is_flag=True, help="Stop after the audit; --stage publish publishes what it found good.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
@options.SPARK
def replay(
    query_set: str,
    lake: PurePath,
    start: int,
    end: int,
    stage: str | None,
    hold: bool,
    queries: Path,
    spark: str | None,
) -> None:
    """Replays the intervals of a time range: packets/ -> lfta/ -> streams/ -> tables/.

    An interval that is published and whose inputs have not changed is left alone. The query set is a section
    [query_sets.NAME] of lowwater.toml, or NAME.gsql in the folder --queries.
    """
    if stage and hold:
        raise click.UsageError("--stage runs one stage, --hold all but publishing; give one of them")
    require("lowwater replay", "quality")

    from lowwater.replay.interval import STAGES
    from lowwater.replay.interval import replay as replay_intervals
    from lowwater.replay.job import Job
    from lowwater.replay.progress import Progress
    from lowwater.replay.stages.runners import runner_of

    progress = Progress()
    job = Job.open(lake, query_set, queries)
    runner = runner_of("lowwater replay", job.config, progress, spark)
    outcomes = replay_intervals(job, start, end, stage, progress, runner, hold)
    table = Table("interval", "state", "query", "rows", "note", box=None)
    for outcome in outcomes:
        for name, rows in outcome.rows.items():
            unchanged = not outcome.committed and outcome.state not in STAGES
            note = outcome.reason or ("already published from the same inputs" if unchanged else "")
            table.add_row(format_instant(outcome.start), outcome.state, name, f"{rows:,}", note)
    open_console().print(table)
