"""What `lowwater explain --with-stats` prints: what the last runs measured of each LFTA, and what follows from it.

Beside `cli.queries`; the numbers come from `replay.tuning.lfta_statistics`, the recommendations from
`replay.tuning.recommendations`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lowwater.cli.queries import Definitions
from lowwater.config import load_config
from lowwater.instants import format_instant
from lowwater.lake.layout import OUTCOMES, open_lake
from lowwater.plan.operators import Lfta
from lowwater.replay.job import lake_links
from lowwater.replay.tuning.lfta_statistics import LftaStatistics
from lowwater.replay.tuning.recommendations import Conjunct, Tuning, recommended

_UNKNOWN = "no run has counted it yet: lowwater replay it, with the same parameters"


def explain_statistics(files: Sequence[Path], form: str, lake: Path, definitions: Mapping[str, Any]) -> str:
    """The statistics of the LFTAs of some query files, from the last runs over a lake.

    Args:
        files: of queries.
        form: text or json.
        lake: its folder.
        definitions: what the queries may name.

    Raises:
        LakeError: there is no such lake.
        QueryError: a text has no meaning.
    """
    config, opened = load_config(lake), open_lake(lake, make=False)
    plan = Definitions(**definitions).plan(files, lake_links(config, opened), config.files.folders)
    found, tunings = recommended(opened, plan, config)
    if form == "json":
        shown = [_as_json(lfta, found.get(lfta.name), tunings.get(lfta.name)) for lfta in plan.lftas]
        return json.dumps({"tuned": config.replay.tuned, "lftas": shown}, indent=2, ensure_ascii=False) + "\n"
    lines = [line for lfta in plan.lftas for line in _text(lfta, found.get(lfta.name), tunings.get(lfta.name))]
    applied = "runs take" if config.replay.tuned else "with tuned = true in [replay] runs take"
    return "\n".join([*lines, f"{applied} what is recommended; rows and accounts are the same", ""])


def _as_json(lfta: Lfta, found: LftaStatistics | None, tuning: Tuning | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"lfta": lfta.name, "links": list(lfta.links), "measured": None}
    if found is None or tuning is None:
        return shown
    totals = {**found.sums, "groups": found.groups, "slots": found.slots, "estimated_groups": found.alive}
    shown["measured"] = {"from": format_instant(found.start), "to": format_instant(found.end), **totals}
    shown["conjuncts"] = [asdict(each) for each in tuning.conjuncts]
    shown["advice"] = [{**asdict(each), "changes": each.changes} for each in tuning.advice]
    return shown


def _text(lfta: Lfta, found: LftaStatistics | None, tuning: Tuning | None) -> Iterator[str]:
    yield f"LFTA {lfta.name} on {', '.join(lfta.links)}"
    if found is None or tuning is None:
        yield f"  {_UNKNOWN}"
        yield ""
        return
    sums = found.sums
    span = f"{format_instant(found.start)} to {format_instant(found.end)}"
    yield f"  measured: {span}, {found.minutes:,} minutes of its links"
    named = (f"{sums[name]:,} {name.replace('_', ' ')}" for name in OUTCOMES if sums[name])
    yield f"  records in: {sums['sane']:,}: {', '.join(named) or 'none'}"
    yield f"  rows out: {sums['rows_out']:,}, {sums['collisions']:,} collisions, {sums['ejections']:,} ejections"
    if found.per_record is not None:
        yield f"  time: {found.per_record:,.0f} ns a record, {found.beats:.2%} of it for heartbeats"
    for each in tuning.conjuncts:
        yield f"  conjunct {each.text}: {_share(each)}, cost {each.cost}{_place(each)}"
    for advice in tuning.advice:
        to = f"{advice.current} -> {advice.recommended}" if advice.changes else f"{advice.current} is right"
        yield f"  {advice.setting}: {to}"
        yield f"    {advice.why}"
    yield ""


def _share(each: Conjunct) -> str:
    if each.true is None:
        return f"only {each.asked:,} records drawn"
    return f"true of {each.true:.1%} of {each.asked:,} records drawn"


def _place(each: Conjunct) -> str:
    return {"prefilter": ", in the prefilter", "first": ", always asked"}.get(each.place, "")
