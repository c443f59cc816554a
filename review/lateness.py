"""Skew review of a link from the ledger `lateness`, which holds the counts of audits; reads no packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from lowwater.instants import HOUR
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.runs import LinkLateness, lateness_files, read_lateness
from lowwater.lake.open_tables import ValuesByState
from lowwater.quality.lateness import IntervalLateness, LatenessCounts
from lowwater.replay.schedule.links import readers, row_rates
from lowwater.replay.schedule.skew_review import SkewReview, headline, review

from .ledgers import Snapshot

RECENT = 31 * 24 * HOUR
"""Period before the end of the last capture that a review covers, ns."""
DAY = 24 * HOUR
WEEK = 7 * DAY
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
    rows = read_lateness(snapshot.lake, link, max(0, end - RECENT), end + 1)
    skew = snapshot.config.link(link).skew
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


def refused_shares(snapshot: Snapshot, link: str) -> dict[int, float]:
    """Begin of an interval (ns) -> share of the records of a link that were refused; of the last month and a week."""
    start, end = _recent(snapshot, link)
    rows = read_lateness(snapshot.lake, link, max(0, start - WEEK), end)
    return {row.interval_start: row.refused / total for row in rows if (total := int(sum(row.counts)))}


def _recent(snapshot: Snapshot, link: str) -> tuple[int, int]:
    end = Captures.of(snapshot.captures.get(link, ())).end or 0
    return max(0, end - RECENT), end + 1


def last_day(snapshot: Snapshot) -> tuple[int, int]:
    """The newest day (UTC, ns) that captures or runs reach the end of; that of the first where there is none."""
    first, last = snapshot.span or (0, 0)
    end = max(last // DAY, first // DAY + 1) * DAY
    return end - DAY, end
