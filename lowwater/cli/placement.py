"""Implements `lowwater explain --executors`: prints how a cluster would share out the links of query files.

`replay.tuning.placement` computes it from the rates in the ledger of captures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

from lowwater.cli.queries import Definitions
from lowwater.cluster import SPREAD_PACKETS
from lowwater.instants import format_duration
from lowwater.replay.tuning.placement import Placement, foretold


def explain_placement(
    files: Sequence[Path], form: str, lake: PurePath, cluster: tuple[int, int], definitions: Mapping[str, Any]
) -> str:
    """Returns the placement of the links of query files on a cluster.

    Args:
        files: query files.
        form: `text` or `json`.
        lake: the lake whose captures have the links.
        cluster: number of executors, and cores of each.
        definitions: fields of `Definitions`.

    Raises:
        LakeError: there is no lake in the folder.
        QueryError: a query is not valid.
    """
    opened, config, plan = Definitions(**definitions).plan_over(files, lake)
    placement = foretold(opened, plan.links, config, *cluster)
    if form == "json":
        document = {**asdict(placement), "longest": round(placement.longest, 3)}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return "\n".join([*_text(placement), ""])


def _text(placement: Placement) -> Iterator[str]:
    yield f"low stage of an interval of {format_duration(placement.length)}: {placement.records:,} records"
    for load in placement.links:
        if not load.records:
            yield f"  link {load.link}: no capture yet"
            continue
        divided = f"{load.tasks} tasks, since a task has about {placement.most:,} records"
        tasks = "1 task" if load.tasks == 1 else divided
        yield f"  link {load.link}: {load.rate:,.0f} records/s, {load.records:,} an interval, {tasks}"
    cores = f" of {placement.cores} cores" if placement.cores > 1 else ""
    for each in placement.executors:
        share = f", {each.records / placement.records:.0%}" if placement.records else ""
        yield f"executor {each.number}{cores}: {each.records:,} records{share}"
        if each.tasks:
            yield f"  {_tasks(each.tasks)}"
    if placement.records:
        yield f"busiest executor: {placement.longest:.2f} times the average"
    if placement.records < SPREAD_PACKETS:
        yield f"below {SPREAD_PACKETS:,} records the driver's own threads run it, unless LOWWATER_SPARK_SPREAD=always"
    yield "a run places tasks by their files, so that copies on a machine are found again; rows do not depend on it"


def _tasks(tasks: Sequence[tuple[str, int]]) -> str:
    links: dict[str, list[int]] = {}
    for link, number in tasks:
        links.setdefault(link, []).append(number)
    return "; ".join(f"{link} {', '.join(map(str, numbers))}" for link, numbers in links.items())
