"""The command `tail`: prints the rows and promises of a stream as its intervals are published."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from lowwater.cli import options
from lowwater.signals import until_stopped
from lowwater.terminal import shown

if TYPE_CHECKING:
    from lowwater.lake.results.subscription import Change

CONTROL = ("_kind", "_last", "_until", "_version")
"""Columns beside those of the query: row, punctuation or restated; two instants, ns since the epoch; table version."""


@click.command()
@click.argument("stream")
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
@click.option(
    "--from", "start", type=options.INSTANT, help="First instant of the rows, ISO 8601; else the last interval."
)
@click.option("--follow", is_flag=True, help="Wait for more; ends with Ctrl-C or SIGTERM.")
@click.option(
    "--format", "form", default="csv", type=click.Choice(["csv", "json"]), help="json: a line a row.", show_default=True
)
@click.option(
    "--every", default="1s", type=options.DURATION, help="Time between two looks at the log.", show_default=True
)
@options.SPREADSHEET
def tail(
    stream: str, lake: PurePath, start: int | None, follow: bool, form: str, every: int, spreadsheet: bool
) -> None:
    """Prints the rows of a published stream, and what is promised after each interval.

    \b
    A line of kind `punctuation` follows the rows of an interval: no later row has a smaller value in its columns, and
    no `_last` below its own. A line of kind `restated` says that the rows of [_last, _until) are replaced by those that
    follow. Instants are ns since the epoch.
    Example:
      lowwater tail flows --lake var/lake --from 2026-01-01T00:00Z --follow --format json
    """
    from lowwater.lake.results.subscription import newest_begin, subscribe

    if every <= 0:
        raise click.BadParameter("--every must be above 0")
    if spreadsheet and form != "csv":
        raise click.UsageError("--spreadsheet goes with --format csv")
    begin = newest_begin(lake, stream) if start is None else start
    with subscribe(lake, stream, since=begin, wait=every / 1e9) as subscription, until_stopped(subscription.stop):
        write: Callable[[Change], None] = (
            _Csv(subscription.columns, spreadsheet) if form == "csv" else _Json(subscription.columns)
        )
        changes = iter(subscription) if follow else iter(subscription.poll, None)
        for change in changes:
            write(change)
            sys.stdout.flush()


class _Csv:
    """Writes changes as CSV, also such that no text is a formula of a spreadsheet."""

    def __init__(self, columns: tuple[str, ...], spreadsheet: bool) -> None:
        from lowwater.replay.command.row_files import spreadsheet_cell, spreadsheet_rows

        self._rows = spreadsheet_rows if spreadsheet else None
        self._columns, self._writer = columns, csv.writer(sys.stdout, lineterminator="\n")
        self._writer.writerow([*(map(spreadsheet_cell, columns) if spreadsheet else columns), *CONTROL])

    def __call__(self, change: Change) -> None:
        if change.late:
            self._control("restated", change, {}, change.start, change.end)
        for batch in map(self._rows, change.batches()) if self._rows else change.batches():
            for values in zip(*(_values(column) for column in batch.columns), strict=True):
                cells = [_safe(value) if isinstance(value, str) else value for value in values[:-1]]
                self._writer.writerow([*cells, "row", values[-1], "", change.version])
        self._control("punctuation", change, change.promise, max(change.furthest, change.end), None)

    def _control(self, kind: str, change: Change, values: Any, last: int, until: int | None) -> None:
        cells = [values.get(name, "") for name in self._columns]
        self._writer.writerow([*cells, kind, last, "" if until is None else until, change.version])


class _Json:
    """Writes changes as JSON lines."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns

    def __call__(self, change: Change) -> None:
        if change.late:
            self._line({"_kind": "restated", "_last": change.start, "_until": change.end, "_version": change.version})
        for row in change.rows():
            last = row.pop("_last")
            self._line({**row, "_kind": "row", "_last": last, "_version": change.version})
        values = {name: change.promise.get(name) for name in self._columns}
        last = max(change.furthest, change.end)
        self._line({**values, "_kind": "punctuation", "_last": last, "_version": change.version})

    def _line(self, values: dict[str, Any]) -> None:
        sys.stdout.writelines([json.dumps(values) + "\n"])


def _values(column: Any) -> list[Any]:
    from lowwater.replay.command.row_files import csv_values

    return csv_values(column)


def _safe(text: str) -> str:
    """Returns a text without control sequences if the output is a terminal, else unchanged."""
    return shown(text) if sys.stdout.isatty() else text
