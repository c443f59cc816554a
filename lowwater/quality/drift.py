"""Compares the measures of an interval with those of the intervals before it.

Takes the frames of `measures` and the profiles of the links. The rows go to the ledger `metrics` and to the suites
`link_history` and `query_history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from lowwater.instants import SECOND
from lowwater.lake.layout import METRICS
from lowwater.lake.ledgers.history import LinkLateness
from lowwater.quality.links.profile import LinkProfile
from lowwater.sections import History

LINK, QUERY = "link", "query"
COVERED = "covered"
"""Measure of links and queries: the share of the interval that the links cover, the least of them. What is not covered
is not zero: an interval that is not covered and has no records has no other measure, and one that is covered in part is
neither compared nor compared with."""
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
    """The past intervals of the links and queries of a query set.

    Attributes:
        settings: number of intervals to compare with, and their season.
        intervals: (kind, subject) -> start of the interval, ns since the epoch -> its measures.
    """

    settings: History
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
    """Collects the measures of a link.

    Args:
        row: the row of the frame `links`.
        profile: the profile of its records.
        types: link type -> packets of the captures that overlap the interval.
        covered: share of the interval that the link covers.
    """
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


def query_items(row: Row, covered: float = 1.0) -> Items:
    """Collects the measures of an output query from its row of the frame `queries`.

    Args:
        row: the row.
        covered: share of the interval that its links cover, the least of them.
    """
    volume = {"volume": {"": row["rows"]}} if covered or row["rows"] else {}
    return {COVERED: {"": covered}, **volume}


def metric_rows(kind: str, subject: str, items: Items, now: int) -> Iterable[Row]:
    """Yields the rows of the ledger `metrics` for a link or query.

    Args:
        kind: `link` or `query`.
        subject: name of the link or query.
        items: measures: name -> item -> value.
        now: instant of the audit, ns since the epoch.
    """
    for measure, values in items.items():
        for item, value in values.items():
            identity = {"kind": kind, "subject": subject, "measure": measure, "item": item}
            yield {**identity, "value": float(value), "measured_at": now}


def metric_table(rows: Iterable[Row]) -> pa.Table:
    """Builds the table that `record_metrics` stores."""
    keys = ("query_set", "interval_start", "interval_end")
    return pa.Table.from_pylist(list(rows), schema=pa.schema([column for column in METRICS if column.name not in keys]))


def lateness_row(link: str, start: int, end: int, skew: int, profile: LinkProfile, now: int) -> LinkLateness:
    """Builds the row of the ledger `lateness` for a link.

    Args:
        link: name of the link.
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        skew: skew of the link at the audit, ns.
        profile: measures of the records that arrived in the interval.
        now: instant of the audit, ns since the epoch.
    """
    watch = profile.watch
    return LinkLateness(
        link, start, end, skew, watch.refused, watch.lags.largest, watch.busiest, *watch.lags.counted(), now
    )


def link_row(about: Row, items: Items, before: Sequence[Items], settings: History, skew: int) -> Row:
    """Builds the row of a link in the frame `link_history`.

    Args:
        about: link, interval and captures.
        items: measures of this interval.
        before: measures of the intervals to compare with.
        settings: limits of the drifts.
        skew: skew of the link, ns.
    """
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
    """Builds the row of an output query in the frame `query_history`; arguments as of `link_row`."""
    now, usual = items.get("volume", {}).get(""), _usual(before, "volume")
    drifts = {"volume": _relative_change(now or 0, usual)}
    values = {"past": len(before), "volume": now, "usual_volume": round(usual)}
    return {**about, **values, **_drift_columns(settings, drifts, bool(before) and is_whole(items))}


def _drift_columns(settings: History, drifts: Mapping[str, float], judged: bool) -> Row:
    columns: Row = {}
    for name, drift in drifts.items():
        limit = getattr(settings, name)
        columns[f"{name}_drift"] = drift if judged else 0.0
        columns[f"{name}_warning"], columns[f"{name}_critical"] = limit.warning, limit.critical
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
