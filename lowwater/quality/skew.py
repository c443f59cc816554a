"""The skew review: what each bound on a link's disorder would lose, and what it would cost.

Over `packets/` alone, in one pass and bounded memory, or over the ledger `lateness`. The rule by which a bound is
recommended is in docs/review.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.config import LONGEST_SKEW
from lowwater.instants import SECOND
from lowwater.lake.ledgers.captures import Capture
from lowwater.lake.packets import LinkRead
from lowwater.quality.lags import Lags, Late, Watch, by_interval

LOSS = 0.0001
"""Share of the records that a recommended bound may refuse, unless another is asked for."""

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
LADDER = tuple(digit * 10**power for power in range(3, 19) for digit in (1, 2, 5) if digit * 10**power < LONGEST_SKEW)
"""The bounds that are tried, ns: 1, 2 and 5 of every power of ten, from a microsecond on."""

APART = 10
"""Records are a group of their own where the least lateness of them is so many times the recommended bound."""

SLIGHT = 1_000_000
"""A bound of APART times this, ns, costs nobody anything, so nothing that asks for less is an outlier."""

_BEND = 0.1


@dataclass(frozen=True)
class Seen:
    """The lateness of the records of a link that arrived in [start, end), ns.

    Attributes:
        start: the start of the interval; `end` its end.
        lags: the lags of its records.
        refused: records later than the skew in force.
        busiest: most records in one second of the link's clock.
        latest: the latest records, the latest first; empty where only the ledger was read.
    """

    start: int
    end: int
    lags: Lags
    refused: int
    busiest: int
    latest: tuple[Late, ...] = ()


@dataclass(frozen=True)
class Reader:
    """A query that reads the link.

    Attributes:
        query_set: its set; `query` its name.
        waits: the largest skew of its other links, ns: so long its rows wait anyhow (P3). None where it has no other.
        rate: rows a second that it published; None where it published nothing in the range.
    """

    query_set: str
    query: str
    waits: int | None
    rate: float | None


@dataclass(frozen=True)
class Rung:
    """What one bound would do.

    Attributes:
        bound: ns; the promise of the link trails its clock by as much (T2).
        lost: records that it refuses; `share` of all.
        alive: records that are within the bound of the clock on average; `busiest` at most, by the busiest second.
    """

    bound: int
    lost: int
    share: float
    alive: float
    busiest: float


@dataclass(frozen=True)
class Outlier:
    """Intervals, those of one capture or a single one, without which a link would need a far smaller bound.

    Attributes:
        seen: the intervals, in order.
        captures: the names of the files that are to be looked at.
        records: of them, how many are later than the bound that is recommended for the others.
        bound: that which would be recommended with them, ns; None where no skew would do.
    """

    seen: tuple[Seen, ...]
    captures: tuple[str, ...]
    records: int
    bound: int | None


@dataclass(frozen=True)
class Review:
    """The skew review of a link.

    Attributes:
        link: its name.
        skew: the bound in force, ns.
        loss: share that a recommended bound may refuse.
        seen: the intervals with records, in order.
        total: the lateness of all their records.
        refused: records later than the skew in force.
        rungs: the bounds that make a difference, ascending; always with 0, the skew in force and the least that admits
            all.
        recommended: bound, for all but the outlier; None without records, or where no skew would do.
        knee: bound from which on more of it gains little; None for no bend.
        apart: (records, their least lateness) beyond the recommended bound, where they are a group of their own.
        latest: the latest records of all.
        readers: the queries that read it.
        outlier: what alone would need a far larger bound; None where nothing does.
        others: the lateness of the records beside the outlier; all of them where there is none.
    """

    link: str
    skew: int
    loss: float
    seen: tuple[Seen, ...]
    total: Lags
    refused: int
    rungs: tuple[Rung, ...]
    recommended: int | None
    knee: int | None
    apart: tuple[int, int] | None
    latest: tuple[Late, ...]
    readers: tuple[Reader, ...]
    outlier: Outlier | None
    others: Lags

    def lost(self, bound: int) -> int:
        """How many records a bound, of two digits or that in force, refuses beside those of the outlier."""
        if bound != self.skew:
            return self.others.lost(bound)
        return self.refused - sum(each.refused for each in (self.outlier.seen if self.outlier else ()))

    def rung(self, bound: int) -> Rung:
        """What a bound of two digits, or that in force, would do."""
        return _rung(bound, self.total, self.seen, self.refused if bound == self.skew else self.total.lost(bound))

    @property
    def advice(self) -> str:
        """`keep`, `raise`, `lower` or, where nothing is recommended, `none`."""
        if self.recommended is None:
            return "none"
        return "keep" if self.recommended == self.skew else "raise" if self.recommended > self.skew else "lower"


def watch_link(read: LinkRead, skew: int, length: int) -> Iterator[Seen]:
    """The lateness of a link, interval by interval.

    Args:
        read: the read of the link; records count that arrive in its [start, end).
        skew: the bound in force, ns.
        length: the length of the intervals, ns.

    Raises:
        LakeError: if the packets cannot be read.
    """
    begin, watch = -1, Watch(skew)
    for batch in read.batches():
        arrived = batch.column("arrival")
        inside = pc.and_(pc.greater_equal(arrived, read.start), pc.less(arrived, read.end))
        for start, part in by_interval(_filtered(batch, inside), length):
            if start != begin:
                if watch.lags.records:
                    yield _seen(begin, begin + length, watch)
                begin, watch = start, Watch(skew)
            watch.add(part)
    if watch.lags.records:
        yield _seen(begin, begin + length, watch)


def _filtered(batch: pa.RecordBatch, inside: pa.Array) -> pa.RecordBatch:
    return batch if pc.all(inside).as_py() else batch.filter(inside)


def _seen(start: int, end: int, watch: Watch) -> Seen:
    return Seen(start, end, watch.lags, watch.refused, watch.busiest, watch.latest)


def review(
    link: str,
    skew: int,
    seen: Iterable[Seen],
    loss: float = LOSS,
    readers: Sequence[Reader] = (),
    captures: Sequence[Capture] = (),
) -> Review:
    """The review of a link from what its intervals showed.

    Args:
        link: its name.
        skew: the bound in force, ns.
        seen: of its intervals, in order.
        loss: share of the records that the recommended bound may refuse.
        readers: the queries that read it.
        captures: the captures of the link.
    """
    kept = tuple(seen)
    total, refused = Lags(), 0
    for each in kept:
        total.merge(each.lags)
        refused += each.refused
    outlier = find_outlier(kept, total, loss, captures)
    others = total if outlier is None else _others(total, kept, outlier.seen)
    recommended = recommend(others, loss)
    enough = total.quantile(1.0) or 0
    steps = [0, *(bound for bound in LADDER if bound < enough), enough]
    useful = [bound for bound, before in zip(steps[1:], steps, strict=False) if total.lost(bound) < total.lost(before)]
    chosen = sorted({0, skew, *useful, *({recommended} if recommended else ())})
    rungs = tuple(_rung(each, total, kept, refused if each == skew else total.lost(each)) for each in chosen)
    latest = tuple(sorted((late for each in kept for late in each.latest), reverse=True)[:5])
    return Review(
        link,
        skew,
        loss,
        kept,
        total,
        refused,
        rungs,
        recommended,
        find_knee(total),
        _apart(others, recommended),
        latest,
        tuple(readers),
        outlier,
        others,
    )


def find_outlier(seen: Sequence[Seen], total: Lags, loss: float, captures: Sequence[Capture] = ()) -> Outlier | None:
    """The interval, or the intervals of one capture, without which APART times less would be recommended.

    At least two intervals are to be left to compare it with. The one that leaves least is taken, then the one of fewest
    intervals.

    Args:
        seen: the intervals, each with its lateness.
        total: lateness of all of them together.
        loss: share of the records that a bound may refuse, 0 to 1.
        captures: ledger rows of the link; the intervals that one capture meets are one candidate.
    """
    bound = recommend(total, loss)
    if not total.records or (bound is not None and bound < APART * SLIGHT):
        return None
    groups = {(each,): () for each in seen}  # type: dict[tuple[Seen, ...], tuple[Capture, ...]]
    for capture in captures:
        meets = tuple(each for each in seen if capture.covers_from < each.end and capture.covers_to > each.start)
        if meets:
            groups[meets] = (*groups.get(meets, ()), capture)
    best: tuple[int, int, tuple[Seen, ...]] | None = None
    for group in groups:
        if len(seen) - len(group) < 2:
            continue
        left = recommend(_others(total, seen, group), loss)
        if left is not None and (best is None or (left, len(group)) < best[:2]):
            best = left, len(group), group
    if best is None or (bound is not None and bound < APART * max(best[0], SLIGHT)):
        return None
    left, _, group = best
    return Outlier(group, _files(group, captures), sum(each.lags.lost(left) for each in group), bound)


def _others(total: Lags, seen: Sequence[Seen], group: Sequence[Seen]) -> Lags:
    largest = max((each.lags.largest for each in seen if each not in group), default=0)
    return total.without([each.lags for each in group], largest)


def _files(group: Sequence[Seen], captures: Sequence[Capture]) -> tuple[str, ...]:
    """The files that the latest records are in; where nobody knows, those that cover the intervals."""
    named = {late.capture for each in group for late in each.latest}
    start, end = group[0].start, group[-1].end
    mine = [each for each in captures if (each.capture in named) or (not named and each.meets(start, end))]
    return tuple(Path(each.path).name for each in mine)


def recommend(lags: Lags, loss: float) -> int | None:
    """The least of 0 and the ladder that refuses at most a share of the records; None where none does."""
    borne = math.floor(loss * lags.records + 1e-9)
    return next((bound for bound in (0, *LADDER) if lags.lost(bound) <= borne), None) if lags.records else None


def find_knee(lags: Lags) -> int | None:
    """The rung from which on a larger bound gains little: where the logarithm of the loss bends most.

    Rungs are numbered from the first that admits a late record to the first that admits all; the knee is the one that
    lies farthest below the line from end to end, by at least a tenth of the height of the curve.
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
    return losses[begin + best][0] if below[best] >= _BEND else None


def _rung(bound: int, total: Lags, seen: Sequence[Seen], lost: int) -> Rung:
    span = sum(each.end - each.start for each in seen)
    busiest = max((each.busiest for each in seen), default=0)
    share = lost / total.records if total.records else 0.0
    alive = total.records * bound / span if span else 0.0
    return Rung(bound, lost, share, min(alive, total.records), min(busiest * bound / SECOND, total.records))


def _apart(lags: Lags, recommended: int | None) -> tuple[int, int] | None:
    if not recommended:
        return None
    beyond = [(bound, count) for bound, count in lags.bounds() if bound > recommended]
    if not beyond or beyond[0][0] < APART * recommended:
        return None
    return sum(count for _, count in beyond), beyond[0][0]
