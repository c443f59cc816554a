"""The command `history`: the versions of a published table, when and why each was made."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import PurePath

import click

from lowwater.cli import options

SHOWN = 20
"""Versions that are listed."""


@click.command()
@click.argument("query")
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--at", type=options.INSTANT, help="Only versions of the interval that begins here, ISO 8601.")
@click.option(
    "--limit", default=SHOWN, type=click.IntRange(1), metavar="N", help="Versions to list.", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, instants in ns.")
def history(query: str, lake: PurePath, at: int | None, limit: int, as_json: bool) -> None:
    """Lists the versions of a published table, newest first: which interval, when, why, how many rows.

    \b
    A version is a commit that changed rows; `lowwater diff` compares two of them, `lowwater rollback` brings the rows
    of one back. Why: how the inputs differ from those of the version of this interval before.
    Example:
      lowwater history flows --lake var/lake --at 2026-01-01T01:00Z
    """
    from rich.table import Table

    from lowwater.instants import SECOND, format_instant
    from lowwater.lake.layout import lake_to_read
    from lowwater.replay.history import published_versions
    from lowwater.replay.schedule.compared import interval_of
    from lowwater.terminal import open_console, say, styled

    opened = lake_to_read(lake)
    span = interval_of(opened, query, at) if at is not None else None
    versions = published_versions(opened, query, span, limit)
    if as_json:
        say(json.dumps([asdict(version) for version in versions]))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("version", "interval", "made", "what", "state", "rows", "why"):
        table.add_column(name, overflow="fold", justify="right" if name in ("version", "rows") else "left")
    for each in versions:
        table.add_row(
            str(each.version),
            format_instant(each.start) if each.start is not None else "",
            format_instant(each.at // SECOND * SECOND),
            each.what,
            each.state,
            f"{each.rows:,}" if each.rows is not None else "",
            styled("; ".join(each.why), fold=True),
        )
    open_console().print(table)
    if len(versions) == limit:
        say(f"the newest {limit}; --limit N lists more")
