"""Running totals of one interface while its capture is read.

The reader takes arrivals from the clock, and the summary from the totals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.records.facts import Interface, InterfaceSummary
from lowwater.capture.records.median import Median

MOST_MEDIANS = 256
"""Interfaces of a capture with a median. A capture with more makes no links of its interfaces, so needs none."""

_HELD, _LEAST_HELD = 1 << 23, 1 << 16
"""Most timestamps in memory for the first interface, and for the last ones."""


class Tally:
    """Totals of the records of one interface.

    Args:
        number: number of the interface. The first interfaces may hold more timestamps in memory, for the median.

    Attributes:
        clock: largest sane timestamp so far, ns; -1 before the first.
        undecoded: sane records without an IP header; the caller that decodes counts them.
        malformed: malformed rows of the interface; the record judge counts them.
    """

    def __init__(self, number: int) -> None:
        self.clock = -1
        self.undecoded = 0
        self.malformed = 0
        self._packets = 0
        self._first: int | None = None
        self._last: int | None = None
        self._smallest: int | None = None
        self._lull = 0
        in_memory = max(_HELD >> number.bit_length(), _LEAST_HELD)
        self._median = Median(in_memory) if number < MOST_MEDIANS else None

    def add(self, stamps: NDArray[np.int64]) -> None:
        """Counts sane records by their timestamps (ns); at least one."""
        smallest, largest = int(stamps.min()), int(stamps.max())
        if self._median:
            self._median.add(stamps, (smallest, largest))
        self._first = int(stamps[0]) if self._first is None else self._first
        self._last = int(stamps[-1])
        self._lull = longest_lull(stamps, self.clock, self._lull)
        self._smallest = smallest if self._smallest is None else min(smallest, self._smallest)
        self.clock = max(self.clock, largest)
        self._packets += len(stamps)

    def summary(self, interface: Interface) -> InterfaceSummary:
        """Returns the summary of the interface."""
        return InterfaceSummary(
            interface=interface,
            packets=self._packets,
            undecoded=self.undecoded,
            malformed=self.malformed,
            first=self._first,
            last=self._last,
            smallest=self._smallest,
            largest=self.clock if self._packets else None,
            median=self._median.value() if self._median else None,
            lull=self._lull if self._packets else None,
        )

    def close(self) -> None:
        """Discards the timestamps of the median."""
        if self._median:
            self._median.close()


def longest_lull(stamps: NDArray[np.int64], clock: int, before: int) -> int:
    """Returns the longest time between successive arrivals, ns.

    Args:
        stamps: the next sane timestamps, ns; at least one.
        clock: the clock before them, ns; -1 before the first.
        before: the longest time so far, ns.
    """
    first = max(0, int(stamps[0]) - clock) if clock >= 0 else 0
    longest = max(before, first)
    if len(stamps) > 1 and int(np.max(stamps[1:] - stamps[:-1])) > longest:  # a step up after one back is no lull
        arrivals = np.maximum.accumulate(np.maximum(stamps, clock))
        longest = max(longest, int(np.max(arrivals[1:] - arrivals[:-1])))
    return longest
