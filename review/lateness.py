"""Skew review of a link from the ledger `lateness`, which holds the counts of audits; reads no packets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lowwater.instants import HOUR
from lowwater.lake.ledgers.captures import Captures
from lowwater.lake.ledgers.history import LinkLateness, read_lateness
from lowwater.quality.lateness.counts import LatenessCounts
from lowwater.quality.lateness.review import IntervalLateness, SkewReview, review
from lowwater.quality.lateness.wording import headline
from lowwater.replay.schedule.link_queries import readers, row_rates

from .board import Snapshot, kept_by_snapshot

RECENT = 31 * 24 * HOUR
"""Period before the end of the last capture that a review covers, ns."""


@kept_by_snapshot
def link_headline(snapshot: Snapshot, link: str) -> tuple[SkewReview, str]:
    """Returns the review of a link and its headline, without its intervals: those of all links take much memory."""
    found = link_review(snapshot, link)
    return replace(found, seen=()), headline(found)


def link_review(snapshot: Snapshot, link: str) -> SkewReview:
    """Reviews the last month of a link, over intervals of the most frequent length."""
    end = Captures.of(snapshot.captures.get(link, ())).end or 0
    rows = read_lateness(snapshot.lake, link, max(0, end - RECENT), end + 1)
    skew = snapshot.config.link(link).skew
    lengths = Counter(row.interval_end - row.interval_start for row in rows)
    usual = lengths.most_common(1)[0][0] if lengths else 0
    seen = [_seen(row, skew) for row in rows if row.interval_end - row.interval_start == usual and len(row.counts)]
    start, until = (seen[0].start, seen[-1].end) if seen else (0, 0)
    waiting = readers(snapshot.jobs.values(), link, row_rates(snapshot.records, start, until))
    return review(link, skew, seen, readers=waiting, captures=snapshot.captures.get(link, ()))


def _seen(row: LinkLateness, skew: int) -> IntervalLateness:
    lags = LatenessCounts.of(row.bounds, row.counts, row.largest)
    refused = row.refused if row.skew == skew else lags.lost(skew)
    return IntervalLateness(row.interval_start, row.interval_end, lags, refused, row.busiest)
