"""Lateness of the records of a capture and its longest silences, in bounded memory.

`inspect` adds the timestamps and arrivals of every batch.
"""

from __future__ import annotations

import heapq
from math import ceil

import numpy as np
from numpy.typing import NDArray

from lowwater.catalog.time import is_late

QUANTILE_ERROR = 0.01
"""Largest relative error of a quantile of `Lateness`, beside half a nanosecond. Maximum and counts are exact."""

GAPS = 5
"""Number of silences that are reported, the longest ones."""

_GROWTH = (1 + QUANTILE_ERROR) / (1 - QUANTILE_ERROR)
_BUCKETS = ceil(63 * np.log(2) / np.log(_GROWTH)) + 2


class Lateness:
    """Histogram of lateness (arrival - timestamp, ns). Its bucket bounds grow by a constant factor (DDSketch).

    Attributes:
        records: number of records.
        late: number of records out of order: with a lateness above 0.
        largest: largest lateness, ns; a skew of this length admits all records.
        refused: number of records later than the skew.

    Args:
        skew: skew of the link, ns.
    """

    def __init__(self, skew: int) -> None:
        self.records = self.late = self.largest = self.refused = 0
        self._skew = skew
        self._counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    def add(self, arrivals: NDArray[np.int64], timestamps: NDArray[np.int64]) -> None:
        """Counts records by their lateness; at least one record, ns."""
        lateness = arrivals - timestamps
        self.records += len(lateness)
        largest = int(lateness.max())
        if not largest:
            return
        self.largest = max(self.largest, largest)
        self.refused += int(np.count_nonzero(is_late(arrivals, timestamps, self._skew)))
        late = lateness[lateness > 0]
        self.late += len(late)
        buckets = np.ceil(np.log(late) / np.log(_GROWTH)).astype(np.int64)
        self._counts += np.bincount(buckets, minlength=_BUCKETS)

    def quantile(self, share: float) -> int | None:
        """Returns the smallest lateness (ns) that this share of the records does not exceed; None without records."""
        if not self.records:
            return None
        rank = ceil(share * self.records) - (self.records - self.late)
        if rank <= 0:
            return 0
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        # (bound / growth, bound] lies within the relative error of this value.
        middle = 2 * _GROWTH**bucket / (1 + _GROWTH)
        return min(round(middle), self.largest)


class Gaps:
    """The longest silences between arrivals.

    Args:
        most: number of silences to report.
    """

    def __init__(self, most: int = GAPS) -> None:
        self._most = most
        self._heap: list[tuple[int, int]] = []  # (length, -start): of equal lengths the earlier one is larger
        self._clock: int | None = None

    def add(self, arrivals: NDArray[np.int64]) -> None:
        """Adds the next arrivals (ns, never decreasing); at least one."""
        instants = arrivals if self._clock is None else np.concatenate([[self._clock], arrivals])
        self._clock = int(arrivals[-1])
        lengths = np.diff(instants)
        least = self._heap[0][0] if len(self._heap) == self._most else 0
        longer = np.flatnonzero(lengths > least)
        # A stable sort keeps the earlier one first among equal lengths.
        chosen = longer[np.argsort(-lengths[longer], kind="stable")[: self._most]]
        for at in chosen.tolist():
            heapq.heappush(self._heap, (int(lengths[at]), -int(instants[at])))
            if len(self._heap) > self._most:
                heapq.heappop(self._heap)

    def longest(self) -> tuple[tuple[int, int], ...]:
        """Returns (start, length) of the longest silences, ns, the longest first."""
        return tuple((-start, length) for length, start in sorted(self._heap, reverse=True))
