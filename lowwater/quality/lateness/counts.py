"""Counts the lateness of records, so that the loss of every bound of two significant digits is exact.

The skew review fills the counts from packets, the audit from its scan. The ledger `lateness` stores them; intervals add
up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowwater.capture.inlining import kernel
from lowwater.catalog.time import is_late
from lowwater.instants import SECOND

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


@kernel
def _count(lateness: Any, counts: Any) -> None:
    """Counts lateness by bucket, numbered as in `_bucket`."""
    for value in lateness:
        exponent = 0
        while exponent < len(_POWERS) - 2 and value >= _POWERS[exponent + 2]:
            exponent += 1
        power = _POWERS[exponent]
        digits = value // power
        counts[exponent * 90 + digits + (digits * power < value)] += 1


def _bound(bucket: int) -> int:
    """The bound of a bucket, ns."""
    if bucket < 100:
        return bucket
    exponent = (bucket - 10) // 90
    return int((bucket - exponent * 90) * 10**exponent)


class LatenessCounts:
    """Record counts by lateness (T2: arrival - timestamp, ns), one bucket for each bound of two significant digits.

    The number of records that such a bound refuses is exact, also after counts are added. A quantile is the least
    such bound that admits the share.

    Attributes:
        records: number of records.
        largest: the largest lateness, ns.
    """

    def __init__(self) -> None:
        self.records = self.largest = 0
        self._counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    def add(self, lateness: NDArray[np.int64]) -> None:
        """Counts records by lateness (ns, at least 0)."""
        if len(lateness):
            self.records += len(lateness)
            self.largest = max(self.largest, int(lateness.max()))
            _count(lateness, self._counts)

    def merge(self, other: LatenessCounts) -> None:
        """Adds the counts of other records."""
        self.records += other.records
        self.largest = max(self.largest, other.largest)
        self._counts += other._counts

    def without(self, others: Sequence[LatenessCounts], largest: int) -> LatenessCounts:
        """The counts without some that were merged; `largest` is the largest lateness that remains, ns."""
        remaining = LatenessCounts()
        remaining._counts = self._counts.copy()
        for other in others:
            remaining._counts -= other._counts
        remaining.records, remaining.largest = int(remaining._counts.sum()), largest
        return remaining

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
        """The same as `bounds`, as two arrays."""
        at = np.flatnonzero(self._counts)
        return np.array([_bound(int(bucket)) for bucket in at], np.int64), self._counts[at]

    def bounds(self) -> list[tuple[int, int]]:
        """(bound, records between it and the bound before), ascending, without empty buckets."""
        bounds, counts = self.counted()
        return list(zip(bounds.tolist(), counts.tolist(), strict=True))

    def losses(self, buckets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of records that each of some bounds refuses: bounds of two digits, as the result of `buckets_of`."""
        lost: NDArray[np.int64] = self.records - np.cumsum(self._counts)[buckets]
        return lost

    @staticmethod
    def of(bounds: NDArray[np.int64], counts: NDArray[np.int64], largest: int) -> LatenessCounts:
        """Rebuilds the counts from the arrays of `counted`; `largest` is the largest lateness, ns."""
        return LatenessCounts.of_many([bounds], [counts], [largest])[0]

    @staticmethod
    def of_many(
        bounds: Sequence[NDArray[np.int64]], counts: Sequence[NDArray[np.int64]], largest: Sequence[int]
    ) -> list[LatenessCounts]:
        """Rebuilds the counts of many intervals at once, from the same arrays as `of`."""
        if not bounds:
            return []
        rows = np.repeat(np.arange(len(bounds)) * _BUCKETS, [len(each) for each in bounds])
        places, values = rows + _bucket(np.concatenate(bounds)), np.concatenate(counts)
        table = np.zeros((len(bounds), _BUCKETS), np.int64)
        if np.all(np.diff(places) > 0):
            table.ravel()[places] = values
        else:  # a bucket was stored in parts
            np.add.at(table.ravel(), places, values)
        totals = [int(each.sum()) for each in counts]
        found = [LatenessCounts.__new__(LatenessCounts) for _ in bounds]
        for each, row, records, most in zip(found, table, totals, largest, strict=True):
            each._counts, each.records, each.largest = row, records, most
        return found


def buckets_of(bounds: Sequence[int]) -> NDArray[np.int64]:
    """Returns where the records of bounds of two significant digits (ns) are counted, for `LatenessCounts.losses`."""
    return _bucket(np.array(bounds, np.int64))


@dataclass(frozen=True, order=True)
class LateRecord:
    """A late record: its lateness (ns), its capture (sha256) and its position in it."""

    lateness: int
    capture: str
    position: int


class LatenessMonitor:
    """Measures the lateness of the records of a link over an interval, its busiest second and its latest records.

    Args:
        skew: skew in force, ns.

    Attributes:
        lags: lateness of all records.
        refused: records later than the skew.
        busiest: largest number of records that arrived within one second of the link's clock.
    """

    def __init__(self, skew: int) -> None:
        self.lags = LatenessCounts()
        self.refused = self.busiest = 0
        self._skew = skew
        self._latest: list[LateRecord] = []
        self._second, self._in_second = -1, 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds records in order of arrival; columns capture, position, arrival, timestamp."""
        if not batch.num_rows:
            return
        arrivals = batch.column("arrival").to_numpy()
        stamps = batch.column("timestamp").to_numpy()
        lateness = arrivals - stamps
        self.lags.add(lateness)
        self.refused += int(np.count_nonzero(is_late(arrivals, stamps, self._skew)))
        self._count_seconds(arrivals // SECOND)
        least = self._latest[0].lateness if len(self._latest) == LATEST_RECORDS else 0
        later = np.flatnonzero(lateness > least)
        for at in later[np.argsort(-lateness[later], kind="stable")[:LATEST_RECORDS]].tolist():
            named = LateRecord(
                int(lateness[at]), batch.column("capture")[at].as_py(), batch.column("position")[at].as_py()
            )
            heapq.heappush(self._latest, named)
            if len(self._latest) > LATEST_RECORDS:
                heapq.heappop(self._latest)

    def _count_seconds(self, seconds: NDArray[np.int64]) -> None:
        begins = np.flatnonzero(np.diff(seconds, prepend=-1))  # records of a second follow each other
        counts = np.diff(begins, append=len(seconds))
        if int(seconds[0]) == self._second:
            counts[0] += self._in_second
        self._second, self._in_second = int(seconds[-1]), int(counts[-1])
        self.busiest = max(self.busiest, int(counts.max()))

    @property
    def latest(self) -> tuple[LateRecord, ...]:
        """The latest records, the latest first."""
        return tuple(sorted(self._latest, reverse=True))


def by_interval(batch: pa.RecordBatch, length: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Splits a batch by the interval of arrival; yields (start of the interval, ns; its records)."""
    numbers = pc.divide(batch.column("arrival"), length).to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    for first, end in pairwise(cuts):
        if end > first:
            yield int(numbers[first]) * length, batch.slice(first, end - first)
