"""Compares the measures of an interval with those of the intervals before it, and proposes limits for that."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from statistics import median
from typing import Any

import pyarrow as pa

from lowwater.config import Config, History, Limits, section_of
from lowwater.instants import SECOND
from lowwater.lake.layout import METRICS
from lowwater.quality.links import LinkProfile

LINK, QUERY = "link", "query"
COVERED = "covered"
"""Measure of links and queries: the share of the interval that the links cover, the least of those that live in it.
What is not covered is not zero: an interval that is not covered and has no records has no other measure, and one that
is covered in part is neither compared nor compared with."""
FEWEST_RECORDS = 100
"""With fewer records, senders are not compared."""
FEWEST_OF_TAIL = 10_000
"""With fewer records, the 99.9th percentile of lateness is not compared: less than ten would decide it."""

REACH = 4
"""How many times as far back intervals are looked for, since those that are not covered do not count."""

DRIFTS = {LINK: ("volume", "violating", "lateness", "silence", "link_types", "talkers"), QUERY: ("volume",)}
"""Measures that are compared, as `[history]` names them."""

_COLUMNS = {"volume": "volume", "violating": "violations_share", "lateness": "lateness_ns", "silence": "silence_ns"}

Row = dict[str, Any]
Items = Mapping[str, Mapping[str, float]]
"""Measure -> item -> value, for one link or query in one interval; the item is empty for a measure with one value."""


@dataclass(frozen=True)
class IntervalHistory:
    """The past intervals of the links and queries of a query set."""

    settings: History  # number of intervals to compare with, and their season
    # (kind, subject) -> start of the interval, ns since the epoch -> its measures
    intervals: dict[tuple[str, str], dict[int, Items]]

    def before(self, kind: str, subject: str, start: int, since: int = 0) -> Sequence[Items]:
        """The intervals from an instant on to compare one with, newest last; empty where there are too few."""
        season, measures = self.settings.season or 1, self.intervals.get((kind, subject), {})
        starts = (at for at in sorted(measures) if since <= at < start and not (start - at) % season)
        return self._compared([measures[at] for at in starts if is_whole(measures[at])])

    def keep(self, kind: str, subject: str, start: int, items: Items) -> None:
        """Takes the measures of an interval that is audited now, with which later ones are compared."""
        stored = {measure: {item: float(value) for item, value in of.items()} for measure, of in items.items()}
        self.intervals.setdefault((kind, subject), {})[start] = stored

    def judged(self, config: Config, kind: str, subject: str, first: int = 0) -> Iterator[tuple[int, Items, Row]]:
        """Yields the intervals from `first`, ns, on: start, measures, and how they compare with those before."""
        settings, most = self.settings, max(self.settings.intervals, self.settings.least)
        seasons: dict[int, deque[Items]] = defaultdict(lambda: deque(maxlen=most))
        for start, items in sorted(self.intervals.get((kind, subject), {}).items()):
            season = seasons[start % (settings.season or 1)]
            if start >= first:
                before = self._compared([*season])
                if kind == LINK:
                    yield start, items, link_row(items, before, settings, config.link(subject).at(start).skew)
                else:
                    yield start, items, query_row(items, before, settings)
            if is_whole(items):
                season.append(items)

    def _compared(self, before: Sequence[Items]) -> Sequence[Items]:
        return before[-self.settings.intervals :] if len(before) >= self.settings.least else []


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
    return IntervalHistory(settings, {about: {**mine} for about, mine in grouped.items()})


def history_start(settings: History, start: int, length: int) -> int:
    """The first instant (ns) of the ledger that the interval beginning at `start` is compared with."""
    return max(0, start - REACH * (settings.intervals + 1) * max(length, settings.season or 0))


def link_items(row: Row, profile: LinkProfile, types: Mapping[str, int], covered: float = 1.0) -> Items:
    """The measures of a link, of its row of measures and the packets of each link type."""
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


def query_items(rows: int, covered: float = 1.0) -> Items:
    """The measures of an output query."""
    return {COVERED: {"": covered}} | ({"volume": {"": rows}} if covered or rows else {})


def metric_table(measured: Iterable[tuple[str, str, Items]], now: int) -> pa.Table:
    """The rows of the ledger `metrics` for the (kind, subject, measures) of an interval."""
    rows = [
        {"kind": kind, "subject": subject, "measure": measure, "item": item, "value": float(value), "measured_at": now}
        for kind, subject, items in measured
        for measure, values in items.items()
        for item, value in values.items()
    ]
    keys = ("query_set", "interval_start", "interval_end")
    return pa.Table.from_pylist(rows, schema=pa.schema([column for column in METRICS if column.name not in keys]))


def link_row(items: Items, before: Sequence[Items], settings: History, skew: int) -> Row:
    """The columns of the measures of a link that compare it with the intervals before."""
    judged = bool(before) and is_whole(items)
    few = not judged or items["volume"][""] < FEWEST_RECORDS
    usual, mix = {name: _usual(before, name) for name in _COLUMNS}, _mean(before, "talkers")
    now = {name: items.get(name, {}).get("", 0) for name in _COLUMNS}
    late = max(0.0, now["lateness"] - usual["lateness"]) / (skew or SECOND)
    types, talkers = items.get("link_types", {}), items.get("talkers", {})
    usual_types = {name for earlier in before for name in earlier.get("link_types", {})}
    drifts = {
        "volume": _relative_change(now["volume"], usual["volume"]),
        "violating": max(0.0, now["violating"] - usual["violating"]),
        "lateness": 0.0 if few or items["volume"][""] < FEWEST_OF_TAIL else min(1.0, late),
        "silence": max(0.0, 1 - usual["silence"] / now["silence"]) if now["silence"] > SECOND else 0.0,
        "link_types": sum((share for name, share in types.items() if name not in usual_types), 0.0),
        "talkers": 0.0 if few or not mix else _mix_distance(talkers, mix),
    }
    row: Row = {"past": len(before)}
    for name, column in _COLUMNS.items():
        row[column] = now[name] if name in items else None
        row[f"usual_{column}"] = round(usual[name]) if isinstance(now[name], int) else usual[name]
    row["new_link_types"] = ", ".join(sorted({*types} - usual_types)) if judged else ""
    row["changed_talkers"] = _changed_shares(talkers, mix) if judged else ""
    return row | _drift_columns(settings, drifts, judged)


def query_row(items: Items, before: Sequence[Items], settings: History) -> Row:
    """The columns of the measures of an output query that compare it with the intervals before."""
    now, usual = items.get("volume", {}).get(""), _usual(before, "volume")
    values = {"past": len(before), "volume": now, "usual_volume": round(usual)}
    drifts = {"volume": _relative_change(now or 0, usual)}
    return values | _drift_columns(settings, drifts, bool(before) and is_whole(items))


def _drift_columns(settings: History, drifts: Mapping[str, float], judged: bool) -> Row:
    columns: Row = {}
    for name, drift in drifts.items():
        limit = getattr(settings, name)
        columns[f"{name}_drift"] = drift if judged else 0.0
        columns[f"{name}_drift_warning"], columns[f"{name}_drift_critical"] = limit.warning, limit.critical
    return columns


def _usual(before: Sequence[Items], measure: str) -> float:
    return median(earlier.get(measure, {}).get("", 0.0) for earlier in before) if before else 0.0


def _mean(before: Sequence[Items], measure: str) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for earlier in before:
        for item, share in earlier.get(measure, {}).items():
            total[item] += share / len(before)
    return total


def _relative_change(now: float, usual: float) -> float:
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
    critical: float  # critical limit in force
    limit: float  # proposed warning limit
    beyond: int  # intervals that exceed the proposed limit


def limit_proposals(config: Config, histories: Sequence[IntervalHistory]) -> list[LimitProposal]:
    """Proposes a limit for every measure with enough past intervals."""
    drifts: dict[str, list[float]] = defaultdict(list)
    shares: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for history in histories:
        for (kind, subject), intervals in sorted(history.intervals.items()):
            first = sorted(intervals)[-NEWEST_INTERVALS:][0]
            for _, items, row in history.judged(config, kind, subject, first):
                for name in DRIFTS[kind] if row["past"] and is_whole(items) else ():
                    drifts[name].append(row[f"{name}_drift"])
            for name in LINK_SHARES if kind == LINK else ():
                known = {start: items[name][""] for start, items in intervals.items() if name in items}
                shares[subject, name] |= known
    limits = {("history", name): (values, getattr(config.history, name)) for name, values in drifts.items()}
    for (link, name), known in sorted(shares.items()):
        if len(known) >= config.history.least:
            section = section_of(link, "thresholds").strip("[]")
            limits[section, name] = [*known.values()], getattr(config.limits(link), name)
    return [_proposal(*key, sorted(values), now) for key, (values, now) in limits.items()]


def _proposal(section: str, key: str, values: Sequence[float], now: Limits) -> LimitProposal:
    limit = propose(values)
    beyond, warned = (sum(value > bound for value in values) for bound in (limit, now.warning))
    middle = values[len(values) // 2]
    in_force = now.warning, warned, now.critical
    return LimitProposal(section, key, len(values), middle, values[-1], *in_force, limit, beyond)


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
