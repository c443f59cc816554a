"""The command `inspect`: shows facts of captures, without a lake."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lowwater.cli import options


@click.command()
@click.argument("files", nargs=-1, required=True, type=options.ANY_CAPTURE, metavar="FILE...")
@click.option(
    "--format",
    "form",
    default="table",
    type=click.Choice(["table", "json", "csv"]),
    help="json is described by docs/inspect.schema.json.",
    show_default=True,
)
@click.option(
    "--max-jump",
    type=options.DURATION,
    help="How far ahead of its neighbours a timestamp may be; default skew + 60 s.",
)
@click.option(
    "--skew", default="1s", type=options.DURATION, help="The disorder whose refusals are counted.", show_default=True
)
@click.option(
    "--duplicates",
    type=options.DURATION,
    metavar="WINDOW",
    help="Count the packets whose bytes came at most WINDOW earlier, as 50ms.",
)
@click.option(
    "--duplicate-bytes",
    "compared",
    type=click.Choice(["content", "packet"]),
    default="content",
    help="The bytes above the link layer that are equal in duplicates: without TTL, hop limit and checksums, or all.",
    show_default=True,
)
@options.SPREADSHEET
def inspect(
    files: tuple[Path, ...],
    form: str,
    max_jump: int | None,
    skew: int,
    duplicates: int | None,
    compared: str,
    spreadsheet: bool,
) -> None:
    """Says what captures hold: packets, times, rates, order, gaps, protocols, damage. No lake.

    \b
    A file that cannot be read is an error of its own: the others are still inspected, and the exit code is 1.
    The file - is standard input.
    Example:
      lowwater inspect captures/main1/*.pcap --format json
    """
    from lowwater.cli.inspection.captures import inspect_files

    if spreadsheet and form != "csv":
        raise click.UsageError("--spreadsheet goes with --format csv")
    if not inspect_files(files, form, max_jump, skew, spreadsheet, duplicates, compared):
        sys.exit(1)
