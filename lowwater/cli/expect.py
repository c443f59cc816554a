"""The command `expect`: what audits expect of an interval, and limits that fit what the lake has seen."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.config import Config, load_config
from lowwater.errors import LakeError

if TYPE_CHECKING:
    from lowwater.quality.suggest import Suggestion


@click.command()
@click.option("--lake", type=options.FOLDER, help="The lake's folder; needed for --suggest.")
@click.option("--suggest", is_flag=True, help="Propose limits from the history of the lake.")
def expect(lake: Path | None, suggest: bool) -> None:
    """Shows what audits expect of an interval; with --suggest, limits for lowwater.toml.

    \b
    Each interval that was audited is judged again by those before it. The limit that is proposed is a quarter above
    all but the largest hundredth of what was found; what it would have warned about is shown beside it.
    Example:
      lowwater expect --lake var/lake --suggest
    """
    if not suggest:
        options.console().print(_expectations())
        return
    if lake is None:
        raise click.UsageError("--suggest needs --lake")
    found = _suggestions(lake, load_config(lake))
    options.console().print(_table(found))
    click.echo("\n".join(["", *_toml(found)]))


def _expectations() -> Table:
    from lowwater_expectations import SUITES, read_suite

    table = Table("suite", "expectation", "severity", "what is expected", box=None)
    for name in SUITES:
        for each in read_suite(name).expectations:
            table.add_row(name, each.type.removeprefix("expect_"), each.severity, each.description)
    return table


def _suggestions(root: Path, config: Config) -> list[Suggestion]:
    import pyarrow.compute as pc

    from lowwater.lake.history import read_metrics
    from lowwater.lake.layout import open_lake
    from lowwater.quality.history import past
    from lowwater.quality.suggest import suggestions

    metrics = read_metrics(open_lake(root, make=False))
    known = []
    for name in sorted(pc.unique(metrics.column("query_set")).to_pylist()):
        section = config.query_sets.get(name)
        length = section.interval if section and section.interval else config.interval.length
        mine = metrics.filter(pc.equal(metrics.column("query_set"), name))
        known.append(past(config.history, mine, length))
    found = suggestions(config, known)
    if not found:
        raise LakeError(
            f"{root}: nothing to judge by: fewer than {config.history.least} intervals before any that was audited",
            "audit more intervals, or lower `least` in [history]",
        )
    return found


def _table(found: list[Suggestion]) -> Table:
    table = Table("section", "limit", box=None)
    for name in ("intervals", "median", "largest", "in force", "beyond it", "proposed", "beyond that"):
        table.add_column(name, justify="right")
    for each in found:
        counts = (f"{each.median:.4g}", f"{each.most:.4g}", f"{each.now:g}", f"{each.warned:,}")
        proposed = (f"{each.limit:g}", f"{each.beyond:,}")
        table.add_row(f"[{each.section}]".replace("[", r"\["), each.key, f"{each.judged:,}", *counts, *proposed)
    return table


def _toml(found: list[Suggestion]) -> list[str]:
    """What to write into `lowwater.toml`."""
    lines = []
    for section, limits in groupby(found, key=lambda each: each.section):
        lines += [f"[{section}]", *(f"{each.key} = {{ warning = {each.limit:g}, critical = 1 }}" for each in limits)]
    return lines
