"""The measures of an interval that its audit looks at: one row a link, one an LFTA and link, one
an output query, one a rule that people wrote for the rows of a query.

Between the ledgers and streams of a run and `lowwater_expectations`, which holds the frames against its suites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.config import Config, Link, Thresholds
from lowwater.instants import SECOND, format_instant
from lowwater.lake.layout import OUTCOMES, Lake
from lowwater.lake.ledgers.captures import Capture, malformed_between
from lowwater.lake.ledgers.coverage import Gap, gap_text
from lowwater.lake.ledgers.outside import OutsideCount, elsewhere, outside, outside_words
from lowwater.lake.ledgers.runs import read_heartbeats, read_violations
from lowwater.lake.packets import PacketFiles
from lowwater.quality.queries import QueryMeasures
from lowwater.quality.rows import Judged
from lowwater.quality.scan import MINUTE, LinkScan

EXAMPLES = 5
"""Most files, records and offsets that a measure names."""

_RECORD = ("capture", "position")

Row = dict[str, Any]
Counts = Mapping[tuple[str, str], Mapping[str, int]]
"""(LFTA, link) -> `sane` and OUTCOMES."""


@dataclass(frozen=True)
class Scope:
    """What is measured.

    Attributes:
        lake: holds the ledgers.
        config: settings of the links.
        query_set: its name.
        start: the start of the interval, ns; `end` its end.
        captures: the ledger, per link in the order of T1.
        lftas: (LFTA, link) of every instance.
        gaps: in the coverage of the links over what the run reads, that are not let pass.
        excluded: those that are let pass, by policy `publish` or since captures begin or end there (T6).
    """

    lake: Lake
    config: Config
    query_set: str
    start: int
    end: int
    captures: Mapping[str, Sequence[Capture]]
    lftas: Sequence[tuple[str, str]]
    gaps: Sequence[Gap]
    excluded: Sequence[Gap] = ()

    @property
    def interval(self) -> str:
        """The interval as a text."""
        return f"{format_instant(self.start)} to {format_instant(self.end)}"

    @property
    def links(self) -> list[str]:
        """The links that are read, sorted."""
        return sorted({link for _, link in self.lftas})

    def files(self, *links: str) -> str:
        """The names of the captures of some links that meet the interval."""
        names = [
            Path(each.path).name
            for link in links
            for each in self.captures.get(link, ())
            if each.meets(self.start, self.end) or (each.covers_from < self.end and each.covers_to > self.start)
        ]
        return _first(names, len(names)) or "none"


def lfta_counts(scope: Scope) -> Counts:
    """The account of every LFTA instance from the ledger of heartbeats: sane records, and what became of them (A1)."""
    beats = read_heartbeats(scope.lake, scope.query_set, scope.start, scope.end)
    names = ("sane", *OUTCOMES)
    sums = beats.group_by(["lfta", "link"]).aggregate([(name, "sum") for name in names]).to_pylist()
    found = {(row["lfta"], row["link"]): {name: row[f"{name}_sum"] for name in names} for row in sums}
    return {instance: found.get(instance, dict.fromkeys(names, 0)) for instance in scope.lftas}


def frames(
    scope: Scope,
    scans: Sequence[LinkScan],
    counts: Counts,
    queries: Sequence[QueryMeasures],
    rules: Mapping[str, Sequence[Judged]],
) -> dict[str, pa.Table]:
    """The four frames, by the name of their suite.

    Args:
        scope: what is measured.
        scans: the scans of every link that is read.
        counts: as `lfta_counts` gives them.
        queries: every output query.
        rules: what people expect of the rows of each of them, judged.
    """
    return {
        "links": pa.Table.from_pylist([_link(scope, scan, counts) for scan in scans]),
        "lftas": pa.Table.from_pylist([_lfta(scope, counts, *instance) for instance in scope.lftas]),
        "queries": pa.Table.from_pylist([_query(scope, each) for each in queries]),
        "rows": pa.Table.from_pylist(
            [{**_about(scope, each), **rule.measures()} for each in queries for rule in rules[each.query]]
        ),
    }


def _link(scope: Scope, scan: LinkScan, counts: Counts) -> Row:
    link, settings = scan.link, scope.config.link(scan.link)
    captures = scope.captures.get(link, ())
    late = read_violations(scope.lake, link, settings.skew, scope.start, scope.end)
    malformed = malformed_between(scope.lake, link, captures, scope.start, scope.end)
    sane = max(count["sane"] for (_, on), count in counts.items() if on == link)
    files = PacketFiles.of(scope.lake)
    apart = outside(files, link, captures, settings, scope.start, scope.end)
    unread = sum(count.unread for _, count in apart)
    misdated = elsewhere(files, link, captures, settings, scope.start, scope.end)
    read = malformed.num_rows + scan.violations.num_rows + scan.sane + unread
    unaccounted = _unaccounted(scan.sane - sane, scan.violations.num_rows - late.num_rows)
    limits = scope.config.limits(link)
    gaps = [gap for gap in scope.gaps if gap.link == link]
    excluded = [gap for gap in scope.excluded if gap.link == link]
    return {
        "link": link,
        "interval": scope.interval,
        "captures": scope.files(link),
        "read": read,
        "malformed": malformed.num_rows,
        "violating": late.num_rows,
        "sane": sane,
        "outside": unread,
        "uncovered": sum(count.uncovered for _, count in apart),
        "places": _places(apart, settings),
        "misdated": sum(count for _, count in misdated),
        "elsewhere": _elsewhere(misdated, settings),
        "unaccounted": unaccounted,
        "strays": _first(found := strays(scope, scan, late), len(found)) if unaccounted else "",
        "gap_ns": sum(gap.until - gap.since for gap in gaps),
        "excluded_ns": sum(gap.until - gap.since for gap in excluded),
        "gaps": "; ".join(gap_text(gap, captures) for gap in (*gaps, *excluded)),
        **_share("violating", late.num_rows, read, limits),
        **_share("malformed", malformed.num_rows, read, limits),
        "latest_ns": pc.max(late.column("lateness")).as_py() or 0,
        "skew_ns": settings.skew,
        "violations": _violations(captures, late),
        "offsets": _offsets(captures, malformed),
    }


def strays(scope: Scope, scan: LinkScan, late: pa.Table) -> list[str]:
    """Where packets and accounts differ (A1): violations by record, sane records by minute, capture and positions.

    Args:
        scope: what is measured.
        scan: the scan of the link.
        late: its violations, as the ledger has them.
    """
    names = {each.capture: Path(each.path).name for each in scope.captures.get(scan.link, ())}
    here, there = (set(zip(*(t[name].to_pylist() for name in _RECORD), strict=True)) for t in (scan.violations, late))
    found = [f"{names.get(capture)} record {at}, late, in no account" for capture, at in sorted(here - there)]
    found += [f"{names.get(capture)} record {at}, late, not in packets/" for capture, at in sorted(there - here)]
    known = _minutes(scope, scan.link)
    counted: dict[int, int] = {}
    for (minute, _), stretch in scan.minutes.items():
        counted[minute] = counted.get(minute, 0) + stretch.count
    for minute in sorted(counted.keys() | known.keys()):
        missing = counted.get(minute, 0) - known.get(minute, 0)
        if missing:
            where = ", ".join(
                f"{names.get(capture)} records {stretch.first} to {stretch.last}"
                for (at, capture), stretch in sorted(scan.minutes.items())
                if at == minute
            )
            kind = "more in packets/" if missing > 0 else "more in the accounts"
            found.append(f"{format_instant(minute * MINUTE)} {abs(missing)} {kind} ({where or 'no packet'})")
    return found


def _minutes(scope: Scope, link: str) -> dict[int, int]:
    """The sane records of a link by minute, as the LFTA that saw most says."""
    beats = read_heartbeats(scope.lake, scope.query_set, scope.start, scope.end)
    found: dict[int, int] = {}
    for row in beats.filter(pc.equal(beats.column("link"), link)).select(["start", "sane"]).to_pylist():
        minute = row["start"] // MINUTE
        found[minute] = max(found.get(minute, 0), row["sane"])
    return found


def _unaccounted(sane: int, violating: int) -> int:
    """Records of `packets/` that are in no account; below 0: records in the accounts that `packets/` lacks (A1).

    Args:
        sane: how many more there are than the accounts say; `violating` too.
    """
    return max(0, sane) + max(0, violating) or min(0, sane) + min(0, violating)


def _lfta(scope: Scope, counts: Counts, lfta: str, link: str) -> Row:
    mine = counts[lfta, link]
    named = sum(mine[name] for name in OUTCOMES)
    others = [mine["sane"] - count["sane"] for (_, on), count in counts.items() if on == link]
    return {
        "lfta": lfta,
        "link": link,
        "interval": scope.interval,
        "captures": scope.files(link),
        "sane": mine["sane"],
        "named": named,
        "unaccounted": mine["sane"] - named,
        "disagreement": max(others, key=abs),
        "failed": mine["failed"],
        **_share("failed", mine["failed"], mine["sane"], scope.config.limits(link)),
    }


def _query(scope: Scope, query: QueryMeasures) -> Row:
    return {**_about(scope, query), **query.measures()}


def _about(scope: Scope, query: QueryMeasures) -> Row:
    links = sorted(query.links)
    named = {"links": ", ".join(links), "captures": scope.files(*links)}
    return {"query": query.query, "interval": scope.interval, **named}


def _share(kind: str, count: int, whole: int, limits: Thresholds) -> Row:
    limit = getattr(limits, kind)
    return {
        f"{kind}_share": count / whole if whole else 0.0,
        f"{kind}_warning": limit.warning,
        f"{kind}_critical": limit.critical,
    }


def _violations(captures: Sequence[Capture], late: pa.Table) -> str:
    names = {each.capture: Path(each.path).name for each in captures}
    found = [
        f"{names.get(row['capture'])} record {row['position']} ({row['lateness'] / SECOND:.6g}s late)"
        for row in late.slice(0, EXAMPLES).to_pylist()
    ]
    return _first(found, late.num_rows)


def _places(apart: Sequence[tuple[Capture, OutsideCount]], settings: Link) -> str:
    found = [f"{Path(each.path).name} ({outside_words(each, count, settings)})" for each, count in apart]
    return _first(found, len(apart))


def _elsewhere(misdated: Sequence[tuple[Capture, int]], settings: Link) -> str:
    """Captures with records outside of what they are declared to cover, and where their records lie."""
    found = [
        f"{Path(each.path).name} ({outside_words(each, OutsideCount(uncovered=count), settings)}; its records are from "
        f"{format_instant(each.smallest or 0)} to {format_instant(each.largest or 0)})"
        for each, count in misdated
    ]
    return _first(found, len(found))


def _offsets(captures: Sequence[Capture], malformed: pa.Table) -> str:
    names = {each.attempt: Path(each.path).name for each in captures}
    found = [
        f"{names[row['attempt']]} at byte {row['offset']} ({row['reason']})"
        for row in malformed.slice(0, EXAMPLES).to_pylist()
    ]
    return _first(found, malformed.num_rows)


def _first(texts: Sequence[str], total: int) -> str:
    """The first texts, and how many there are beyond.

    Example:
        >>> _first(["a", "b"], 2), _first(list("abcdefg"), 7), _first([], 0)
        ('a, b', 'a, b, c, d, e and 2 more', '')
    """
    shown = list(texts[:EXAMPLES])
    return ", ".join(shown) + (f" and {total - len(shown)} more" if total > len(shown) else "")
