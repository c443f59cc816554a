"""Proposes limits for `[history]` and `[thresholds]` from the intervals that a lake has audited.

`lowwater expect --suggest` prints them. A proposal is a warning limit that few of the past intervals exceed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from lowwater.config import Config, section_of
from lowwater.quality.drift import (
    LINK,
    LINK_DRIFTS,
    QUERY,
    QUERY_DRIFTS,
    IntervalHistory,
    Items,
    is_whole,
    link_row,
    query_row,
)
from lowwater.sections import Limits

EXCEEDING_SHARE = 0.01
"""Share of the past intervals that may exceed a proposed limit."""

MARGIN = 1.25
"""Factor by which a proposed limit lies above all other intervals."""

NEWEST_INTERVALS = 1000
"""Number of newest intervals of a link or query that count."""

LINK_SHARES = ("violating", "malformed")
"""Measures of a link that have their own limit in `[thresholds]`."""


@dataclass(frozen=True)
class LimitProposal:
    """A proposed limit beside the one in force.

    Attributes:
        section: section of `lowwater.toml`.
        key: key in the section.
        judged: number of intervals of all links or queries that the measure was compared in.
        median: median of the measure over these intervals.
        most: largest value of the measure.
        now: warning limit in force.
        warned: intervals that exceed the limit in force.
        limit: proposed warning limit.
        beyond: intervals that exceed the proposed limit.
    """

    section: str
    key: str
    judged: int
    median: float
    most: float
    now: float
    warned: int
    limit: float
    beyond: int


def limit_proposals(config: Config, histories: Sequence[IntervalHistory]) -> list[LimitProposal]:
    """Proposes a limit for every measure with enough past intervals.

    Args:
        config: settings of the links, and the limits in force.
        histories: the past intervals of each query set.
    """
    drifts: dict[str, list[float]] = {}
    shares: dict[tuple[str, str], dict[int, float]] = {}
    for history in histories:
        for name, value in _drifts(config, history):
            drifts.setdefault(name, []).append(value)
        _link_shares(history, shares)
    proposals = [
        _suggest("history", name, drifts[name], getattr(config.history, name)) for name in LINK_DRIFTS if name in drifts
    ]
    for (link, name), values in sorted(shares.items()):
        if len(values) >= config.history.least:
            limits = getattr(config.limits(link), name)
            proposals.append(_suggest(section_of(link, "thresholds").strip("[]"), name, list(values.values()), limits))
    return proposals


def _drifts(config: Config, history: IntervalHistory) -> Iterator[tuple[str, float]]:
    """Yields (measure, drift) for every interval with enough intervals before it."""
    for (kind, subject), intervals in history.intervals.items():
        for start in sorted(intervals)[-NEWEST_INTERVALS:]:
            before = history.before(kind, subject, start)
            if not before or not is_whole(intervals[start]):
                continue
            items, names = intervals[start], LINK_DRIFTS if kind == LINK else QUERY_DRIFTS
            row = _row(config, kind, subject, items, before)
            yield from ((name, row[f"{name}_drift"]) for name in names)


def _row(config: Config, kind: str, subject: str, items: Items, before: Sequence[Items]) -> Mapping[str, float]:
    if kind == QUERY:
        return query_row({"query": subject}, items, before, config.history)
    whole = {name: items.get(name, {}) for name in ("link_types", "talkers")} | dict(items)
    return link_row({"link": subject}, whole, before, config.history, config.link(subject).skew)


def _link_shares(history: IntervalHistory, shares: dict[tuple[str, str], dict[int, float]]) -> None:
    for (kind, subject), intervals in history.intervals.items():
        for name in LINK_SHARES if kind == LINK else ():
            values = {start: items[name][""] for start, items in intervals.items() if name in items}
            shares.setdefault((subject, name), {}).update(values)


def _suggest(section: str, key: str, values: list[float], now: Limits) -> LimitProposal:
    values.sort()
    limit = propose(values)
    beyond, warned = (sum(value > bound for value in values) for bound in (limit, now.warning))
    middle = values[len(values) // 2]
    return LimitProposal(section, key, len(values), middle, values[-1], now.warning, warned, limit, beyond)


def propose(values: Sequence[float]) -> float:
    """Proposes a limit for values (ascending, at least one): above all but the largest hundredth, with a margin.

    The limit has two digits, is rounded up, and is at most 1.

    Example:
        >>> propose([0.0] * 99 + [0.9]), propose([0.31]), propose([0.9]), propose([0.000_123])
        (0.0, 0.39, 1.0, 0.00016)
    """
    borne = floor(EXCEEDING_SHARE * len(values))
    value = values[len(values) - 1 - borne] * MARGIN
    if not value:
        return 0.0
    unit = 10.0 ** (floor(log10(value)) - 1)
    return min(1.0, float(f"{ceil(value / unit - 1e-9) * unit:.6g}"))
