"""The command `rows`: prints the published rows of a query as a table, CSV or JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from lowwater.cli import options
from lowwater.terminal import open_console, say, shown, styled

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 20
"""Default number of rows in a table."""
NOTES = 5
"""Maximum number of notes on missing intervals; `lowwater status` has all."""


@click.command()
@click.argument("query")
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option("--from", "start", type=options.INSTANT, help="First instant of the rows, ISO 8601.")
@click.option("--to", "end", type=options.INSTANT, help="End of the rows, ISO 8601, exclusive.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help=f"At most so many rows; default {SHOWN} in a table, else all."
)
@click.option(
    "--format",
    "form",
    default="table",
    type=click.Choice(["table", "csv", "json"]),
    help="json: a line a row.",
    show_default=True,
)
@options.INSTANTS
@options.SPREADSHEET
def rows(
    query: str,
    lake: PurePath,
    start: int | None,
    end: int | None,
    limit: int | None,
    form: str,
    instants: bool,
    spreadsheet: bool,
) -> None:
    """Shows the published rows of a query, in the order of time.

    \b
    The time of a row is the last instant it is about (S2), which decides the interval that it belongs to. Addresses are
    texts. Notes on standard error name the intervals of this time that are not published, or not done.
    Example:
      lowwater rows flows --lake var/lake --from 2026-01-01T01:00Z --to 2026-01-01T02:00Z --format csv
    """
    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.results.visible import published_rows
    from lowwater.replay.command.row_files import spreadsheet_rows, with_texts

    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")
    if spreadsheet and form != "csv":
        raise click.UsageError("--spreadsheet goes with --format csv")
    published = published_rows(lake_to_read(lake), query, start, end, instants)
    if limit is None and form == "table":
        limit = SHOWN
    batches = map(with_texts, published.batches(limit))
    _FORMATS[form](
        (*published.columns, *published.instants), map(spreadsheet_rows, batches) if spreadsheet else batches
    )
    count = published.rows if limit is None else min(limit, published.rows)
    if count < published.rows:
        say(f"{count:,} of {published.rows:,} rows; --limit gives more", err=True)
    for note in published.notes[:NOTES]:
        say(f"note: {note}", err=True)
    if len(published.notes) > NOTES:
        say(f"note: and {len(published.notes) - NOTES:,} times more: lowwater status", err=True)


def _table(columns: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> None:
    from rich.table import Table

    table = Table(box=None)
    for name in columns:
        table.add_column(styled(name))
    for batch in batches:
        for row in zip(*(_values(column) for column in batch.columns), strict=True):
            table.add_row(*(styled("NULL" if cell is None else str(cell)) for cell in row))
    open_console().print(table)


def _csv(columns: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    rows = chain.from_iterable(zip(*(_values(column) for column in batch.columns), strict=True) for batch in batches)
    for row in chain([columns], rows):
        writer.writerow([_safe(cell) if isinstance(cell, str) else cell for cell in row])


def _json(_: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        sys.stdout.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())


def _values(column: pa.Array) -> list[Any]:
    from lowwater.replay.command.row_files import csv_values

    return csv_values(column)


def _safe(text: str) -> str:
    """Returns a text without control sequences if the output is a terminal, else unchanged."""
    return shown(text) if sys.stdout.isatty() else text


_FORMATS = {"table": _table, "csv": _csv, "json": _json}
