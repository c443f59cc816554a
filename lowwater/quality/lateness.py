"""The lateness of records: counts by which the loss of each bound is exact, and the bound that they recommend.

`catalog.time` decides who is late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowwater.catalog.time import is_late
from lowwater.config import LONGEST_SKEW
from lowwater.instants import SECOND
from lowwater.lake.packets import LinkRead

LATEST_RECORDS = 5
"""Number of latest records that are named."""

_POWERS = 10 ** np.arange(19, dtype=np.int64)
_BUCKETS = 17 * 90 + 100
"""Number of buckets; a lateness of 64 bits falls below it."""


def bound_of(lateness: int) -> int:
    """The least bound of two significant digits that admits a lateness (ns).

    Example:
        >>> bound_of(7), bound_of(1_234), bound_of(9_910), bound_of(2_000_000)
        (7, 1300, 10000, 2000000)
    """
    return _bound(int(_bucket(np.array([lateness], np.int64))[0]))


def _bucket(lateness: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each lateness: the number of the least bound of two significant digits that admits it."""
    exponent = np.maximum(np.searchsorted(_POWERS, lateness, side="right") - 2, 0)
    digits: NDArray[np.int64] = -(-lateness // _POWERS[exponent])
    return exponent * 90 + digits


def _bound(bucket: int) -> int:
    exponent = max(0, (bucket - 10) // 90)
    return int((bucket - exponent * 90) * 10**exponent)


class LatenessCounts:
    """Record counts by lateness (T2: arrival - timestamp, ns), one bucket for each bound of two significant digits: the
    number of records that such a bound refuses is exact, also after counts are added."""

    def __init__(self) -> None:
        self.records = self.largest = 0  # number of records; the largest lateness, ns
        self._counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    @staticmethod
    def of(bounds: NDArray[np.int64], counts: NDArray[np.int64], largest: int) -> LatenessCounts:
        """Rebuilds the counts from the arrays of `counted`; `largest` is the largest lateness, ns."""
        found = LatenessCounts()
        np.add.at(found._counts, _bucket(bounds), counts)
        found.records, found.largest = int(counts.sum()), largest
        return found

    def add(self, lateness: NDArray[np.int64]) -> None:
        """Counts records by lateness (ns, at least 0)."""
        late = lateness[lateness > 0]  # of most records it is 0
        self.records += len(lateness)
        self.largest = max(self.largest, int(late.max(initial=0)))
        self._counts += np.bincount(_bucket(late), minlength=_BUCKETS)
        self._counts[0] += len(lateness) - len(late)

    def merge(self, other: LatenessCounts) -> None:
        self.records += other.records
        self.largest = max(self.largest, other.largest)
        self._counts += other._counts

    @property
    def late(self) -> int:
        """Number of records out of order: with a lateness above 0."""
        return self.records - int(self._counts[0])

    def lost(self, bound: int) -> int:
        """Number of records that a bound (ns) refuses; an upper limit for a bound of more than two digits."""
        above = int(_bucket(np.array([bound], np.int64))[0])
        last_bucket = above if _bound(above) == bound else above - 1
        return self.records - int(self._counts[: last_bucket + 1].sum())

    def quantile(self, share: float) -> int | None:
        """The least bound (ns) of two significant digits that admits a share of the records; None without records."""
        if not self.records:
            return None
        rank = max(1, ceil(share * self.records - 1e-9))
        return _bound(int(np.searchsorted(np.cumsum(self._counts), rank)))

    def counted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Bounds, ascending, and the records between each and the bound before; without empty buckets."""
        at = np.flatnonzero(self._counts)
        return np.array([_bound(int(bucket)) for bucket in at], np.int64), self._counts[at]

    def bounds(self) -> list[tuple[int, int]]:
        bounds, counts = self.counted()
        return list(zip(bounds.tolist(), counts.tolist(), strict=True))

    def losses(self) -> NDArray[np.int64]:
        lost: NDArray[np.int64] = self.records - np.cumsum(self._counts)[_BOUND_BUCKETS]
        return lost


@dataclass(frozen=True, order=True)
class LateRecord:
    """A late record: its capture (sha256) and its position in it."""

    lateness_ns: int
    capture: str
    position: int


@dataclass(eq=False)
class IntervalLateness:
    """The lateness of the records of a link that arrive in an interval."""

    start: int  # first instant of the interval, ns since the epoch
    end: int  # end of the interval, ns since the epoch, exclusive
    lags: LatenessCounts = field(default_factory=LatenessCounts)  # lateness of the records
    refused: int = 0  # records later than the skew in force
    busiest: int = 0  # largest number of records in one second of the link's clock
    latest: Sequence[LateRecord] = ()  # the latest records, the latest first; empty where only the ledger was read
    _second: tuple[int, int] = (-1, 0)  # the newest second, and its records

    def add(self, batch: pa.RecordBatch, skew: int | NDArray[np.int64]) -> None:
        """Adds records, at least one, in order of arrival; columns capture, position, arrival, timestamp."""
        arrivals, stamps = (batch.column(name).to_numpy() for name in ("arrival", "timestamp"))
        lateness = arrivals - stamps
        self.lags.add(lateness)
        self.refused += int(np.count_nonzero(is_late(arrivals, stamps, skew)))
        self._count_seconds(arrivals // SECOND)
        least = self.latest[-1].lateness_ns if len(self.latest) == LATEST_RECORDS else 0
        later = np.flatnonzero(lateness > least)
        named = [
            LateRecord(int(lateness[at]), batch.column("capture")[at].as_py(), batch.column("position")[at].as_py())
            for at in later[np.argsort(-lateness[later], kind="stable")[:LATEST_RECORDS]].tolist()
        ]
        self.latest = sorted([*self.latest, *named], reverse=True)[:LATEST_RECORDS]

    def _count_seconds(self, seconds: NDArray[np.int64]) -> None:
        begins = np.flatnonzero(np.diff(seconds, prepend=-1))  # records of a second follow each other
        counts = np.diff(begins, append=len(seconds))
        second, before = self._second
        counts[0] += before if int(seconds[0]) == second else 0
        self._second = int(seconds[-1]), int(counts[-1])
        self.busiest = max(self.busiest, int(counts.max()))


LOSS = 0.0001
"""Default share of the records that a recommended bound may refuse."""

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
LADDER = tuple(digit * 10**power for power in range(3, 19) for digit in (1, 2, 5) if digit * 10**power < LONGEST_SKEW)
"""The bounds to compare, ns: 1, 2 and 5 times every power of ten from a microsecond on."""

BOUNDS = (0, *LADDER)
"""The bounds that may be recommended, ns."""
_BOUND_BUCKETS = _bucket(np.array(BOUNDS, np.int64))


def link_lateness(read: LinkRead, skew: int, length: int) -> Iterator[IntervalLateness]:
    """Measures the lateness of a link, interval by interval; LakeError if its packets cannot be read."""
    seen = IntervalLateness(-1, -1)
    for batch in read.batches():
        arrivals = batch.column("arrival").to_numpy()
        first, end = np.searchsorted(arrivals, (read.start, read.end))
        cuts = first + np.flatnonzero(np.diff(arrivals[first:end] // length, prepend=-1))
        for at, until in pairwise([*cuts.tolist(), int(end)]):
            start = int(arrivals[at]) // length * length
            if start != seen.start:
                if seen.lags.records:
                    yield seen
                seen = IntervalLateness(start, start + length)
            seen.add(batch.slice(at, until - at), skew)
    if seen.lags.records:
        yield seen


def recommend(lags: LatenessCounts, loss: float) -> int | None:
    """The least bound of 0 and the ladder that refuses at most a share of the records; None if none does."""
    enough = np.flatnonzero(lags.losses() <= borne(lags.records, loss))
    return BOUNDS[int(enough[0])] if lags.records and len(enough) else None


def borne(records: Any, loss: float) -> Any:
    """How many of some records may be refused."""
    return np.floor(loss * records + 1e-9)
