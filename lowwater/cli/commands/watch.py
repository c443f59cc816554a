"""The command `watch`: a schedule that takes care of itself, without Airflow."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath

import click

from lowwater.cli import options
from lowwater.extras import require


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--once", is_flag=True, help="Look once and end, for cron and for timers of systemd.")
@click.option(
    "--query-set", "names", multiple=True, metavar="NAME", help="Only this one; repeats; default all of them."
)
@click.option("--jobs", default=1, type=click.IntRange(1, 64), help="Intervals at work at once.", show_default=True)
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
@options.SPARK
def watch(lake: PurePath, once: bool, names: tuple[str, ...], jobs: int, queries: Path, spark: str | None) -> None:
    """Keeps a lake right: looks every now and then, ingests what is new, and runs what is due.

    \b
    A look ingests every file that is new or has changed in the folders of the links. Then it runs each interval of the
    last days that is missing, failed, stale, damaged or provisional and can run now, oldest first, and says of the
    others why they cannot start. It remembers nothing: stop it when you like, and what was missed is caught up.
    [schedule] of the settings says how often, how far back, and how long what failed pauses; changed settings and
    queries take effect at the next look. Without --once until SIGINT or SIGTERM; what is at work is finished first.
    Exit code of --once: 1 if something failed, was refused, or is found for the first time that cannot start.
    Examples:
      lowwater watch --lake var/lake
      */10 * * * *  lowwater watch --lake /srv/lake --once
    """
    require("lowwater watch", "quality")
    from lowwater.cli.schedule import watch_lake

    if not watch_lake(lake, names, queries, jobs, once, spark):
        sys.exit(1)
