"""Compares the measures of an interval with those of the intervals before it, and proposes limits for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from statistics import median
from typing import Any

import pyarrow as pa

from lowwater.config import Config, History, Limits, section_of
from lowwater.instants import SECOND
from lowwater.lake.layout import METRICS
from lowwater.lake.ledgers.runs import LinkLateness
from lowwater.quality.links import LinkProfile

LINK, QUERY = "link", "query"
COVERED = "covered"
"""Measure of links and queries: the share of the interval that the links cover, the least of those that live in it.
What is not covered is not zero: an interval that is not covered and has no records has no other measure, and one that
is covered in part is neither compared nor compared with."""
FEWEST_RECORDS = 100
"""With fewer records, senders and the 99.9th percentile of lateness are not compared."""

REACH = 4
"""How many times as far back intervals are looked for, since those that are not covered do not count."""

LINK_DRIFTS = ("volume", "violating", "lateness", "silence", "link_types", "talkers")
QUERY_DRIFTS = ("volume",)
"""Measures of a link or query that are compared, as `[history]` names them."""

_COLUMNS = {
    "volume": "{}volume",
    "violating": "{}violations_share",
    "lateness": "{}lateness_ns",
    "silence": "{}silence_ns",
}

Row = dict[str, Any]
Items = Mapping[str, Mapping[str, float]]
"""Measure -> item -> value, for one link or query in one interval; the item is empty for a measure with one value."""


@dataclass(frozen=True)
class IntervalHistory:
    """The past intervals of the links and queries of a query set."""

    settings: History  # number of intervals to compare with, and their season
    # (kind, subject) -> start of the interval, ns since the epoch -> its measures
    intervals: Mapping[tuple[str, str], Mapping[int, Items]]

    def before(self, kind: str, subject: str, start: int) -> Sequence[Items]:
        """The intervals to compare one with, newest last; empty where there are too few."""
        season = self.settings.season or 1
        measures = self.intervals.get((kind, subject), {})
        starts = sorted(at for at in measures if at < start and not (start - at) % season and is_whole(measures[at]))
        chosen = starts[-self.settings.intervals :] if len(starts) >= self.settings.least else []
        return [measures[at] for at in chosen]


def is_whole(items: Items) -> bool:
    """Whether the links cover the whole interval; older ledgers know gaps only."""
    return not items.get("gap", {}).get("") if COVERED not in items else items[COVERED][""] >= 1


def interval_history(settings: History, metrics: pa.Table, length: int) -> IntervalHistory:
    """Reads the intervals of a length (ns) from the rows of the ledger `metrics`."""
    grouped: dict[tuple[str, str], dict[int, dict[str, dict[str, float]]]] = {}
    for row in metrics.to_pylist():
        begin = row["interval_start"]
        if row["interval_end"] - begin == length:
            measures = grouped.setdefault((row["kind"], row["subject"]), {}).setdefault(begin, {})
            measures.setdefault(row["measure"], {})[row["item"]] = row["value"]
    return IntervalHistory(settings, grouped)


def history_start(settings: History, start: int, length: int) -> int:
    """The first instant (ns) of the ledger that the interval beginning at `start` is compared with."""
    return max(0, start - REACH * (settings.intervals + 1) * max(length, settings.season or 0))


def link_items(row: Row, profile: LinkProfile, types: Mapping[str, int], covered: float = 1.0) -> Items:
    """Collects the measures of a link."""
    coverage = {COVERED: {"": covered}, "gap": {"": row["gap_ns"] + row["excluded_ns"]}}
    if not covered and not row["read"]:
        return coverage
    lags, packets = profile.watch.lags, sum(types.values())
    known = {"bytes": profile.bytes, "copies": row["copies"]}
    return {
        "volume": {"": row["read"]},
        "violating": {"": row["violating_share"]},
        "malformed": {"": row["malformed_share"]},
        "lateness": {"": lags.quantile(0.999) or 0},
        "latest": {"": lags.largest},
        "out_of_order": {"": lags.late / lags.records if lags.records else 0.0},
        **({"silence": {"": profile.silence}} if covered >= 1 else {}),
        **coverage,
        "link_types": {name: count / packets for name, count in types.items() if packets},
        "talkers": dict(profile.talkers),
        **{name: {"": value} for name, value in known.items() if value is not None},
    }


def covered_by(shares: Mapping[str, float], config: Config, start: int, end: int) -> float:
    """How much of [start, end), ns, the links of a query cover: the least of those whose life meets it (T5), of
    link -> how much of it lies in its life and in its coverage."""
    living = [share for link, share in shares.items() if config.link(link).lives(start, end)]
    return min(living or shares.values(), default=1.0)


def query_items(row: Row, covered: float = 1.0) -> Items:
    """Collects the measures of an output query from its row of the frame `queries`."""
    volume = {"volume": {"": row["rows"]}} if covered or row["rows"] else {}
    return {COVERED: {"": covered}, **volume}


def metric_rows(kind: str, subject: str, items: Items, now: int) -> Iterable[Row]:
    """Yields the rows of the ledger `metrics` for a link or query."""
    for measure, values in items.items():
        for item, value in values.items():
            identity = {"kind": kind, "subject": subject, "measure": measure, "item": item}
            yield {**identity, "value": float(value), "measured_at": now}


def metric_table(rows: Iterable[Row]) -> pa.Table:
    """Builds the table that `record_metrics` stores."""
    keys = ("query_set", "interval_start", "interval_end")
    return pa.Table.from_pylist(list(rows), schema=pa.schema([column for column in METRICS if column.name not in keys]))


def lateness_row(link: str, start: int, end: int, skew: int, profile: LinkProfile, now: int) -> LinkLateness:
    """Builds the row of the ledger `lateness` for a link."""
    watch = profile.watch
    return LinkLateness(
        link, start, end, skew, watch.refused, watch.lags.largest, watch.busiest, *watch.lags.counted(), now
    )


def link_row(about: Row, items: Items, before: Sequence[Items], settings: History, skew: int) -> Row:
    """Builds the row of a link in the frame `link_history`."""
    judged = bool(before) and is_whole(items)
    few = not judged or items["volume"][""] < FEWEST_RECORDS
    usual = {name: _usual(before, name) for name in ("volume", "violating", "lateness", "silence")}
    mix = _mean(before, "talkers")
    now = {name: items.get(name, {}).get("", 0) for name in usual}
    late = max(0.0, now["lateness"] - usual["lateness"]) / (skew or SECOND)
    types, talkers = items.get("link_types", {}), items.get("talkers", {})
    usual_types = {name for earlier in before for name in earlier.get("link_types", {})}
    drifts = {
        "volume": _relative_change(now["volume"], usual["volume"]),
        "violating": max(0.0, now["violating"] - usual["violating"]),
        "lateness": 0.0 if few else min(1.0, late),
        "silence": max(0.0, 1 - usual["silence"] / now["silence"]) if now["silence"] > SECOND else 0.0,
        "link_types": sum((share for name, share in types.items() if name not in usual_types), 0.0),
        "talkers": 0.0 if few or not mix else _mix_distance(talkers, mix),
    }
    new = sorted(name for name in types if name not in usual_types) if judged else []
    return {
        **about,
        "past": len(before),
        **{_COLUMNS[name].format(""): value if name in items else None for name, value in now.items()},
        **{_COLUMNS[name].format("usual_"): _rounded_as(now[name], usual[name]) for name in now},
        "new_link_types": ", ".join(new),
        "changed_talkers": _changed_shares(talkers, mix) if judged else "",
        **_drift_columns(settings, drifts, judged),
    }


def query_row(about: Row, items: Items, before: Sequence[Items], settings: History) -> Row:
    """Builds the row of an output query in the frame `query_history`."""
    now, usual = items.get("volume", {}).get(""), _usual(before, "volume")
    drifts = {"volume": _relative_change(now or 0, usual)}
    values = {"past": len(before), "volume": now, "usual_volume": round(usual)}
    return {**about, **values, **_drift_columns(settings, drifts, bool(before) and is_whole(items))}


def _drift_columns(settings: History, drifts: Mapping[str, float], judged: bool) -> Row:
    columns: Row = {}
    for name, drift in drifts.items():
        limit = getattr(settings, name)
        columns[f"{name}_drift"] = drift if judged else 0.0
        columns[f"{name}_drift_warning"], columns[f"{name}_drift_critical"] = limit.warning, limit.critical
    return columns


def _rounded_as(now: float, usual: float) -> float:
    """Rounds the usual value where the measure is a whole number."""
    return round(usual) if isinstance(now, int) else usual


def _usual(before: Sequence[Items], measure: str) -> float:
    return median(earlier.get(measure, {}).get("", 0.0) for earlier in before) if before else 0.0


def _mean(before: Sequence[Items], measure: str) -> dict[str, float]:
    """The mean share of each item over the intervals."""
    total: dict[str, float] = {}
    for earlier in before:
        for item, share in earlier.get(measure, {}).items():
            total[item] = total.get(item, 0.0) + share / len(before)
    return total


def _relative_change(now: float, usual: float) -> float:
    """1 - less / more; 0 where both are 0."""
    return 1 - min(now, usual) / max(now, usual) if now != usual else 0.0


def _mix_distance(now: Mapping[str, float], usual: Mapping[str, float]) -> float:
    """The total variation distance of two mixes; shares that are in neither count as one more item."""
    names = {*now, *usual}
    others = abs(sum(now.values()) - sum(usual.values()))
    return min(1.0, (sum(abs(now.get(name, 0.0) - usual.get(name, 0.0)) for name in names) + others) / 2)


def _changed_shares(now: Mapping[str, float], usual: Mapping[str, float], most: int = 3) -> str:
    """Names the senders whose share changed most."""
    names = sorted({*now, *usual}, key=lambda name: (-abs(now.get(name, 0.0) - usual.get(name, 0.0)), name))
    return ", ".join(f"{name} {usual.get(name, 0.0):.1%} -> {now.get(name, 0.0):.1%}" for name in names[:most])


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
    """A proposed limit beside the one in force."""

    section: str  # section of `lowwater.toml`
    key: str  # key in the section
    judged: int  # number of intervals of all links or queries that the measure was compared in
    median: float  # median of the measure over these intervals
    most: float  # largest value of the measure
    now: float  # warning limit in force
    warned: int  # intervals that exceed the limit in force
    limit: float  # proposed warning limit
    beyond: int  # intervals that exceed the proposed limit


def limit_proposals(config: Config, histories: Sequence[IntervalHistory]) -> list[LimitProposal]:
    """Proposes a limit for every measure with enough past intervals."""
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
