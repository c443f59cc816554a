"""An interval beside those before it: its measures for the ledger, and the frames that say how far they are from usual.

Between the frames of `measures` with the profiles of the links, and the suites `link_history` and `query_history`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from lowwater.config import History
from lowwater.instants import SECOND
from lowwater.lake.layout import METRICS
from lowwater.lake.ledgers.history import LinkLateness
from lowwater.quality.profile import Profile

LINK, QUERY = "link", "query"
FEW = 100
"""Records below which who sent them, and how late one in a thousand is, says nothing."""

LINK_DRIFTS = ("volume", "violating", "lateness", "silence", "link_types", "talkers")
QUERY_DRIFTS = ("volume",)
"""The measures of a subject that are compared, as `[history]` names them."""

_COLUMNS = {
    "volume": "{}volume",
    "violating": "{}violations_share",
    "lateness": "{}lateness_ns",
    "silence": "{}silence_ns",
}

Row = dict[str, Any]
Items = Mapping[str, Mapping[str, float]]
"""Measure -> item -> value, of one subject and interval; the item is empty where the measure has none."""


@dataclass(frozen=True)
class Past:
    """What is known of the intervals of the subjects of a query set.

    Attributes:
        settings: how many intervals say what is usual.
        intervals: (kind, subject) -> begin of the interval, ns -> its measures.
    """

    settings: History
    intervals: Mapping[tuple[str, str], Mapping[int, Items]]

    def before(self, kind: str, subject: str, start: int) -> Sequence[Items]:
        """The intervals before one that say what is usual, newest last; none where they are too few."""
        season = self.settings.season or 1
        known = self.intervals.get((kind, subject), {})
        found = sorted(at for at in known if at < start and not (start - at) % season)
        chosen = found[-self.settings.intervals :] if len(found) >= self.settings.least else []
        return [known[at] for at in chosen]


def past(settings: History, metrics: pa.Table, length: int) -> Past:
    """What the ledger says of the intervals of a length (ns)."""
    grouped: dict[tuple[str, str], dict[int, dict[str, dict[str, float]]]] = {}
    for row in metrics.to_pylist():
        begin = row["interval_start"]
        if row["interval_end"] - begin == length:
            measures = grouped.setdefault((row["kind"], row["subject"]), {}).setdefault(begin, {})
            measures.setdefault(row["measure"], {})[row["item"]] = row["value"]
    return Past(settings, grouped)


def reach(settings: History, start: int, length: int) -> int:
    """From which instant on (ns) the ledger is read for the interval that begins at `start`."""
    return max(0, start - (settings.intervals + 1) * max(length, settings.season or 0))


def link_items(row: Row, profile: Profile, types: Mapping[str, int]) -> Items:
    """The measures of a link.

    Args:
        row: the row of the frame `links`.
        profile: the profile of its records.
        types: link type -> packets of the captures that meet the interval.
    """
    lags, packets = profile.watch.lags, sum(types.values())
    return {
        "volume": {"": row["read"]},
        "violating": {"": row["violating_share"]},
        "malformed": {"": row["malformed_share"]},
        "lateness": {"": lags.quantile(0.999) or 0},
        "latest": {"": lags.largest},
        "out_of_order": {"": lags.late / lags.records if lags.records else 0.0},
        "silence": {"": profile.silence},
        "gap": {"": row["gap_ns"] + row["excluded_ns"]},
        "link_types": {name: count / packets for name, count in types.items() if packets},
        "talkers": dict(profile.talkers),
    }


def query_items(row: Row) -> Items:
    """The measures of an output query, from its row of the frame `queries`."""
    return {"volume": {"": row["rows"]}}


def metric_rows(kind: str, subject: str, items: Items, now: int) -> Iterable[Row]:
    """The rows of the ledger for a subject.

    Args:
        kind: `link` or `query`.
        subject: name of the link or query.
        items: its measures: name -> item -> value.
        now: instant of the audit, ns since the epoch.
    """
    for measure, values in items.items():
        for item, value in values.items():
            said = {"kind": kind, "subject": subject, "measure": measure, "item": item}
            yield {**said, "value": float(value), "measured_at": now}


def metric_table(rows: Iterable[Row]) -> pa.Table:
    """Rows as `record_metrics` takes them."""
    keys = ("query_set", "interval_start", "interval_end")
    return pa.Table.from_pylist(list(rows), schema=pa.schema([each for each in METRICS if each.name not in keys]))


def lateness_row(link: str, start: int, end: int, skew: int, profile: Profile, now: int) -> LinkLateness:
    """The row of the ledger `lateness` for a link.

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
    """The row of a link in the frame `link_history`.

    Args:
        about: link, interval and captures.
        items: its measures now.
        before: those of the intervals that say what is usual.
        settings: the limits.
        skew: the skew of the link, ns.
    """
    few = items["volume"][""] < FEW
    usual = {name: _usual(before, name) for name in ("volume", "violating", "lateness", "silence")}
    mix = _mean(before, "talkers")
    now = {name: items[name][""] for name in usual}
    late = max(0.0, now["lateness"] - usual["lateness"]) / (skew or SECOND)
    had = {name for each in before for name in each.get("link_types", {})}
    drifts = {
        "volume": _apart(now["volume"], usual["volume"]),
        "violating": max(0.0, now["violating"] - usual["violating"]),
        "lateness": 0.0 if few else min(1.0, late),
        "silence": max(0.0, 1 - usual["silence"] / now["silence"]) if now["silence"] > SECOND else 0.0,
        "link_types": sum((share for name, share in items["link_types"].items() if name not in had), 0.0),
        "talkers": 0.0 if few or not mix else _distance(items["talkers"], mix),
    }
    new = sorted(name for name in items["link_types"] if name not in had) if before else []
    return {
        **about,
        "past": len(before),
        **{_COLUMNS[name].format(""): value for name, value in now.items()},
        **{_COLUMNS[name].format("usual_"): _like(now[name], usual[name]) for name in now},
        "new_link_types": ", ".join(new),
        "changed_talkers": _changed(items["talkers"], mix) if before else "",
        **_limited(settings, drifts, bool(before)),
    }


def query_row(about: Row, items: Items, before: Sequence[Items], settings: History) -> Row:
    """The row of an output query in the frame `query_history`; arguments as of `link_row`."""
    now, usual = items["volume"][""], _usual(before, "volume")
    drifts = {"volume": _apart(now, usual)}
    said = {"past": len(before), "volume": now, "usual_volume": round(usual)}
    return {**about, **said, **_limited(settings, drifts, bool(before))}


def _limited(settings: History, drifts: Mapping[str, float], judged: bool) -> Row:
    found: Row = {}
    for name, drift in drifts.items():
        limit = getattr(settings, name)
        found[f"{name}_drift"] = drift if judged else 0.0
        found[f"{name}_warning"], found[f"{name}_critical"] = limit.warning, limit.critical
    return found


def _like(now: float, usual: float) -> float:
    """The usual value as a whole number where the measure is one."""
    return round(usual) if isinstance(now, int) else usual


def _usual(before: Sequence[Items], measure: str) -> float:
    return median(each.get(measure, {}).get("", 0.0) for each in before) if before else 0.0


def _mean(before: Sequence[Items], measure: str) -> dict[str, float]:
    """The mean share of each item."""
    total: dict[str, float] = {}
    for each in before:
        for item, share in each.get(measure, {}).items():
            total[item] = total.get(item, 0.0) + share / len(before)
    return total


def _apart(now: float, usual: float) -> float:
    """1 - less / more; 0 where both are 0."""
    return 1 - min(now, usual) / max(now, usual) if now != usual else 0.0


def _distance(now: Mapping[str, float], usual: Mapping[str, float]) -> float:
    """How much of the one would have to be sent by others to be the other (total variation), the rest as one sender."""
    names = {*now, *usual}
    rest = abs(sum(now.values()) - sum(usual.values()))
    return min(1.0, (sum(abs(now.get(name, 0.0) - usual.get(name, 0.0)) for name in names) + rest) / 2)


def _changed(now: Mapping[str, float], usual: Mapping[str, float], most: int = 3) -> str:
    """The senders whose share changed most."""
    names = sorted({*now, *usual}, key=lambda name: (-abs(now.get(name, 0.0) - usual.get(name, 0.0)), name))
    return ", ".join(f"{name} {usual.get(name, 0.0):.1%} -> {now.get(name, 0.0):.1%}" for name in names[:most])
