"""Limits that fit what a lake has seen: each interval of its history judged again by those before it.

What `lowwater expect --suggest` prints. A proposal is a warning limit that few of the known intervals exceed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from lowwater.config import Config, Limits, section_of
from lowwater.quality.history import LINK, LINK_DRIFTS, QUERY, QUERY_DRIFTS, Items, Past, link_row, query_row

BEYOND = 0.01
"""Share of the intervals that may lie beyond a proposed limit."""

MARGIN = 1.25
"""How much above the rest of the intervals a proposed limit is."""

MOST = 1000
"""Newest intervals of a subject that are judged."""

SHARES = ("violating", "malformed")
"""Measures of a link with a limit of its own in `[thresholds]`."""


@dataclass(frozen=True)
class Suggestion:
    """A limit, and what the history says of it.

    Attributes:
        section: of `lowwater.toml`.
        key: in it.
        judged: intervals of all its subjects.
        median: the median of the measure over them; `most` the largest.
        now: the warning limit in force.
        warned: intervals beyond it.
        limit: proposed.
        beyond: intervals beyond that.
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


def suggestions(config: Config, known: Sequence[Past]) -> list[Suggestion]:
    """A limit for every measure that some interval can be judged by.

    Args:
        config: settings of the links, and the limits in force.
        known: the history of each query set.
    """
    drifts: dict[str, list[float]] = {}
    shares: dict[tuple[str, str], dict[int, float]] = {}
    for each in known:
        for name, value in _drifts(config, each):
            drifts.setdefault(name, []).append(value)
        _shares(each, shares)
    found = [
        _suggest("history", name, drifts[name], getattr(config.history, name)) for name in LINK_DRIFTS if name in drifts
    ]
    for (link, name), values in sorted(shares.items()):
        if len(values) >= config.history.least:
            limits = getattr(config.limits(link), name)
            found.append(_suggest(section_of(link, "thresholds").strip("[]"), name, list(values.values()), limits))
    return found


def _drifts(config: Config, known: Past) -> Iterator[tuple[str, float]]:
    """(measure, drift) of every interval that has enough before it."""
    for (kind, subject), intervals in known.intervals.items():
        for start in sorted(intervals)[-MOST:]:
            before = known.before(kind, subject, start)
            if not before:
                continue
            items, names = intervals[start], LINK_DRIFTS if kind == LINK else QUERY_DRIFTS
            row = _row(config, kind, subject, items, before)
            yield from ((name, row[f"{name}_drift"]) for name in names)


def _row(config: Config, kind: str, subject: str, items: Items, before: Sequence[Items]) -> Mapping[str, float]:
    if kind == QUERY:
        return query_row({"query": subject}, items, before, config.history)
    whole = {name: items.get(name, {}) for name in ("link_types", "talkers")} | dict(items)
    return link_row({"link": subject}, whole, before, config.history, config.link(subject).skew)


def _shares(known: Past, shares: dict[tuple[str, str], dict[int, float]]) -> None:
    for (kind, subject), intervals in known.intervals.items():
        for name in SHARES if kind == LINK else ():
            values = {start: items[name][""] for start, items in intervals.items()}
            shares.setdefault((subject, name), {}).update(values)


def _suggest(section: str, key: str, values: list[float], now: Limits) -> Suggestion:
    values.sort()
    limit = propose(values)
    beyond, warned = (sum(value > bound for value in values) for bound in (limit, now.warning))
    middle = values[len(values) // 2]
    return Suggestion(section, key, len(values), middle, values[-1], now.warning, warned, limit, beyond)


def propose(values: Sequence[float]) -> float:
    """The limit for values (ascending, at least one): above all but the largest hundredth, with a margin.

    Two digits, rounded up, at most 1.

    Example:
        >>> propose([0.0] * 99 + [0.9]), propose([0.31]), propose([0.9]), propose([0.000_123])
        (0.0, 0.39, 1.0, 0.00016)
    """
    borne = floor(BEYOND * len(values))
    value = values[len(values) - 1 - borne] * MARGIN
    if not value:
        return 0.0
    unit = 10.0 ** (floor(log10(value)) - 1)
    return min(1.0, float(f"{ceil(value / unit - 1e-9) * unit:.6g}"))
