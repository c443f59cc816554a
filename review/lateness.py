"""Skew review of a link from the ledger `lateness`, which holds the counts of audits; and who was late, by captures and
senders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lowwater.catalog.values import format_ip, ip_from_words
from lowwater.config import Link
from lowwater.instants import DAY, WEEK
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.ledgers.runs import LinkLateness, lateness_files, read_lateness, read_violations
from lowwater.lake.open_tables import ValuesByState
from lowwater.lake.packets import read_packets
from lowwater.limits import OFFENDER_PACKETS
from lowwater.quality.lateness import IntervalLateness, LatenessCounts
from lowwater.quality.links import SOURCE
from lowwater.replay.schedule.links import readers, row_rates
from lowwater.replay.schedule.skew_review import SkewReview, headline, review

from .ledgers import Snapshot

RECENT = 31 * DAY
"""Period before the end of the last capture that a review covers, ns."""
_HEADLINES = ValuesByState(512)
"""Reviews and headlines of links."""


def link_headline(snapshot: Snapshot, link: str) -> tuple[SkewReview, str]:
    """Returns the review of a link and its headline, without intervals and readers: those of all take much memory.

    It is computed again only if files of the link have come or gone, or its settings are others.
    """
    place, captures = (snapshot.lake.root, link), snapshot.captures.get(link)
    state = lateness_files(snapshot.lake, link), snapshot.config.link(link), captures and captures.end

    def reviewed() -> tuple[SkewReview, str]:
        found = _reviewed(snapshot, link, rated=False)
        return replace(found, seen=()), headline(found)

    return _HEADLINES.get(place, state, reviewed)


def link_review(snapshot: Snapshot, link: str) -> SkewReview:
    """Reviews the last month of a link, over intervals of the most frequent length."""
    return _reviewed(snapshot, link, rated=True)


def _reviewed(snapshot: Snapshot, link: str, rated: bool) -> SkewReview:
    captures = Captures.of(snapshot.captures.get(link, ()))
    end = captures.end or 0
    # One skew holds for what is shown: that of the newest period of the link.
    since, _, settings = next(each for each in snapshot.config.link(link).pieces() if end < each.until)
    rows, skew = read_lateness(snapshot.lake, link, max(0, end - RECENT, since), end + 1), settings.skew
    lengths = Counter(row.interval_end - row.interval_start for row in rows)
    usual = lengths.most_common(1)[0][0] if lengths else 0
    chosen = [row for row in rows if row.interval_end - row.interval_start == usual and len(row.counts)]
    seen = _seen(chosen, skew)
    start, until = (seen[0].start, seen[-1].end) if seen else (0, 0)
    waiting = readers(snapshot.jobs.values(), link, row_rates(snapshot.records, start, until)) if rated else ()
    return review(link, skew, seen, readers=waiting, captures=captures)


def _seen(rows: Sequence[LinkLateness], skew: int) -> list[IntervalLateness]:
    seen = []
    for row in rows:
        lags = LatenessCounts.of(row.bounds, row.counts, row.largest)
        refused = row.refused if row.skew == skew else lags.lost(skew)
        seen.append(IntervalLateness(row.interval_start, row.interval_end, lags, refused, row.busiest))
    return seen


def late_intervals(snapshot: Snapshot, link: str) -> list[tuple[int, int]]:
    """The intervals of the last month in which records of a link were refused."""
    rows = read_lateness(snapshot.lake, link, *_recent(snapshot, link))
    return sorted({(row.interval_start, row.interval_end) for row in rows if row.refused})


def refused_shares(snapshot: Snapshot, link: str) -> dict[tuple[int, int], float]:
    """Interval [start, end), ns -> share of the records of a link that were refused; of the last month and a week."""
    start, end = _recent(snapshot, link)
    rows = read_lateness(snapshot.lake, link, max(0, start - WEEK), end)
    totals = ((row, int(sum(row.counts))) for row in rows)
    return {(row.interval_start, row.interval_end): row.refused / total for row, total in totals if total}


def _recent(snapshot: Snapshot, link: str) -> tuple[int, int]:
    end = Captures.of(snapshot.captures.get(link, ())).end or 0
    return max(0, end - RECENT), end + 1


def last_day(snapshot: Snapshot) -> tuple[int, int]:
    """The newest day (UTC, ns) that captures or runs reach the end of; that of the first where there is none."""
    first, last = snapshot.span or (0, 0)
    end = max(last // DAY, first // DAY + 1) * DAY
    return end - DAY, end


# Who was late: captures and senders of the skew violations of a link in a stretch of time, by the ledger
# `skew_violations`; for senders by the packets that it names.

FIRST = 10
"""First violations that are listed."""
MOST_NAMED = 20
"""Captures and senders that are listed."""


@dataclass(frozen=True)
class Offender:
    """A capture or sender of late records."""

    name: str  # file name, or address; empty for records without an IP source
    late: int  # its late records
    records: int | None  # all of its records; None of a sender
    largest: int  # the largest lateness, ns


@dataclass(frozen=True)
class Offenders:
    """The skew violations that arrive in a stretch of time."""

    late: int  # their number
    largest: int  # the largest lateness, ns
    captures: tuple[Offender, ...]  # the captures with the most of them
    senders: tuple[Offender, ...]  # the senders with the most of the first `looked_up` of them
    looked_up: int  # violations whose packets were looked up
    first: tuple[dict[str, Any], ...]  # the first of them: file name, and the columns of the ledger


def offenders(lake: Lake, link: str, captures: Sequence[Capture], settings: Link, start: int, end: int) -> Offenders:
    """Finds who was late of a link by its present skew, among the records that arrive in [start, end), ns."""
    rows = read_violations(lake, link, settings, start, end)
    if not rows.num_rows:
        return Offenders(0, 0, (), (), 0, ())
    by_capture = rows.group_by("capture").aggregate([("lateness", "count"), ("lateness", "max")]).to_pylist()
    names = Captures.of(captures).names_of({row["capture"] for row in by_capture})
    packets = {capture.capture: capture.packets for capture in captures}
    named = [
        Offender(names.get(each["capture"], each["capture"][:12]), each["lateness_count"],
                 packets.get(each["capture"]), each["lateness_max"])
        for each in by_capture
    ]  # fmt: skip
    looked_up = rows.slice(0, OFFENDER_PACKETS)
    first = [{**row, "capture": names.get(row["capture"], "")} for row in rows.slice(0, FIRST).to_pylist()]
    return Offenders(
        rows.num_rows,
        max(each.largest for each in named),
        _worst(named),
        _worst(_senders(lake, link, captures, settings, looked_up)),
        looked_up.num_rows,
        tuple(first),
    )


def _worst(found: Sequence[Offender]) -> tuple[Offender, ...]:
    return tuple(sorted(found, key=lambda each: (-each.late, each.name))[:MOST_NAMED])


def _senders(lake: Lake, link: str, captures: Sequence[Capture], settings: Link, rows: pa.Table) -> list[Offender]:
    """Counts the sources of the packets of some violations, in order of arrival."""
    start, end = rows.column("arrival")[0].as_py(), rows.column("arrival")[-1].as_py() + 1
    late = rows.select(["capture", "position", "lateness"])
    # A range of timestamps that is empty leaves the records that arrive here.
    read = read_packets(lake, link, captures, settings, end, start, end, SOURCE)
    found = [pa.Table.from_batches([batch]).join(late, ["capture", "position"], join_type="inner") for batch in read]
    counts = pa.concat_tables(found).group_by(SOURCE).aggregate([("lateness", "count"), ("lateness", "max")])
    return [_sender(row) for row in counts.to_pylist()]


def _sender(row: dict[str, Any]) -> Offender:
    words = [row[name] for name in SOURCE]
    name = format_ip(ip_from_words(*(word or 0 for word in words))) if words[-1] is not None else ""
    return Offender(name, row["lateness_count"], None, row["lateness_max"])
