"""The skew review of a link from the ledger `lateness`: what its audits counted, without reading a packet."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from lowwater.instants import HOUR
from lowwater.lake.ledgers.history import LinkLateness, read_lateness
from lowwater.quality.lateness.counts import LatenessCounts
from lowwater.quality.lateness.review import IntervalLateness, SkewReview, review
from lowwater.replay.schedule.link_queries import readers, row_rates

from .board import Snapshot

RECENT = 31 * 24 * HOUR
"""How much of the time before the last audit a page is about, ns."""


@lru_cache(maxsize=64)
def link_review(known: Snapshot, link: str) -> SkewReview:
    """The review of the last month of a link, over intervals of the length that most of its audits had."""
    end = max((each.covers_to for each in known.captures.get(link, ())), default=0)
    rows = read_lateness(known.lake, link, max(0, end - RECENT), end + 1)
    skew = known.config.link(link).skew
    lengths = Counter(row.interval_end - row.interval_start for row in rows)
    usual = lengths.most_common(1)[0][0] if lengths else 0
    seen = [_seen(row, skew) for row in rows if row.interval_end - row.interval_start == usual and len(row.counts)]
    start, until = (seen[0].start, seen[-1].end) if seen else (0, 0)
    waiting = readers(known.jobs.values(), link, row_rates(known.records, start, until))
    return review(link, skew, seen, readers=waiting, captures=known.captures.get(link, ()))


def _seen(row: LinkLateness, skew: int) -> IntervalLateness:
    lags = LatenessCounts.of(row.bounds, row.counts, row.largest)
    refused = row.refused if row.skew == skew else lags.lost(skew)
    return IntervalLateness(row.interval_start, row.interval_end, lags, refused, row.busiest)
