"""The command `diff`: what changed in a published table between two of its versions."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from lowwater.cli import options

if TYPE_CHECKING:
    from lowwater.replay.history import VersionChoice

SHOWN = 20


@click.command()
@click.argument("query")
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--from", "before", required=True, type=options.VERSION, help="The earlier version.")
@click.option("--with", "after", type=options.VERSION, help="The later one; default the newest.")
@click.option("--at", type=options.INSTANT, help="Only the interval that begins here, ISO 8601; default all rows.")
@click.option("--limit", default=SHOWN, type=click.IntRange(0), metavar="N", help="Rows to print.", show_default=True)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print.", show_default=True
)
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def diff(
    query: str,
    lake: PurePath,
    before: VersionChoice,
    after: VersionChoice | None,
    at: int | None,
    limit: int,
    form: str,
    queries: Path,
) -> int:
    """Shows the rows that were added, that are gone and that changed between two versions of a published table.

    \b
    Rows are the same row if the columns of the query's unique key are equal. A version is a commit of the table: each
    publication of an interval makes one; `lowwater history` lists them. VERSION is its number, an ISO 8601 instant at
    which it was the newest, or `previous`: the one before the newest publication, with --at of this interval. Exit code
    0 if the rows are the same, 3 if they differ.
    Example:
      lowwater diff flows --lake var/lake --at 2026-01-01T01:00Z --from previous
    """
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.results.comparing import TableDiff, compare
    from lowwater.lake.results.exploring import result_table
    from lowwater.replay.schedule.compared import interval_of, key_of
    from lowwater.terminal import say

    opened = lake_to_read(lake)
    span = interval_of(opened, query, at) if at is not None else None
    later = result_table(opened, query, after.find(opened, query, span) if after else None)
    earlier = result_table(opened, query, before.find(opened, query, span))
    start, end = span or (0, 1 << 62)
    compared: TableDiff = compare(earlier, later, key_of(lake, queries, query), start, end, limit)
    if form == "json":
        examples = [
            {
                "what": kind,
                "before": old and _named(compared.columns, old),
                "after": new and _named(compared.columns, new),
            }
            for kind, old, new in compared.examples
        ]
        counts = {name: getattr(compared, name) for name in ("same", "added", "gone", "changed")}
        versions = {"before": earlier.version, "after": later.version}
        say(json.dumps({**versions, "key": compared.key, **counts, "examples": examples}, default=str))
        return 0 if compared.equal else 3
    by = f"by {', '.join(compared.key)}" if compared.key else "whole rows, since the plan shows no unique key"
    say(f"{query}: version {earlier.version} to {later.version}, {by}")
    say(f"{compared.added:,} added, {compared.gone:,} gone, {compared.changed:,} changed, {compared.same:,} the same")
    for kind, old, new in compared.examples:
        sign = {"added": "+", "gone": "-", "changed": "~"}[kind]
        say(f"{sign} {row_text(compared.columns, old, new)}")
    return 0 if compared.equal else 3


def _named(columns: tuple[str, ...], row: tuple[object, ...]) -> dict[str, object]:
    return dict(zip(columns, row, strict=True))


def row_text(columns: tuple[str, ...], old: tuple[object, ...] | None, new: tuple[object, ...] | None) -> str:
    """Returns a row as `column=value`; a changed value as `column=before -> after`."""
    first, second = old or new or (), new or old or ()
    parts = []
    for name, a, b in zip(columns, first, second, strict=True):
        parts.append(f"{name}={a!r}" if a == b else f"{name}={a!r} -> {b!r}")
    return " ".join(parts)
