"""The skew review: for each possible skew of a link, the records it would refuse and the delay it would cost.

Reads `packets/` in one pass and bounded memory, or the ledger `lateness`. docs/review.md states the rule of the
recommendation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.config import LONGEST_SKEW
from lowwater.instants import SECOND
from lowwater.lake.ledgers.captures import Capture, Captures
from lowwater.lake.packets import LinkRead
from lowwater.quality.lateness.counts import LatenessCounts, LatenessMonitor, LateRecord, buckets_of, by_interval

LOSS = 0.0001
"""Default share of the records that a recommended bound may refuse."""

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
LADDER = tuple(digit * 10**power for power in range(3, 19) for digit in (1, 2, 5) if digit * 10**power < LONGEST_SKEW)
"""The bounds to compare, ns: 1, 2 and 5 times every power of ten from a microsecond on."""

BOUNDS = (0, *LADDER)
"""The bounds that may be recommended, ns."""
_BUCKETS = buckets_of(BOUNDS)

OUTLIER_FACTOR = 10
"""Records form a separate group if their least lateness is this many times the recommended bound."""

SMALL_BOUND = 1_000_000
"""A bound up to OUTLIER_FACTOR times this (ns) delays nobody noticeably, so below it nothing is an outlier."""

LEAST_KNEE = 0.1


@dataclass(frozen=True)
class IntervalLateness:
    """The lateness of the records of a link that arrived in an interval.

    Attributes:
        start: first instant of the interval, ns since the epoch.
        end: end of the interval, ns since the epoch, exclusive.
        lags: lateness of the records.
        refused: records later than the skew in force.
        busiest: largest number of records in one second of the link's clock.
        latest: the latest records, the latest first; empty where only the ledger was read.
    """

    start: int
    end: int
    lags: LatenessCounts
    refused: int
    busiest: int
    latest: tuple[LateRecord, ...] = ()


@dataclass(frozen=True)
class ReadingQuery:
    """A query that reads the link.

    Attributes:
        query_set: query set of the query.
        query: name of the query.
        waits: largest skew of its other links, ns; its rows wait at least so long (P3). None without other links.
        rate: rows per second that it published; None without publications in the range.
    """

    query_set: str
    query: str
    waits: int | None
    rate: float | None


@dataclass(frozen=True)
class BoundEffect:
    """The effect of one bound.

    Attributes:
        bound: the bound, ns; the promise of the link trails its clock by this time (T2).
        lost: number of records it refuses.
        share: share of all records it refuses.
        alive: mean number of records within the bound of the clock.
        busiest: the same in the busiest second.
    """

    bound: int
    lost: int
    share: float
    alive: float
    busiest: float


@dataclass(frozen=True)
class Outlier:
    """A single interval, or the intervals of one capture, without which a far smaller bound would do.

    Attributes:
        seen: the intervals, in order.
        captures: file names of the captures to look at.
        records: number of its records that are later than the bound recommended for the others.
        bound: bound that would be recommended with the outlier, ns; None if no skew would do.
    """

    seen: tuple[IntervalLateness, ...]
    captures: tuple[str, ...]
    records: int
    bound: int | None


@dataclass(frozen=True)
class SkewReview:
    """The skew review of a link.

    Attributes:
        link: name of the link.
        skew: skew in force, ns.
        loss: share of the records that a recommended bound may refuse.
        seen: the intervals with records, in order.
        total: lateness of all records.
        refused: records later than the skew in force.
        rungs: bounds with different effects, ascending; 0, the skew in force and the least bound that admits all
            records are among them.
        recommended: recommended bound without the outlier, ns; None without records, or if no skew would do.
        knee: bound beyond which a larger one gains little, ns; None without a bend.
        apart: (records, least lateness in ns) of a separate group beyond the recommended bound; None without one.
        latest: latest records of all intervals.
        readers: queries that read the link.
        outlier: intervals that alone need a far larger bound; None without any.
        others: lateness of the records without the outlier.
    """

    link: str
    skew: int
    loss: float
    seen: tuple[IntervalLateness, ...]
    total: LatenessCounts
    refused: int
    rungs: tuple[BoundEffect, ...]
    recommended: int | None
    knee: int | None
    apart: tuple[int, int] | None
    latest: tuple[LateRecord, ...]
    readers: tuple[ReadingQuery, ...]
    outlier: Outlier | None
    others: LatenessCounts

    def lost(self, bound: int) -> int:
        """Number of records outside the outlier that a bound refuses: a bound of two digits, or the skew in force."""
        if bound != self.skew:
            return self.others.lost(bound)
        return self.refused - sum(interval.refused for interval in (self.outlier.seen if self.outlier else ()))

    def rung(self, bound: int) -> BoundEffect:
        """The effect of a bound of two digits, or of the skew in force."""
        return _effect_of(
            bound, self.total, _load(self.seen), self.refused if bound == self.skew else self.total.lost(bound)
        )

    @property
    def advice(self) -> str:
        """`keep`, `raise`, `lower` or, where nothing is recommended, `none`."""
        if self.recommended is None:
            return "none"
        return "keep" if self.recommended == self.skew else "raise" if self.recommended > self.skew else "lower"


def link_lateness(read: LinkRead, skew: int, length: int) -> Iterator[IntervalLateness]:
    """Measures the lateness of a link, interval by interval.

    Args:
        read: read of the link; records that arrive in its [start, end) count.
        skew: skew in force, ns.
        length: length of the intervals, ns.

    Raises:
        LakeError: if the packets cannot be read.
    """
    begin, watch = -1, LatenessMonitor(skew)
    for batch in read.batches():
        arrived = batch.column("arrival")
        inside = pc.and_(pc.greater_equal(arrived, read.start), pc.less(arrived, read.end))
        for start, part in by_interval(_filtered_rows(batch, inside), length):
            if start != begin:
                if watch.lags.records:
                    yield _interval_lateness(begin, begin + length, watch)
                begin, watch = start, LatenessMonitor(skew)
            watch.add(part)
    if watch.lags.records:
        yield _interval_lateness(begin, begin + length, watch)


def _filtered_rows(batch: pa.RecordBatch, inside: pa.Array) -> pa.RecordBatch:
    return batch if pc.all(inside).as_py() else batch.filter(inside)


def _interval_lateness(start: int, end: int, watch: LatenessMonitor) -> IntervalLateness:
    return IntervalLateness(start, end, watch.lags, watch.refused, watch.busiest, watch.latest)


def review(
    link: str,
    skew: int,
    intervals: Iterable[IntervalLateness],
    loss: float = LOSS,
    readers: Sequence[ReadingQuery] = (),
    captures: Sequence[Capture] = (),
) -> SkewReview:
    """Builds the review of a link from the lateness of its intervals.

    Args:
        link: name of the link.
        skew: skew in force, ns.
        intervals: lateness of its intervals, in order.
        loss: share of the records that the recommended bound may refuse, 0 to 1.
        readers: queries that read the link.
        captures: the captures of the link.
    """
    whole = tuple(intervals)
    total, refused = LatenessCounts(), 0
    for interval in whole:
        total.merge(interval.lags)
        refused += interval.refused
    outlier = find_outlier(whole, total, loss, captures)
    others = total if outlier is None else _without(total, _latest_first(whole), outlier.seen)
    recommended = recommend(others, loss)
    enough = total.quantile(1.0) or 0
    steps = [0, *(bound for bound in LADDER if bound < enough), enough]
    useful = [bound for bound, before in zip(steps[1:], steps, strict=False) if total.lost(bound) < total.lost(before)]
    chosen = sorted({0, skew, *useful, *({recommended} if recommended else ())})
    load = _load(whole)
    rungs = tuple(_effect_of(bound, total, load, refused if bound == skew else total.lost(bound)) for bound in chosen)
    latest = tuple(sorted((late for interval in whole for late in interval.latest), reverse=True)[:5])
    return SkewReview(
        link,
        skew,
        loss,
        whole,
        total,
        refused,
        rungs,
        recommended,
        find_knee(total),
        _separate_group(others, recommended),
        latest,
        tuple(readers),
        outlier,
        others,
    )


def find_outlier(
    intervals: Sequence[IntervalLateness], total: LatenessCounts, loss: float, captures: Sequence[Capture] = ()
) -> Outlier | None:
    """The interval, or the intervals of one capture, without which a bound OUTLIER_FACTOR times smaller would do.

    At least two intervals must remain for comparison. Of several candidates, the one with the smallest remaining bound
    is taken, then the one of fewest intervals.

    Args:
        intervals: lateness of each interval.
        total: lateness of all of them together.
        loss: share of the records that a bound may refuse, 0 to 1.
        captures: ledger rows of the link; the intervals that one capture meets are one candidate.
    """
    bound = recommend(total, loss)
    if not total.records or (bound is not None and bound < OUTLIER_FACTOR * SMALL_BOUND):
        return None
    ordered = Captures.of(captures)
    firsts = np.searchsorted([interval.end for interval in intervals], ordered.numbers("covers_from"), side="right")
    lasts = np.searchsorted([interval.start for interval in intervals], ordered.numbers("covers_to"), side="left")
    single = np.arange(len(intervals))
    groups = np.unique(np.vstack([np.append(single, firsts), np.append(single + 1, lasts)]), axis=1)
    first, last = groups[:, (groups[0] < groups[1]) & (len(intervals) - (groups[1] - groups[0]) >= 2)]
    # Row n: what the first n intervals lose by each bound, and their records; so a group is a difference of two rows.
    rows = [np.append(interval.lags.losses(_BUCKETS), interval.lags.records) for interval in intervals]
    sums = np.cumsum(np.vstack([np.zeros(len(BOUNDS) + 1, np.int64), *rows]), axis=0)
    others = sums[-1] - sums[last] + sums[first]
    enough = (others[:, :-1] <= _borne(others[:, -1:], loss)) & (others[:, -1:] > 0)
    found = np.flatnonzero(enough.any(axis=1))
    if not len(found):
        return None
    remaining = np.array(BOUNDS)[enough[found].argmax(axis=1)]
    best = np.lexsort((first[found], (last - first)[found], remaining))[0]
    least, begin, end = int(remaining[best]), int(first[found[best]]), int(last[found[best]])
    if bound is not None and bound < OUTLIER_FACTOR * max(least, SMALL_BOUND):
        return None
    group = tuple(intervals[begin:end])
    return Outlier(group, _files_of(group, ordered), sum(interval.lags.lost(least) for interval in group), bound)


def _latest_first(intervals: Sequence[IntervalLateness]) -> list[IntervalLateness]:
    return sorted(intervals, key=lambda interval: -interval.lags.largest)


def _without(
    total: LatenessCounts, latest: Sequence[IntervalLateness], group: Sequence[IntervalLateness]
) -> LatenessCounts:
    """Takes a group out of the total; `latest` has all intervals, that of the latest record first."""
    out = {id(interval) for interval in group}
    largest = next((interval.lags.largest for interval in latest if id(interval) not in out), 0)
    return total.without([interval.lags for interval in group], largest)


def _files_of(group: Sequence[IntervalLateness], captures: Captures) -> tuple[str, ...]:
    """File names of the captures with the latest records; if these are unknown, of the captures that cover the
    intervals."""
    named = {late.capture for interval in group for late in interval.latest}
    start, end = group[0].start, group[-1].end
    if not named:
        return tuple(Path(captures[at].path).name for at in captures.meeting(start, end))
    files = zip(captures.values("capture"), captures.values("path"), strict=True)
    return tuple(Path(path).name for digest, path in files if digest in named)


def recommend(lags: LatenessCounts, loss: float) -> int | None:
    """The least bound of 0 and the ladder that refuses at most a share of the records; None if none does."""
    return _least(lags.losses(_BUCKETS), lags.records, loss)


def _borne(records: NDArray[np.int64], loss: float) -> NDArray[np.float64]:
    """How many of some records may be refused."""
    borne: NDArray[np.float64] = np.floor(loss * records + 1e-9)
    return borne


def _least(lost: NDArray[np.int64], records: int, loss: float) -> int | None:
    """The least of `BOUNDS` that refuses at most a share of the records; `lost` has what each refuses."""
    enough = np.flatnonzero(lost <= _borne(np.array(records), loss))
    return BOUNDS[int(enough[0])] if records and len(enough) else None


def find_knee(lags: LatenessCounts) -> int | None:
    """The bound of the ladder beyond which a larger one gains little: where the logarithm of the loss bends most.

    The ladder is numbered from the first bound that admits a late record to the first that admits all. The knee lies
    farthest below the straight line between them, by at least a tenth of the height of the curve.
    """
    losses = [(bound, lags.lost(bound)) for bound in LADDER]
    first = next((at for at, (_, lost) in enumerate(losses) if lost < lags.late), len(losses))
    last = next((at for at, (_, lost) in enumerate(losses) if not lost), len(losses) - 1)
    begin = max(0, first - 1)
    heights = [math.log10(max(lost, 0.5)) for _, lost in losses[begin : last + 1]]
    if len(heights) < 3 or heights[0] == heights[-1]:
        return None
    fall, steps = heights[0] - heights[-1], len(heights) - 1
    below = [1 - at / steps - (height - heights[-1]) / fall for at, height in enumerate(heights)]
    best = max(range(len(below)), key=lambda at: (below[at], -at))
    return losses[begin + best][0] if below[best] >= LEAST_KNEE else None


def _load(intervals: Sequence[IntervalLateness]) -> tuple[int, int]:
    """The time of intervals, ns, and the most records in one second of them."""
    span = sum(interval.end - interval.start for interval in intervals)
    return span, max((interval.busiest for interval in intervals), default=0)


def _effect_of(bound: int, total: LatenessCounts, load: tuple[int, int], lost: int) -> BoundEffect:
    span, busiest = load
    share = lost / total.records if total.records else 0.0
    alive = total.records * bound / span if span else 0.0
    return BoundEffect(bound, lost, share, min(alive, total.records), min(busiest * bound / SECOND, total.records))


def _separate_group(lags: LatenessCounts, recommended: int | None) -> tuple[int, int] | None:
    if not recommended:
        return None
    beyond = [(bound, count) for bound, count in lags.bounds() if bound > recommended]
    if not beyond or beyond[0][0] < OUTLIER_FACTOR * recommended:
        return None
    return sum(count for _, count in beyond), beyond[0][0]
