"""Statistics of the last runs for each LFTA, and the settings that they recommend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from lowwater.catalog.expr import Expr, conjunction, conjuncts, show
from lowwater.config import Config
from lowwater.instants import DAY, SECOND, format_duration
from lowwater.lake.layout import OUTCOMES, Lake
from lowwater.lake.ledgers.runs import read_statistics
from lowwater.low.runtime.statistics import shape
from lowwater.plan import operators as ops, properties, queryset
from lowwater.plan.properties import cost

# The statistics of the ledger `heartbeats`, added up for each LFTA.

STATISTICS_AGE = DAY
"""Age of the oldest statistics that count, back from the newest ones, ns."""

FULL_SHARE = 0.95
"""A table with this share of occupied slots is full: it had at least FULL_TIMES as many groups as slots."""

FULL_TIMES = 3
_SUMS = ("sane", *OUTCOMES, "records", "rows_out", "ejections", "collisions", "nanoseconds", "beat_nanoseconds")


@dataclass
class LftaStatistics:
    """The statistics of one LFTA over its links."""

    start: int  # begin of the first minute, ns
    end: int  # end of the last minute, ns
    minutes: int = 0  # number of rows
    # name of a column of HEARTBEATS -> sum
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SUMS, 0))
    groups: int = 0  # largest number of groups in a table
    slots: int = 0  # slots of the table; 0 for a selection
    alive: int = 0  # estimated number of groups at once without collisions
    full: bool = False  # whether the table was full, so that `alive` is a lower limit
    period: int | None = None  # heartbeat period, ns; None for another policy
    # text -> (sampled records evaluated, sampled records for which it is true)
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
    """Estimates the groups of a direct-mapped table from its occupied slots, and whether it was full. N groups leave a
    slot empty with probability (1 - 1 / slots)^N, whatever the evictions.

    Example:
        >>> groups_of(39, 64), groups_of(64, 64)
        ((60, False), (192, True))
    """
    if occupied >= FULL_SHARE * slots:
        return FULL_TIMES * slots, True
    return round(math.log1p(-occupied / slots) / math.log1p(-1 / slots)) if occupied else 0, False


def lfta_statistics(lake: Lake, lftas: Sequence[ops.Lfta]) -> dict[str, LftaStatistics]:
    """LFTA -> statistics of the last runs with the table and period of the newest minute; without those that no run
    computed in their present form."""
    shapes = {lfta.name: shape(lfta) for lfta in lftas}
    rows = read_statistics(lake, list(shapes), STATISTICS_AGE).sort_by([("start", "descending")]).to_pylist()
    newest: dict[str, tuple[Any, ...]] = {}
    statistics: dict[str, LftaStatistics] = {}
    for row in rows:
        name, settings = row["lfta"], (row["slots"], row["period"])
        if row["shape"] == shapes[name] and newest.setdefault(name, settings) == settings:
            statistics.setdefault(name, LftaStatistics(row["start"], row["end"])).add(row)
    return statistics


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# `replay.stages.engines` applies the recommended settings where the settings say `tuned`; `lowwater explain --with-
# stats` prints them. Rows and accounts do not depend on them (000, section 6.3).

SLOTS_PER_GROUP = 2
"""Slots for each group (002, Figure 9: tables with half, once and twice as many slots as groups)."""

TOLERATED_SHARE = 0.01
"""Tolerated share of accepted records that collide, and of the time that heartbeats take."""

OVERSIZED = 8
"""A table is made smaller if it has this many times the needed slots."""

FEWEST_SLOTS, MOST_SLOTS = 1 << 8, 1 << 20
FEWEST_SAMPLES = 100
"""With fewer sampled records a share is not used."""

PERIODS: tuple[int, ...] = tuple(number * 10**power for power in range(6, 12) for number in (1, 2, 5))
"""The heartbeat periods to recommend, ns: 1 ms to 500 s."""


@dataclass(frozen=True)
class Advice:
    """One recommendation."""

    setting: str  # table, heartbeat or predicate
    current: str
    recommended: str  # recommended value; equal to `current` for no change
    why: str

    @property
    def changes(self) -> bool:
        """Whether a change is recommended."""
        return self.current != self.recommended


@dataclass(frozen=True)
class Conjunct:
    """The statistics of a conjunct."""

    text: str
    true: float | None  # share of the sampled records for which it is true; None with too few samples
    asked: int  # number of sampled records it was evaluated on
    cost: int  # operations of one evaluation, by the cost model
    place: str  # prefilter, first (cheap or may fail, so always evaluated first) or ordered


@dataclass(frozen=True)
class Tuning:
    """The recommendations for one LFTA."""

    slots: int
    period: int | None  # heartbeat period, ns; None for no recommendation
    predicate: Expr | None  # predicate with its conjuncts in the recommended order
    conjuncts: tuple[Conjunct, ...] = ()
    advice: tuple[Advice, ...] = ()


def recommended(lake: Lake, plan: queryset.Plan, config: Config) -> tuple[dict[str, LftaStatistics], dict[str, Tuning]]:
    """Reads the statistics of the last runs for the LFTAs of a plan, and the recommendations, both by LFTA."""
    grains = properties.needed_granularity(*(query.high for query in plan.queries))
    waits = {
        lfta.name: grains[lfta.name][0] + max((config.link(link).skew for link in lfta.links), default=0)
        for lfta in plan.lftas
    }
    statistics = lfta_statistics(lake, plan.lftas)
    return statistics, tuning(plan.lftas, statistics, waits)


def tuning(
    lftas: Sequence[ops.Lfta], statistics: Mapping[str, LftaStatistics], waits: Mapping[str, int]
) -> dict[str, Tuning]:
    """LFTA -> its recommendations, for LFTAs with statistics. `lftas`: all of their links, since they share the
    prefilter. `waits`: LFTA -> time that a row waits without heartbeats, ns: skew and rest of the epoch."""
    bits = frozenset(chain.from_iterable(prefilter.bits for prefilter in properties.choose_prefilters(lftas)))
    return {
        lfta.name: _tuning(lfta, statistics[lfta.name], waits[lfta.name], bits)
        for lfta in lftas
        if lfta.name in statistics
    }


def tuned_lftas(lftas: Sequence[ops.Lfta], tunings: Mapping[str, Tuning]) -> tuple[ops.Lfta, ...]:
    """Applies the recommendations to LFTAs."""
    return tuple(
        replace(lfta, slots=tunings[lfta.name].slots, predicate=tunings[lfta.name].predicate)
        if lfta.name in tunings
        else lfta
        for lfta in lftas
    )


def shortest_period(tunings: Mapping[str, Tuning]) -> int | None:
    """The heartbeat period of a query set, ns: the shortest recommended for its LFTAs."""
    return min((tuning_.period for tuning_ in tunings.values() if tuning_.period is not None), default=None)


def _tuning(lfta: ops.Lfta, statistics: LftaStatistics, wait: int, bits: frozenset[Expr]) -> Tuning:
    parts = conjuncts(lfta.predicate)
    conjunct_facts = _conjuncts(parts, statistics, bits)
    order, ordering = _ordered(parts, conjunct_facts)
    advice = [] if ordering is None else [ordering]
    slots, period = lfta.slots, None
    if lfta.aggregates and statistics.slots:
        slots = _slots(lfta.slots, statistics)
        why = _why_slots(lfta.slots, slots, statistics)
        advice.append(Advice("table", f"{lfta.slots:,} slots", f"{slots:,} slots", why))
    if statistics.period is not None:
        period = _period(statistics, wait)
        words = format_duration(statistics.period), format_duration(period)
        advice.append(Advice("heartbeat", *words, _why_period(statistics, period, wait)))
    return Tuning(slots, period, conjunction(order), conjunct_facts, tuple(advice))


def _slots(current: int, statistics: LftaStatistics) -> int:
    enough = min(MOST_SLOTS, max(FEWEST_SLOTS, 1 << max(0, SLOTS_PER_GROUP * statistics.alive - 1).bit_length()))
    if enough > current:
        return enough if statistics.colliding > TOLERATED_SHARE or statistics.slots != current else current
    return enough if enough * OVERSIZED <= current else current


def _why_slots(current: int, slots: int, statistics: LftaStatistics) -> str:
    occupancy = f"{statistics.groups:,} of {statistics.slots:,} slots were taken at once"
    groups = f"groups: {statistics.alive:,} or more" if statistics.full else f"groups: about {statistics.alive:,}"
    share = f"{statistics.colliding:.1%} of the accepted records collide"
    if slots > current:
        after = "; measure again with it" if statistics.full else ""
        return f"{occupancy}, {groups}, {share}: {SLOTS_PER_GROUP} slots for each{after}"
    if slots < current:
        return f"{occupancy}, {groups}: a smaller table stays in the cache and is sooner looked through at each close"
    return f"{occupancy}, {groups}, {share}"


def _period(statistics: LftaStatistics, wait: int) -> int:
    period = statistics.period or SECOND
    least = period * statistics.beats / TOLERATED_SHARE
    longest = max((candidate for candidate in PERIODS if candidate <= wait), default=PERIODS[0])
    if period > wait and longest >= least:
        return longest
    if statistics.beats > TOLERATED_SHARE:
        bearable = next((candidate for candidate in PERIODS if candidate >= least), PERIODS[-1])
        return max(period, min(bearable, longest))
    return period


def _why_period(statistics: LftaStatistics, period: int, wait: int) -> str:
    cost_of = f"heartbeats take {statistics.beats:.2%} of the time"
    waits = f"a row waits {format_duration(wait)} for skew and epoch, and for a tick besides"
    current = statistics.period or SECOND
    if period > current:
        return f"{cost_of}, more than {TOLERATED_SHARE:.0%}; {waits}"
    if period < current:
        return f"{cost_of}; {waits}: at most as long again"
    return f"{cost_of}; {waits}"


def _conjuncts(parts: Sequence[Expr], statistics: LftaStatistics, bits: frozenset[Expr]) -> tuple[Conjunct, ...]:
    from lowwater.low.code.kernel import split_conjuncts  # who only plans writes no kernel

    different = dict.fromkeys(parts)
    _, first = split_conjuncts([part for part in different if part not in bits])
    facts = []
    for part in different:
        text = show(part)
        evaluations, _ = statistics.conjuncts.get(text, (0, 0))
        place = "prefilter" if part in bits else "first" if part in first else "ordered"
        true = statistics.true(text) if evaluations >= FEWEST_SAMPLES else None
        facts.append(Conjunct(text, true, evaluations, max(1, cost(part)), place))
    return tuple(facts)


def _ordered(parts: Sequence[Expr], facts: Sequence[Conjunct]) -> tuple[list[Expr], Advice | None]:
    """Orders the movable conjuncts by their cost for each record they reject."""
    texts = {show(part): part for part in parts}
    movable = [conjunct for conjunct in facts if conjunct.place == "ordered"]
    if len(movable) < 2 or any(conjunct.true is None for conjunct in movable):
        return list(parts), None
    best = sorted(movable, key=_rank)
    others = [texts[conjunct.text] for conjunct in facts if conjunct.place != "ordered"]
    current, order = (", ".join(conjunct.text for conjunct in some) for some in (movable, best))
    why = "what costs least for each record that it rejects comes first"
    return [*others, *(texts[conjunct.text] for conjunct in best)], Advice("predicate", current, order, why)


def _rank(conjunct: Conjunct) -> float:
    rejected = 1 - (conjunct.true or 0.0)
    return conjunct.cost / rejected if rejected else float("inf")
