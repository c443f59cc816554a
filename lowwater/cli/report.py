"""What `lowwater report` does: the verdicts of the audits, where the pages of the report are, the review as files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.config import format_instant, load_config
from lowwater.errors import LakeError
from lowwater.lake.coverage import tolerated_lines
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.outside import outside_lines
from lowwater.lake.records import read_quarantine
from lowwater.quality.pages import INDEX
from lowwater.quality.verdicts import Audited, audited, findings


def show_report(root: Path, interval: int | None) -> None:
    """Prints what the audits of a lake found.

    Args:
        root: of the lake.
        interval: begin of the only interval to show, in detail; None for all.

    Raises:
        LakeError: nothing was audited, or not this interval.
    """
    lake = open_lake(root, make=False)
    audits = audited(lake)
    if not audits:
        raise LakeError(f"{lake.root}: no interval has been audited yet", "the audit is a stage of `lowwater replay`")
    chosen = [each for each in audits if interval in (None, each.start)]
    if not chosen:
        starts = sorted({each.start for each in audits})
        known = f"{format_instant(starts[0])} to {format_instant(starts[-1])}" if len(starts) > 1 else ""
        raise LakeError(
            f"no audited interval begins at {format_instant(interval or 0)}",
            f"{len(starts)} were, from {known}" if known else f"the only one begins at {format_instant(starts[0])}",
        )
    for each in chosen:
        _show(lake, each, detailed=interval is not None)
    config = load_config(root)
    for line in (*outside_lines(lake, config), *tolerated_lines(lake, config)):
        click.echo(options.printable(line))
    click.echo(f"all intervals: {lake.reports / INDEX}")


def write_pages(root: Path, queries: Path, folder: Path) -> None:
    """Writes the review pages of a lake as files.

    Raises:
        LakeError: the lake cannot be read, or the folder not be written.
    """
    from lowwater_review import Board, write_site

    count = write_site(Board(root, queries), folder)
    click.echo(f"{count} pages: {folder / 'index.html'}")


def _show(lake: Lake, audit: Audited, detailed: bool) -> None:
    click.echo(f"{audit.query_set}, {audit.interval}: {audit.verdict}")
    all_of_them = tuple((each.severity, message) for each in audit.failures for message in each.messages)
    for severity, message in all_of_them if detailed else audit.brief:
        click.echo(f"  {severity}: {message}")
    if detailed:
        options.console().print(_expectations(lake, audit))
    click.echo(f"  page: {lake.reports / audit.page}")


def _expectations(lake: Lake, audit: Audited) -> Table:
    rows = read_quarantine(lake, audit.query_set, audit.start, audit.end)
    kept = Counter(rows.column("expectation").to_pylist())
    subjects = {(row["expectation"], row["subject"]): row["total"] for row in rows.to_pylist()}
    total: Counter[str] = Counter()
    for (expectation, _), count in subjects.items():
        total[expectation] += count
    table = Table("suite", "expectation", "severity", "found", "rows in quarantine", box=None)
    for each in findings(lake, audit):
        found = "holds" if each.success else f"{each.unexpected} of {each.evaluated} fail"
        held = f"{kept[each.expectation]:,} of {total[each.expectation]:,}" if kept[each.expectation] else ""
        table.add_row(each.suite, each.kind.removeprefix("expect_"), each.severity, found, held)
    return table
