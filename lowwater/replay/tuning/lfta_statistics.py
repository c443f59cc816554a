"""What the last runs measured of each LFTA: the statistics of the ledger `heartbeats`, added up.

Between `lake.ledgers.runs` and `replay.tuning.recommendations`, which says what follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.instants import HOUR
from lowwater.lake.layout import OUTCOMES, Lake
from lowwater.lake.ledgers.runs import read_statistics
from lowwater.low.runtime.statistics import shape
from lowwater.plan.operators import Lfta

STATISTICS_AGE = 24 * HOUR
"""How far back from the newest statistics of a query set they count."""

FULL_SHARE = 0.95
"""A table with this share of its slots taken says only that there are FULL_TIMES as many groups, or more."""

FULL_TIMES = 3
_SUMS = ("sane", *OUTCOMES, "records", "rows_out", "ejections", "collisions", "nanoseconds", "beat_nanoseconds")


@dataclass
class LftaStatistics:
    """The statistics of one LFTA over its links.

    Attributes:
        start: the start of the minutes that are measured, ns; `end` their end, `minutes` how many rows there are.
        sums: outcomes and counts by the names of HEARTBEATS.
        groups: most in one table at once; `slots` of the table, 0 for a selection.
        alive: groups that one table would have held at once without collisions, estimated; `full` if it was.
        period: the period of the heartbeats, ns; None for another policy.
        conjuncts: text -> drawn records that were asked, and those of which it is true.
    """

    start: int
    end: int
    minutes: int = 0
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    groups: int = 0
    slots: int = 0
    alive: int = 0
    full: bool = False
    period: int | None = None
    conjuncts: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def per_record(self) -> float | None:
        """Nanoseconds of processor time a record that the kernel read."""
        return _ratio(self.sums["nanoseconds"], self.sums["records"])

    @property
    def beats(self) -> float:
        """Share of the time that promises took, from 0 to 1."""
        return _ratio(self.sums["beat_nanoseconds"], self.sums["nanoseconds"]) or 0.0

    @property
    def colliding(self) -> float:
        """Share of the accepted records at which another group had to leave, from 0 to 1."""
        return _ratio(self.sums["collisions"], self.sums["accepted"]) or 0.0

    def true(self, conjunct: str) -> float | None:
        """Share of the drawn records of which a conjunct is true; None where none was asked."""
        evaluations, met = self.conjuncts.get(conjunct, (0, 0))
        return _ratio(met, evaluations)

    def add(self, row: Mapping[str, Any]) -> None:
        """Adds a row of HEARTBEATS."""
        self.start, self.end = min(self.start, row["start"]), max(self.end, row["end"])
        self.minutes += 1
        for name in _SUMS:
            self.sums[name] += row[name]
        if row["slots"]:
            alive, full = groups_of(row["groups"], row["slots"])
            self.groups, self.slots = max(self.groups, row["groups"]), row["slots"]
            self.alive, self.full = max((self.alive, self.full), (alive, full))
        self.period = row["period"]
        for text, evaluations, met in zip(row["conjuncts"], row["asked"], row["met"], strict=True):
            totals = self.conjuncts.get(text, (0, 0))
            self.conjuncts[text] = totals[0] + evaluations, totals[1] + met


def groups_of(occupied: int, slots: int) -> tuple[int, bool]:
    """How many groups a direct-mapped table saw of which so many slots are taken, and whether it was full.

    N groups leave a slot empty with probability (1 - 1 / slots)^N, whatever ejects whom.

    Example:
        >>> groups_of(39, 64), groups_of(64, 64)
        ((60, False), (192, True))
    """
    if occupied >= FULL_SHARE * slots:
        return FULL_TIMES * slots, True
    return round(math.log1p(-occupied / slots) / math.log1p(-1 / slots)) if occupied else 0, False


def lfta_statistics(lake: Lake, lftas: Sequence[Lfta]) -> dict[str, LftaStatistics]:
    """What the last runs measured of some LFTAs, by name, with the table and the period of the newest minute.

    Those that no run computed as they are now are missing.
    """
    shapes = {lfta.name: shape(lfta) for lfta in lftas}
    rows = read_statistics(lake, list(shapes), STATISTICS_AGE).sort_by([("start", "descending")]).to_pylist()
    newest: dict[str, tuple[Any, ...]] = {}
    chosen = []
    for row in rows:
        name, settings = row["lfta"], (row["slots"], row["period"])
        if row["shape"] == shapes[name] and newest.setdefault(name, settings) == settings:
            chosen.append(row)
    return add_slice_counts(chosen)


def add_slice_counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, LftaStatistics]:
    """Rows of HEARTBEATS with statistics, by LFTA."""
    by_lfta: dict[str, LftaStatistics] = {}
    for row in rows:
        by_lfta.setdefault(row["lfta"], LftaStatistics(row["start"], row["end"])).add(row)
    return by_lfta


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
