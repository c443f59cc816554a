"""Implements `lowwater explain --with-stats`: prints measurements of each LFTA and the settings they recommend.

`replay.tuning.lfta_statistics` reads the numbers of the last runs, and `replay.tuning.recommendations` derives the
settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

from lowwater.cli.queries import Definitions
from lowwater.instants import format_instant
from lowwater.lake.layout import OUTCOMES
from lowwater.plan.operators import Lfta
from lowwater.replay.tuning.lfta_statistics import LftaStatistics
from lowwater.replay.tuning.recommendations import Conjunct, Tuning, recommended

_UNKNOWN = "no run has counted it yet: lowwater replay it, with the same parameters"


def explain_statistics(files: Sequence[Path], form: str, lake: PurePath, definitions: Mapping[str, Any]) -> str:
    """Returns the statistics of the LFTAs of query files, from the last runs over a lake.

    Args:
        files: query files.
        form: `text` or `json`.
        lake: folder of the lake.
        definitions: fields of `Definitions`.

    Raises:
        LakeError: there is no lake in the folder.
        QueryError: a query is not valid.
    """
    opened, config, plan = Definitions(**definitions).plan_over(files, lake)
    statistics, tunings = recommended(opened, plan, config)
    if form == "json":
        documents = [_as_json(lfta, statistics.get(lfta.name), tunings.get(lfta.name)) for lfta in plan.lftas]
        return json.dumps({"tuned": config.replay.tuned, "lftas": documents}, indent=2, ensure_ascii=False) + "\n"
    lines = [line for lfta in plan.lftas for line in _text(lfta, statistics.get(lfta.name), tunings.get(lfta.name))]
    applied = "runs take" if config.replay.tuned else "with tuned = true in [replay] runs take"
    return "\n".join([*lines, f"{applied} what is recommended; rows and accounts are the same", ""])


def _as_json(lfta: Lfta, statistics: LftaStatistics | None, tuning: Tuning | None) -> dict[str, Any]:
    document: dict[str, Any] = {"lfta": lfta.name, "links": list(lfta.links), "measured": None}
    if statistics is None or tuning is None:
        return document
    totals = {
        **statistics.sums,
        "groups": statistics.groups,
        "slots": statistics.slots,
        "estimated_groups": statistics.alive,
    }
    document["measured"] = {"from": format_instant(statistics.start), "to": format_instant(statistics.end), **totals}
    document["conjuncts"] = [asdict(conjunct) for conjunct in tuning.conjuncts]
    document["advice"] = [{**asdict(advice), "changes": advice.changes} for advice in tuning.advice]
    return document


def _text(lfta: Lfta, statistics: LftaStatistics | None, tuning: Tuning | None) -> Iterator[str]:
    yield f"LFTA {lfta.name} on {', '.join(lfta.links)}"
    if statistics is None or tuning is None:
        yield f"  {_UNKNOWN}"
        yield ""
        return
    sums = statistics.sums
    span = f"{format_instant(statistics.start)} to {format_instant(statistics.end)}"
    yield f"  measured: {span}, {statistics.minutes:,} minutes of its links"
    outcomes = (f"{sums[name]:,} {name.replace('_', ' ')}" for name in OUTCOMES if sums[name])
    yield f"  records in: {sums['sane']:,}: {', '.join(outcomes) or 'none'}"
    yield f"  rows out: {sums['rows_out']:,}, {sums['collisions']:,} collisions, {sums['ejections']:,} ejections"
    if statistics.per_record is not None:
        yield f"  time: {statistics.per_record:,.0f} ns a record, {statistics.beats:.2%} of it for heartbeats"
    for conjunct in tuning.conjuncts:
        yield f"  conjunct {conjunct.text}: {_share(conjunct)}, cost {conjunct.cost}{_place(conjunct)}"
    for advice in tuning.advice:
        to = f"{advice.current} -> {advice.recommended}" if advice.changes else f"{advice.current} is right"
        yield f"  {advice.setting}: {to}"
        yield f"    {advice.why}"
    yield ""


def _share(conjunct: Conjunct) -> str:
    if conjunct.true is None:
        return f"only {conjunct.asked:,} records drawn"
    return f"true of {conjunct.true:.1%} of {conjunct.asked:,} records drawn"


def _place(conjunct: Conjunct) -> str:
    return {"prefilter": ", in the prefilter", "first": ", always asked"}.get(conjunct.place, "")
