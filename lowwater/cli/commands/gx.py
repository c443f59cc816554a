"""The command `gx`: a project of Great Expectations over what a lake has published."""

from __future__ import annotations

from pathlib import Path, PurePath

import click

from lowwater.cli import options
from lowwater.errors import LakeError
from lowwater.extras import require
from lowwater.terminal import say


@click.command()
@click.option("--lake", required=True, type=options.LAKE, help=options.LAKE_HELP)
def gx(lake: PurePath) -> None:
    """Writes LAKE/gx, a project of Great Expectations; again after more intervals, to bring it up to date.

    \b
    It has an asset for each published table and its stream, for the measures of the audits (measures.links), and for
    ledgers (ledgers.skew_violations); a batch for each of the newest 100 intervals of a table, and "newest" and
    "whole"; a validation for each suite; and a checkpoint for each query set, and for our own suites, @measures. The
    suite of a query is that of the audits, in LAKE/expectations: what you save there is asked of the rows of the next
    interval. What you add to the project stays.
    Example:
      lowwater gx --lake var/lake
      python -c 'import great_expectations as gx; c = gx.get_context(project_root_dir="var/lake"); print(c.checkpoints)'
    """
    from lowwater.lake.layout import open_lake
    from lowwater.lake.ledgers.runs import PUBLISH, read_replays
    from lowwater.lake.locks import attempt
    from lowwater.quality.gx_project import OURS, link_data, write_measure_suites, write_suites

    require("lowwater gx", "quality")
    from lowwater_expectations import write_project

    opened = open_lake(lake, make=False)
    published: dict[str, set[str]] = {}
    for row in read_replays(opened):
        if row.stage == PUBLISH and row.query:
            published.setdefault(row.query_set, set()).add(row.query)
    if not published:
        raise LakeError(f"{lake}: nothing is published", "publish an interval with `lowwater backfill` first")
    with attempt(opened, "gx", wait=60) as scratch:
        assets = link_data(opened, sorted({query for queries in published.values() for query in queries}))
        suites = {name: write_suites(opened, name, sorted(queries)) for name, queries in published.items()}
        write_project(Path(str(lake)), assets, {**suites, OURS: write_measure_suites(opened)}, scratch)
    batches = sum(len(asset.batches) for asset in assets)
    say(f"wrote {lake}/gx: {len(assets)} assets, {batches} batches of intervals, {len(published) + 1} checkpoints")
    say(f'open it: great_expectations.get_context(project_root_dir="{lake}")')
    say("an audit asks what you save in its suites; `lowwater plan` names published intervals to audit again by them")
