"""The commands that show and do what is due: `plan` and `backfill`.

Beside `cli.main`, which takes them up; as there, what a command does is imported when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from lowwater.cli import options
from lowwater.replay.warmup import launch_jvm_early


def _RANGE(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which intervals of which query sets: shared by both commands."""
    for option in (
        click.option("--lake", required=True, type=options.FOLDER, help="The lake's folder."),
        click.option("--from", "start", type=options.INSTANT, help="First instant, ISO 8601; else the first capture."),
        click.option("--to", "end", type=options.INSTANT, help="End, ISO 8601, exclusive; else the last capture."),
        click.option(
            "--query-set", "names", multiple=True, metavar="NAME", help="Only this one; repeats; default all of them."
        ),
        click.option(
            "--only",
            "kinds",
            multiple=True,
            type=click.Choice(["missing", "failed", "stale"]),
            help="Only intervals in this state; repeats.",
        ),
        click.option(
            "--through-end",
            is_flag=True,
            help="Also intervals that captures cover only from a link's first one on, or up to its last: incomplete.",
        ),
        click.option(
            "--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True
        ),
    ):
        command = option(command)
    return command


@click.command()
@_RANGE
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


@click.command()
@_RANGE
@click.option("--jobs", default=1, type=click.IntRange(1, 64), help="Intervals at work at once.", show_default=True)
@click.option(
    "--order",
    default="oldest",
    type=click.Choice(["oldest", "newest", "random"]),
    help="Which intervals begin first; the tables do not depend on it.",
    show_default=True,
)
def backfill(jobs: int, order: str, **asked: Any) -> None:
    """Runs every interval that is due, in one process: what `plan` shows.

    \b
    An interval that fails does not stop the others; the summary names it and the exit code is 1. Stop it when you like:
    started again it goes on with what is left, and the tables are the same.
    Example:
      lowwater backfill --lake var/lake --from 2026-01-01 --to 2026-02-01 --jobs 2
    """
    launch_jvm_early()
    from lowwater.cli.backfills import Asked, run_backfill

    if not run_backfill(Asked(**asked), jobs, order):
        sys.exit(1)
