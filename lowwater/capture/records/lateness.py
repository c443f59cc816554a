"""How late the records of a capture are, and its longest silences, in bounded memory.

Beside `inspect`, which feeds it the timestamps and arrivals of each batch.
"""

from __future__ import annotations

import heapq
from math import ceil

import numpy as np
from numpy.typing import NDArray

QUANTILE_ERROR = 0.01
"""Largest relative error of a quantile of `Lateness` (and half a nanosecond); the maximum and all counts are exact."""

GAPS = 5
"""How many of the longest silences are kept."""

_GROWTH = (1 + QUANTILE_ERROR) / (1 - QUANTILE_ERROR)
_BUCKETS = ceil(63 * np.log(2) / np.log(_GROWTH)) + 2


class Lateness:
    """Counts the lateness of records (arrival - timestamp, ns) in buckets whose bounds grow by one factor (DDSketch).

    Attributes:
        records: all of them.
        late: those with a lateness above 0: they are out of order.
        largest: the largest lateness, ns: the skew that admits all records.
        refused: those later than the skew.
    """

    def __init__(self, skew: int) -> None:
        self.records = self.late = self.largest = self.refused = 0
        self._skew = skew
        self._counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    def add(self, lateness: NDArray[np.int64]) -> None:
        """Counts some records, at least one, by their lateness (ns, at least 0)."""
        self.records += len(lateness)
        largest = int(lateness.max())
        if not largest:
            return
        self.largest = max(self.largest, largest)
        self.refused += int(np.count_nonzero(lateness > self._skew))
        late = lateness[lateness > 0]
        self.late += len(late)
        buckets = np.ceil(np.log(late) / np.log(_GROWTH)).astype(np.int64)
        self._counts += np.bincount(buckets, minlength=_BUCKETS)

    def quantile(self, share: float) -> int | None:
        """The smallest lateness (ns) that this share of the records does not exceed; None where there are none."""
        if not self.records:
            return None
        rank = ceil(share * self.records) - (self.records - self.late)
        if rank <= 0:
            return 0
        bucket = int(np.searchsorted(np.cumsum(self._counts), rank))
        # The middle of a bucket in the sense of the relative error: (bound / growth, bound] lies within it.
        middle = 2 * _GROWTH**bucket / (1 + _GROWTH)
        return min(round(middle), self.largest)


class Gaps:
    """The longest silences between arrivals.

    Args:
        most: how many to keep.
    """

    def __init__(self, most: int = GAPS) -> None:
        self._most = most
        self._heap: list[tuple[int, int]] = []  # (length, -start): of equal ones the earlier is the larger
        self._clock: int | None = None

    def add(self, arrivals: NDArray[np.int64]) -> None:
        """Takes the next arrivals (ns, never decreasing), at least one."""
        known = arrivals if self._clock is None else np.concatenate([[self._clock], arrivals])
        self._clock = int(arrivals[-1])
        lengths = np.diff(known)
        least = self._heap[0][0] if len(self._heap) == self._most else 0
        longer = np.flatnonzero(lengths > least)
        # A stable sort keeps the earlier one first among equals.
        chosen = longer[np.argsort(-lengths[longer], kind="stable")[: self._most]]
        for at in chosen.tolist():
            heapq.heappush(self._heap, (int(lengths[at]), -int(known[at])))
            if len(self._heap) > self._most:
                heapq.heappop(self._heap)

    def longest(self) -> tuple[tuple[int, int], ...]:
        """(start, length) of the longest silences, ns, the longest first."""
        return tuple((-start, length) for length, start in sorted(self._heap, reverse=True))
