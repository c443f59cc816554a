"""The command `expect`: lists expectations of the audits, proposes limits from history, and writes custom suites.

The custom suites are files that `quality.suites` reads.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click
from rich.table import Table

from lowwater.cli import options
from lowwater.errors import LakeError
from lowwater.storage import paths
from lowwater.terminal import open_console, say

if TYPE_CHECKING:
    from lowwater.config import Config
    from lowwater.quality.history import LimitProposal


@click.command()
@click.option("--lake", type=options.LAKE, help="The lake's folder; needed for --suggest.")
@click.option("--suggest", is_flag=True, help="Propose limits from the history of the lake.")
@click.option("--query-set", metavar="NAME", help="What is expected of the rows of its queries, as suites in JSON.")
@click.option("--write", is_flag=True, help="Write the suites of --query-set that are not there yet.")
@click.option("--queries", default="queries", type=options.FOLDER, help="Folder of query sets.", show_default=True)
def expect(lake: PurePath | None, suggest: bool, query_set: str | None, write: bool, queries: Path) -> None:
    """Shows what audits expect of an interval; with --suggest, limits for lowwater.toml.

    \b
    With --suggest every audited interval is compared again with the intervals before it. A proposed limit is a quarter
    above the 99 % quantile of the differences; the table shows how many intervals it would have warned about.
    With --query-set the command shows the suites LAKE/expectations/QUERY_SET/QUERY.json, or a suite to start with.
    Examples:
      lowwater expect --lake var/lake --suggest
      lowwater expect --lake var/lake --query-set flows --write
    """
    if query_set is not None:
        if lake is None or suggest:
            raise click.UsageError("--query-set needs --lake, and goes without --suggest")
        _suites(lake, query_set, queries, write)
        return
    if write:
        raise click.UsageError("--write needs --query-set")
    if not suggest:
        open_console().print(_expectations())
        return
    if lake is None:
        raise click.UsageError("--suggest needs --lake")
    from lowwater.config import load_config

    proposals = _suggestions(lake, load_config(lake))
    open_console().print(_table(proposals))
    say("\n".join(["", *_toml(proposals)]))


def _expectations() -> Table:
    from lowwater_expectations import SUITES, read_suite

    table = Table("suite", "expectation", "severity", "what is expected", box=None)
    for name in SUITES:
        for expectation in read_suite(name).expectations:
            table.add_row(name, expectation.meta["rule"], expectation.severity, expectation.description)
    return table


def _suites(root: PurePath, query_set: str, queries: Path, write: bool) -> None:
    """Prints the suite of each query, or writes the missing suites."""
    from lowwater.quality.suites import starting_suite, suite_file
    from lowwater.replay.job import Job

    for query in Job.open(root, query_set, queries).plan.queries:
        path = suite_file(root, query_set, query.name)
        exists = paths.has_file(path)
        if not write:
            say(
                paths.read(path).decode() if exists else starting_suite(query_set, query.name, query.high.fields),
                nl=False,
            )
        elif exists:
            say(f"{path} already exists")
        else:
            paths.write(path, starting_suite(query_set, query.name, query.high.fields).encode())
            say(f"wrote {path}")


def _suggestions(root: PurePath, config: Config) -> list[LimitProposal]:
    import pyarrow.compute as pc

    from lowwater.lake.layout import lake_to_read
    from lowwater.lake.ledgers.history import read_metrics
    from lowwater.quality.history import interval_history, limit_proposals

    metrics = read_metrics(lake_to_read(root))
    histories = []
    for name in sorted(pc.unique(metrics.column("query_set")).to_pylist()):
        section = config.query_sets.get(name)
        length = section.interval if section and section.interval else config.interval.length
        metrics_of_set = metrics.filter(pc.equal(metrics.column("query_set"), name))
        histories.append(interval_history(config.history, metrics_of_set, length))
    proposals = limit_proposals(config, histories)
    if not proposals:
        raise LakeError(
            f"{root}: no audited interval has {config.history.least} earlier ones to compare with",
            "audit more intervals, or lower `least` in [history]",
        )
    return proposals


def _table(proposals: list[LimitProposal]) -> Table:
    table = Table("section", "limit", box=None)
    for name in ("intervals", "median", "largest", "in force", "beyond it", "proposed", "beyond that"):
        table.add_column(name, justify="right")
    for proposal in proposals:
        counts = (f"{proposal.median:.4g}", f"{proposal.most:.4g}", f"{proposal.now:g}", f"{proposal.warned:,}")
        proposed = (f"{proposal.limit:g}", f"{proposal.beyond:,}")
        table.add_row(f"[{proposal.section}]", proposal.key, f"{proposal.judged:,}", *counts, *proposed)
    return table


def _toml(proposals: list[LimitProposal]) -> list[str]:
    """Formats the proposed limits as lines of `lowwater.toml`."""
    lines = []
    for section, limits in groupby(proposals, key=lambda proposal: proposal.section):
        lines += [
            f"[{section}]",
            *(f"{proposal.key} = {{ warning = {proposal.limit:g}, critical = 1 }}" for proposal in limits),
        ]
    return lines
