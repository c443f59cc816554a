"""The command `report`: shows the results of the audits as text, or writes the review pages."""

from __future__ import annotations

from pathlib import Path, PurePath

import click

from lowwater.cli import options


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--interval", type=options.INSTANT, help="Only the interval that begins here, ISO 8601, in detail.")
@click.option("--html", type=options.FOLDER, metavar="DIR", help="Write the review pages of the whole lake here.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def report(lake: PurePath, interval: int | None, html: Path | None, queries: Path) -> None:
    """Shows what the audits found: verdicts, what failed, and where the pages of the data-quality report are.

    \b
    passed and warned intervals are published, failed ones are not; --interval shows every expectation of one interval
    and how many of its rows are in quarantine. Intervals that were never audited, cannot start or are not done are
    listed with the reason; the summary counts each interval once.
    --html writes the calendar of all intervals, a page for each of them, plans, skew reviews and the Data Docs, as
    files that need no server and no network.
    Example:
      lowwater report --lake var/lake --interval 2026-01-01T01:00Z
    """
    from lowwater.cli.report import show_report, write_pages

    if html is not None and interval is not None:
        raise click.UsageError("--html writes the pages of all intervals; leave out --interval")
    if html is not None:
        write_pages(lake, queries, html)
    else:
        show_report(lake, interval, queries)
