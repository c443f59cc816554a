"""The command `init`: proposes the settings of a lake from captures and files of other records."""

from __future__ import annotations

from pathlib import Path, PurePath

import click

from lowwater.cli import options


@click.command()
@click.argument("given", type=options.CAPTURES, metavar="CAPTURES...", nargs=-1, required=True)
@click.option("--lake", required=True, type=options.LAKE, help="The new lake's folder; made if it is not there.")
@click.option(
    "--query", "queries", multiple=True, type=options.QUERY_FILE, metavar="FILE.gsql", help="A query set; repeats."
)
@click.option(
    "--sample",
    default=3,
    type=click.IntRange(1, 1000),
    help="Files of each link that are read whole; two at least.",
    show_default=True,
)
def init(given: tuple[Path, ...], lake: PurePath, queries: tuple[Path, ...], sample: int) -> None:
    """Proposes the settings of a lake from folders or files of captures, and writes LAKE/lowwater.toml with comments.

    \b
    Files that differ in a date, a counter or their compression are one link, unless they overlap in time: then a number
    in their names tells several links apart. The pattern, how long a file covers and the zone of the dates come from
    the names where no record contradicts them, the skew from the disorder of a sample. What they leave open is said, as
    are hours without a file, cut files, copies and files that are left out. Files of CSV, JSON lines and parquet become
    links with a PROTOCOL block in LAKE/LINK.schema. Nothing is ingested.
    Example:
      lowwater init captures --lake var/lake --query queries/flows.gsql
    """
    from lowwater.cli.proposals import init_lake

    init_lake(given, lake, queries, sample)
