"""Adds up the statistics of the ledger `heartbeats` for each LFTA.

`replay.tuning.recommendations` computes settings from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.instants import HOUR
from lowwater.lake.layout import OUTCOMES, Lake
from lowwater.lake.ledgers.runs import read_statistics
from lowwater.low.runtime.node import shape
from lowwater.plan.operators import Lfta

STATISTICS_AGE = 24 * HOUR
"""Age of the oldest statistics that count, back from the newest ones, ns."""

FULL_SHARE = 0.95
"""A table with this share of occupied slots is full: it had at least FULL_TIMES as many groups as slots."""

FULL_TIMES = 3
_SUMS = ("sane", *OUTCOMES, "records", "rows_out", "ejections", "collisions", "nanoseconds", "beat_nanoseconds")


@dataclass
class LftaStatistics:
    """The statistics of one LFTA over its links.

    Attributes:
        start: begin of the first minute, ns.
        end: end of the last minute, ns.
        minutes: number of rows.
        sums: name of a column of HEARTBEATS -> sum.
        groups: largest number of groups in a table.
        slots: slots of the table; 0 for a selection.
        alive: estimated number of groups at once without collisions.
        full: whether the table was full, so that `alive` is a lower limit.
        period: heartbeat period, ns; None for another policy.
        conjuncts: text -> (sampled records evaluated, sampled records for which it is true).
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
        """Processor time for each record that the kernel read, ns."""
        return _ratio(self.sums["nanoseconds"], self.sums["records"])

    @property
    def beats(self) -> float:
        """Share of the time that heartbeats took, 0 to 1."""
        return _ratio(self.sums["beat_nanoseconds"], self.sums["nanoseconds"]) or 0.0

    @property
    def colliding(self) -> float:
        """Share of the accepted records that evicted another group, 0 to 1."""
        return _ratio(self.sums["collisions"], self.sums["accepted"]) or 0.0

    def true(self, conjunct: str) -> float | None:
        """Share of the sampled records for which a conjunct is true; None without samples."""
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
    """Estimates the groups of a direct-mapped table from its occupied slots, and whether it was full.

    N groups leave a slot empty with probability (1 - 1 / slots)^N, whatever the evictions.

    Example:
        >>> groups_of(39, 64), groups_of(64, 64)
        ((60, False), (192, True))
    """
    if occupied >= FULL_SHARE * slots:
        return FULL_TIMES * slots, True
    return round(math.log1p(-occupied / slots) / math.log1p(-1 / slots)) if occupied else 0, False


def lfta_statistics(lake: Lake, lftas: Sequence[Lfta]) -> dict[str, LftaStatistics]:
    """LFTA -> statistics of the last runs with the table and period of the newest minute.

    An LFTA that no run computed in its present form is missing.
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
    """Adds up rows of HEARTBEATS by LFTA."""
    by_lfta: dict[str, LftaStatistics] = {}
    for row in rows:
        by_lfta.setdefault(row["lfta"], LftaStatistics(row["start"], row["end"])).add(row)
    return by_lfta


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
