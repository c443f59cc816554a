"""The measures that the audit of an interval judges: a row for each link, each LFTA of a link, each output query and
each custom expectation.

Reads the ledgers and the checks of the streams. `lowwater_expectations` judges the frames that come out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.capture.inspect import subsecond_words
from lowwater.config import Config, Link, Thresholds
from lowwater.instants import HOUR, SECOND, WEEK, format_instant
from lowwater.lake import layout, packets
from lowwater.lake.ledgers.captures import Capture, Captures, malformed_between, shared_words, undecoded_share
from lowwater.lake.ledgers.coverage import (
    Gap,
    hole_line,
    silence_text,
    silences,
    uncovered_text,
    undeclared,
    undeclared_text,
)
from lowwater.lake.ledgers.drops import counted
from lowwater.lake.ledgers.late import Doubtful, refused_hours
from lowwater.lake.ledgers.missing import (
    Missing,
    OutsideCount,
    damage_defect,
    drop_words,
    elsewhere,
    late_defects,
    lost_of_link,
    outside,
    outside_words,
)
from lowwater.lake.ledgers.runs import late_share, read_heartbeats, read_violations
from lowwater.lake.ledgers.statements import Defect
from lowwater.lake.query_sets import UNREAD
from lowwater.quality import history, lateness, streams
from lowwater.quality.links import MINUTE, LinkScan
from lowwater.quality.suites import LATE

EXAMPLES = 5
"""Number of files, records and offsets that a measure names."""


_NO_RECORD = pa.array(["length", "block", "compression"])
"""Reasons of malformed rows for bytes that are no record."""

Row = dict[str, Any]
Counts = Mapping[tuple[str, str], Mapping[str, int]]
"""(LFTA, link) -> `sane` and OUTCOMES."""


@dataclass(frozen=True)
class AuditScope:
    """The interval that an audit measures, with the ledgers and settings it needs."""

    lake: layout.Lake  # holds the ledgers
    config: Config  # settings of the links
    query_set: str  # name of the query set
    start: int  # first instant of the interval, ns since the epoch
    end: int  # end of the interval, ns since the epoch, exclusive
    captures: Mapping[str, Sequence[Capture]]  # link -> ledger rows of its captures, in the order of rule T1
    lftas: Sequence[tuple[str, str]]  # (LFTA, link) of every LFTA instance
    gaps: Sequence[Gap]  # gaps in the coverage of the read range that should stop the run
    # gaps that the run passes over, by policy `publish` or because they lie before the first or after the last capture
    # (T6)
    excluded: Sequence[Gap] = ()
    missing: Sequence[Missing] = ()  # records in the read range that are known and that nobody reads (T6)
    accepted: Collection[Defect] = ()  # what is missing, and people accept
    # the range of all intervals that are audited together, whose ledgers are read once; None for this interval alone
    together: tuple[int, int] | None = None

    @property
    def interval(self) -> str:
        return f"{format_instant(self.start)} to {format_instant(self.end)}"

    @property
    def links(self) -> list[str]:
        return sorted({link for _, link in self.lftas})

    def files(self, *links: str) -> str:
        """The file names of the captures of some links that overlap the interval."""
        names = []
        for link in links:
            captures = Captures.of(self.captures.get(link, ()))
            names += [Path(captures[at].path).name for at in captures.covering(self.start, self.end)]
        return _abbreviated(names, len(names)) or "none"


def lfta_counts(scope: AuditScope) -> Counts:
    """The account of every LFTA instance, from the ledger of heartbeats: sane records and their outcomes (A1)."""
    beats = read_heartbeats(scope.lake, scope.query_set, scope.start, scope.end, scope.together)
    names = ("sane", *layout.OUTCOMES)
    sums = beats.group_by(["lfta", "link"]).aggregate([(name, "sum") for name in names]).to_pylist()
    counts_by_instance = {(row["lfta"], row["link"]): {name: row[f"{name}_sum"] for name in names} for row in sums}
    return {instance: counts_by_instance.get(instance, dict.fromkeys(names, 0)) for instance in scope.lftas}


def frames(
    scope: AuditScope,
    scans: Sequence[LinkScan],
    counts: Counts,
    queries: Sequence[streams.QueryMeasures],
    rules: Mapping[str, Sequence[streams.RuleResult]],
) -> dict[str, list[Row]]:
    """The rows of each table of measures, but for the columns that `history` adds to those of links and queries.
    `rules`: query -> what its suite says; `LATE` -> that of late records."""
    asked = {**{query.query: query.links for query in queries}, **({LATE: scope.links} if LATE in rules else {})}
    return {
        "links": [_link(scope, scan, counts) for scan in scans],
        "skew": [row for scan in scans for row in _skew(scope, scan)],
        "lftas": [_lfta(scope, counts, *instance) for instance in scope.lftas],
        "queries": [{**_named(scope, query.query, query.links), **query.measures()} for query in queries],
        "rows": [{**_named(scope, name, asked[name]), **rule.measures()} for name in asked for rule in rules[name]],
    }


def _link(scope: AuditScope, scan: LinkScan, counts: Counts) -> Row:
    link, settings = scan.link, scope.config.link(scan.link)
    captures = scope.captures.get(link, ())
    late = read_violations(scope.lake, link, settings, scope.start, scope.end, scope.together)
    malformed = malformed_between(scope.lake, link, captures, scope.start, scope.end)
    sane = max(count["sane"] for (_, on), count in counts.items() if on == link)
    files = packets.PacketFiles.of(scope.lake)
    apart = outside(files, link, captures, settings, scope.start, scope.end)
    unread = sum(count.unread for _, count in apart)
    shared_with, shared = shared_words(link, scope.captures, scope.start, scope.end)
    misdated = elsewhere(files, link, captures, settings, scope.start, scope.end)
    read = malformed.num_rows + scan.violations.num_rows + scan.duplicates + scan.sane + unread
    # Records of `packets/` without an account (A1); negative: records of the accounts that `packets/` lacks.
    apart_sane, apart_late = scan.sane - sane, scan.violations.num_rows - late.num_rows
    unaccounted = max(0, apart_sane) + max(0, apart_late) or min(0, apart_sane) + min(0, apart_late)
    accounted = _account(
        malformed=malformed.num_rows, violating=late.num_rows, duplicates=scan.duplicates, sane=sane, outside=unread
    )
    limits = scope.config.limits(link)
    silent = silences(captures, settings, scope.start, scope.end)
    gaps = [gap for gap in scope.gaps if gap.link == link]
    excluded = [gap for gap in scope.excluded if gap.link == link]
    lost = lost_of_link(scope.lake, link, Captures.of(captures), scope.start, scope.end)
    dropped, counted_whole = counted(lost)
    unread_files = [each for each in scope.missing if each.link == link and each.cause == UNREAD]
    return {
        "link": link,
        "interval": scope.interval,
        "captures": scope.files(link),
        "read": read,
        **accounted,
        **_apart(read, unread, apart, misdated, settings),
        "shared": shared,
        "shared_with": shared_with,
        "unaccounted": unaccounted,
        "uncounted": max(0, unaccounted),
        "untabled": max(0, -unaccounted),
        "strays": _abbreviated(strays := unaccounted_records(scope, scan, late), len(strays)) if unaccounted else "",
        "gap_ns": sum(gap.until - gap.since for gap in gaps),
        "excluded_ns": sum(gap.until - gap.since for gap in excluded),
        "gaps": "; ".join(uncovered_text(gap, captures) for gap in (*gaps, *excluded)),
        "undeclared": len(absent := undeclared(link, captures, settings, scope.start, scope.end)),
        "undeclared_files": undeclared_text(absent),
        "silent_ns": sum(min(each.until, scope.end) - max(each.since, scope.start) for each in silent),
        "silent": _abbreviated([silence_text(each) for each in silent[:EXAMPLES]], len(silent)),
        "unread": sum(each.files for each in unread_files),
        "not_read": "; ".join(each.reason for each in unread_files),
        **_copies(scan),
        **_share("violating", late.num_rows, read, limits),
        **_damage(captures, malformed, read, scope, limits),
        "dropped": dropped,
        **_share("dropped", dropped, counted_whole or read + dropped, limits),
        "drops": drop_words(lost) if dropped else "",
        **_undecoded(scope, link, limits),
        "latest_ns": pc.max(late.column("lateness")).as_py() or 0,
        "skew_ns": settings.at(scope.start).skew,
        "violations": _violations(captures, late),
        "offsets": _offsets(captures, malformed, read),
    }


def _undecoded(scope: AuditScope, link: str, limits: Thresholds) -> Row:
    """What may carry IP and is not decoded, of the captures that overlap the interval: the larger share of both."""
    rows = Captures.of(scope.captures.get(link, ()))
    share = undecoded_share(rows[at] for at in rows.covering(scope.start, scope.end))
    return {
        "undecoded": share.count.packets,
        "undecoded_types": share.words,
        "undecoded_share": share.largest,
        "undecoded_warning": limits.undecoded.warning,
        "undecoded_critical": limits.undecoded.critical,
    }


def _skew(scope: AuditScope, scan: LinkScan) -> Iterator[Row]:
    """Yields the rows of a link in the frame `skew`: an hour each, with the records that were refused as late of those
    that arrived in it, and of those whose own time it is, wherever they arrived (T6). The larger share is judged."""
    link, late = scan.link, scan.violations
    settings, limits = scope.config.link(link), scope.config.limits(link)
    arrived = pc.divide(late.column("arrival"), HOUR)
    sane: Counter[int] = Counter()
    for (minute, _), stretch in scan.minutes.items():
        sane[minute * MINUTE // HOUR] += stretch.count
    names = Captures.of(scope.captures.get(link, ())).names_of(set(pc.unique(late.column("capture")).to_pylist()))
    before = late_share(scope.lake, link, scope.start - WEEK, scope.end - WEEK) if late.num_rows else None
    refused = _refused(scope, link)
    share = _ratio(late.num_rows, late.num_rows + scan.sane)
    own_late = sum(of_hour.total() for of_hour in refused.values())
    own_share = _ratio(own_late, own_late + scan.sane)
    advice = _advice(scan, scope.end - scope.start)
    for hour in sorted({*sane, *refused, *pc.unique(arrived).to_pylist()} or {scope.start // HOUR}):
        mine = late.filter(pc.equal(arrived, hour)) if late.num_rows else late
        own = refused.get(hour, Counter[str]())
        read, own_read = sane[hour] + mine.num_rows, sane[hour] + own.total()
        worst = Counter(mine.column("capture").to_pylist()).most_common(1)
        alone = sane.keys() <= {hour}
        by_arrival = _ratio(mine.num_rows, read) if read >= history.FEWEST_RECORDS or alone else share
        by_own_time = _ratio(own.total(), own_read) if own_read >= history.FEWEST_RECORDS or alone else own_share
        bounds = max(hour * HOUR, scope.start), min((hour + 1) * HOUR, scope.end)
        yield {
            "link": link,
            "hour": format_instant(hour * HOUR),
            "interval": " to ".join(map(format_instant, bounds)),
            "captures": scope.files(link),
            "read": read,
            "violating": mine.num_rows,
            "own_read": own_read,
            "own_violating": own.total(),
            "own_violating_share": _ratio(own.total(), own_read),
            "arrived_share": by_arrival,
            "judged_share": max(by_arrival, by_own_time),
            **_share("violating", mine.num_rows, read, limits),
            "latest_ns": pc.max(mine.column("lateness")).as_py() or 0,
            "latest_warning_ns": limits.latest.warning,
            "latest_critical_ns": limits.latest.critical,
            "week_before_share": before,
            "growth_share": max(0.0, by_arrival - before) if before is not None else 0.0,
            "growth_warning": limits.growth.warning,
            "growth_critical": limits.growth.critical,
            "skew_ns": settings.at(scope.start).skew,
            "first": _violations(scope.captures.get(link, ()), mine),
            "own_captures": _abbreviated([*own], len(own)),
            "worst_capture": names.get(worst[0][0], worst[0][0]) if worst else "",
            "worst_capture_share": _ratio(worst[0][1] if worst else 0, mine.num_rows),
            **advice,
        }


def _refused(scope: AuditScope, link: str) -> dict[int, Counter[str]]:
    """Number of an hour -> how many records of its own time were refused as late, by file; without what people accept.

    It is of all captures of now. One that brings or takes such a record meets the interval, so it is one of its inputs
    (S1): the interval is judged anew, and the order of runs decides no verdict."""
    captures = scope.captures.get(link, ())
    within = scope.start, scope.end
    late = Doubtful.of(packets.PacketFiles.of(scope.lake), link, captures, scope.config).late(*within)
    found: dict[int, Counter[str]] = {}
    for of_hour in refused_hours(late, *within):
        for (capture, count), defect in zip(of_hour.late, late_defects(of_hour), strict=True):
            if defect not in scope.accepted:
                found.setdefault(of_hour.start // HOUR, Counter())[Path(capture.path).name] += count
    return found


def _advice(scan: LinkScan, length: int) -> Row:
    """The skew that the records of the interval recommend, what it would lose, and what it costs: records held."""
    watch = scan.profile.watch
    bound = lateness.recommend(watch.lags, lateness.LOSS)
    if bound is None:
        return dict.fromkeys(("recommended_ns", "recommended_lost", "recommended_lost_share", "recommended_held"))
    lost = watch.lags.lost(bound)
    return {
        "recommended_ns": bound,
        "recommended_lost": lost,
        "recommended_lost_share": _ratio(lost, watch.lags.records),
        "recommended_held": round(watch.lags.records * bound / length),
    }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def unaccounted_records(scope: AuditScope, scan: LinkScan, late: pa.Table) -> list[str]:
    """Names the records on which `packets/` and the accounts differ (A1): late records one by one, sane records by
    minute.
    """
    scanned, recorded = (
        set(zip(*(t[name].to_pylist() for name in ("capture", "position")), strict=True))
        for t in (scan.violations, late)
    )
    captures = {capture for capture, _ in scanned | recorded} | {capture for _, capture in scan.minutes}
    names = Captures.of(scope.captures.get(scan.link, ())).names_of(captures)
    differences = [
        f"{names.get(capture)} record {at}, late, {where}"
        for records, where in ((scanned - recorded, "in no account"), (recorded - scanned, "not in packets/"))
        for capture, at in sorted(records)
    ]
    recorded_minutes, counted = _minutes(scope, scan.link), Counter[int]()
    for (minute, _), stretch in scan.minutes.items():
        counted[minute] += stretch.count
    for minute in sorted(counted.keys() | recorded_minutes.keys()):
        missing = counted[minute] - recorded_minutes.get(minute, 0)
        if missing:
            where = ", ".join(
                f"{names.get(capture)} records {stretch.first} to {stretch.last}"
                for (at, capture), stretch in sorted(scan.minutes.items())
                if at == minute
            )
            kind = "more in packets/" if missing > 0 else "more in the accounts"
            differences.append(f"{format_instant(minute * MINUTE)} {abs(missing)} {kind} ({where or 'no packet'})")
    return differences


def _minutes(scope: AuditScope, link: str) -> dict[int, int]:
    """Sane records of a link by minute, from the account of the LFTA that read most of them."""
    beats = read_heartbeats(scope.lake, scope.query_set, scope.start, scope.end, scope.together)
    sane_by_minute: dict[int, int] = {}
    for row in beats.filter(pc.equal(beats.column("link"), link)).select(["start", "sane"]).to_pylist():
        minute = row["start"] // MINUTE
        sane_by_minute[minute] = max(sane_by_minute.get(minute, 0), row["sane"])
    return sane_by_minute


def _lfta(scope: AuditScope, counts: Counts, lfta: str, link: str) -> Row:
    mine = counts[lfta, link]
    named = sum(mine[name] for name in layout.OUTCOMES)
    disagreement = max((mine["sane"] - count["sane"] for (_, on), count in counts.items() if on == link), key=abs)
    return {
        "lfta": lfta,
        "link": link,
        "interval": scope.interval,
        "captures": scope.files(link),
        "sane": mine["sane"],
        "named": named,
        "unaccounted": mine["sane"] - named,
        "disagreement": disagreement,
        "ahead": max(0, disagreement),
        "behind": max(0, -disagreement),
        "failed": mine["failed"],
        **_share("failed", mine["failed"], mine["sane"], scope.config.limits(link)),
    }


def _named(scope: AuditScope, query: str, links: Sequence[str]) -> Row:
    about = {"links": ", ".join(sorted(links)), "captures": scope.files(*sorted(links))}
    return {"query": query, "interval": scope.interval, **about}


def _share(kind: str, count: int, whole: int, limits: Thresholds) -> Row:
    limit = getattr(limits, kind)
    return {
        f"{kind}_share": _ratio(count, whole),
        f"{kind}_warning": limit.warning,
        f"{kind}_critical": limit.critical,
    }


def _damage(captures: Sequence[Capture], malformed: pa.Table, read: int, scope: AuditScope, limits: Thresholds) -> Row:
    """What damage lost of an interval, and the share of malformed records: of rows, or of the records that fit into the
    damaged bytes, whichever is larger. Of damage that lasts beyond the interval, its part by time counts."""
    found = [
        each
        for each in Captures.of(captures).holes_in(scope.start, scope.end)
        if damage_defect(*each) not in scope.accepted
    ]
    lost = [
        hole.records * (min(until, scope.end) - max(since, scope.start)) / (until - since)
        for _, hole, (since, until) in found
    ]
    whole = malformed.num_rows - (pc.sum(pc.is_in(malformed.column("reason"), _NO_RECORD)).as_py() or 0)
    shares = _share("malformed", malformed.num_rows, read, limits)
    by_bytes = _ratio(whole + sum(lost), read - malformed.num_rows + whole + sum(lost))
    return {
        **shares,
        "malformed_share": max(shares["malformed_share"], by_bytes) if lost else shares["malformed_share"],
        "lost": max(1, round(sum(lost))) if lost else 0,
        "damage": _abbreviated([hole_line(*each) for each in found[:EXAMPLES]], len(found)),
    }


def _account(**parts: int) -> Row:
    """The outcomes of the records of a link (A1), their sum, and both in words; copies only where there are some."""
    said = [f"{name} {number:,}" for name, number in parts.items() if name != "duplicates" or number]
    return {**parts, "outcomes": sum(parts.values()), "account": " + ".join(said)}


def _apart(
    read: int,
    unread: int,
    outside: Sequence[tuple[Capture, OutsideCount]],
    misdated: Sequence[tuple[Capture, int]],
    settings: Link,
) -> Row:
    """Records outside of the life of a link, or of what their captures are declared to cover, and both in words."""
    left_out = 0 if settings.outside == "accepted" else unread
    uncovered, elsewhere = sum(count.uncovered for _, count in outside), sum(count for _, count in misdated)
    parts = [f"{_records(left_out)} outside of since and until, which no query reads"] if left_out else []
    parts += [f"{_records(uncovered)} outside of the declared coverage of their captures"] if uncovered else []
    places = [f"{Path(capture.path).name} ({outside_words(capture, count, settings)})" for capture, count in outside]
    said = [f"of {read:,} read, {'; '.join(parts)}: {_abbreviated(places, len(places))}"] if parts else []
    if elsewhere:
        said.append(
            f"{_records(elsewhere)} of captures that are declared to cover this interval lie at other times: "
            f"{_misdated_places(misdated, settings)}"
        )
    counts = {"left_out": left_out, "uncovered": uncovered, "misdated": elsewhere}
    return {**counts, "apart": sum(counts.values()), "places": "; ".join(said)}


def _records(count: int) -> str:
    return f"{count:,} record{'s' * (count != 1)}"


def _copies(scan: LinkScan) -> Row:
    """Shares of the records that are copies, of those that are compared; None where copies are not looked for."""
    counts = scan.copies
    if counts is None:
        return dict.fromkeys(("copies", "copies_share", "copies_elsewhere", "copies_elsewhere_share"))
    whole = counts.compared or 1
    return {
        "copies": counts.copies,
        "copies_share": counts.copies / whole,
        "copies_elsewhere": counts.elsewhere,
        "copies_elsewhere_share": counts.elsewhere / whole,
    }


def _violations(captures: Sequence[Capture], late: pa.Table) -> str:
    rows = late.slice(0, EXAMPLES).to_pylist()
    names = Captures.of(captures).names_of({row["capture"] for row in rows})
    examples = [
        f"{names.get(row['capture'])} record {row['position']} ({row['lateness'] / SECOND:.6g}s late)" for row in rows
    ]
    return _abbreviated(examples, late.num_rows)


def _misdated_places(misdated: Sequence[tuple[Capture, int]], settings: Link) -> str:
    """Captures with records outside their declared coverage, and the time of these records."""
    places = [
        f"{Path(capture.path).name} ({outside_words(capture, OutsideCount(uncovered=count), settings)}; "
        f"its records are from {format_instant(capture.smallest or 0)} to {format_instant(capture.largest or 0)})"
        for capture, count in misdated
    ]
    return _abbreviated(places, len(places))


def _offsets(captures: Sequence[Capture], malformed: pa.Table, read: int) -> str:
    rows = malformed.slice(0, EXAMPLES).to_pylist()
    names = Captures.of(captures).names_of({row["attempt"] for row in rows}, "attempt")
    places = [f"{names[row['attempt']]} {_place(row)} ({row['reason']})" for row in rows]
    parts = pc.sum(pc.equal(malformed.column("reason"), "sub-second")).as_py() or 0
    doubt = subsecond_words(parts, read)
    return _abbreviated(places, malformed.num_rows) + (f"; {doubt}" if doubt else "")


def _place(row: Row) -> str:
    """Where a malformed row lies; the offset of a record that another capture has judged is unknown (T3)."""
    return f"at byte {row['offset']}" if row["offset"] >= 0 else f"record {row['position']}"


def _abbreviated(texts: Sequence[str], total: int) -> str:
    """Joins the first EXAMPLES texts and says how many more there are.

    Example:
        >>> _abbreviated(["a", "b"], 2), _abbreviated(list("abcdefg"), 7), _abbreviated([], 0)
        ('a, b', 'a, b, c, d, e and 2 more', '')
    """
    shown = list(texts[:EXAMPLES])
    return ", ".join(shown) + (f" and {total - len(shown)} more" if total > len(shown) else "")
