"""The commands that bring captures in: `init` proposes settings from a folder, `ingest` reads captures into the lake.

Beside `cli.main`, which takes them up; as there, what a command does is imported when it runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lowwater.cli import options


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="CAPTURES")
@click.option("--lake", required=True, type=options.FOLDER, help="The new lake's folder; made if it is not there.")
@click.option("--query", "queries", multiple=True, type=options.FILE, metavar="FILE.gsql", help="A query set; repeats.")
@click.option(
    "--sample",
    default=3,
    type=click.IntRange(1, 1000),
    help="Files of each link that are read whole; two at least.",
    show_default=True,
)
def init(folder: Path, lake: Path, queries: tuple[Path, ...], sample: int) -> None:
    """Proposes the settings of a lake from a folder of captures, and writes LAKE/lowwater.toml with comments.

    \b
    Files that differ in a date, a counter or their compression are one link, unless they overlap in time: then a number
    in their names tells several links apart. The pattern, how long a file covers and the zone of the dates come from
    the names where no record contradicts them, the skew from the disorder of a sample. Nothing is ingested.
    Example:
      lowwater init captures --lake var/lake --query queries/flows.gsql
    """
    from lowwater.cli.proposals import init_lake

    init_lake(folder, lake, queries, sample)


@click.command()
@click.option("--lake", required=True, type=options.FOLDER, help="The lake's folder; made if it is not there.")
@click.option("--link", help="The link that the captures were taken on; needed with FILE.")
@click.option(
    "--covers", type=options.SPAN, metavar="FROM/TO", help="What the one capture covers, as ISO 8601 instants."
)
@click.option("--growing", is_flag=True, help="The captures are still being written: they cover what they hold so far.")
@click.option("--from", "start", type=options.INSTANT, help="Without FILE: only files that cover something from here.")
@click.option("--to", "end", type=options.INSTANT, help="Without FILE: only files that cover something before.")
@click.argument("files", nargs=-1, type=options.FILE)
def ingest(
    lake: Path,
    link: str | None,
    covers: tuple[int, int] | None,
    growing: bool,
    start: int | None,
    end: int | None,
    files: tuple[Path, ...],
) -> None:
    """Reads captures into the lake: one atomic commit a capture; the same file again adds nothing.

    \b
    Without FILE: the new and the changed files of every link's pattern in lowwater.toml.
    What a capture covers is, in this order: --covers; in lowwater.toml [links.NAME.covers], then the rotation of the
    link's file pattern; else from its first record to its last. An interval is replayed only where its links' captures
    leave no gap.
    A capture that has grown, or changed under its name, replaces what was read of it before. Each interface of a
    capture that has several is a link of its own, LINK/INTERFACE; FROM LINK reads all of them.
    Examples:
      lowwater ingest --lake var/lake
      lowwater ingest --lake var/lake --link main1 captures/main1/*.pcap
    """
    from lowwater.cli.captures import ingest_captures, ingest_patterns
    from lowwater.config import section_of

    if not files:
        if covers or growing:
            raise click.UsageError("--covers and --growing describe captures that are named; give FILE")
        if not ingest_patterns(lake, link, start, end):
            sys.exit(1)
        return
    if link is None:
        raise click.UsageError("captures that are named are of a link: give --link")
    if start is not None or end is not None:
        raise click.UsageError("--from and --to choose among the files of patterns; leave them out, or FILE")
    if covers and len(files) > 1:
        section = section_of(link, "covers")
        raise click.UsageError(f"--covers describes one capture: give one file, or write a line for each in {section}")
    ingest_captures(lake, link, covers, growing, files)
