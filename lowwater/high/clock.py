"""Event time: how instants (ns) and promises become the one timestamp column by which Spark closes rows.

Between the replay source, which stamps rows with it, and the operators, which name their output by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowwater.plan.temporal import END_OF_TIME

ET = "_et"
LAST = "_last"
TICK = "_tick"

SLACK_MS = 10_000_000_000_000
"""Delay of every watermark: more than any event time of a data row, so that only punctuation moves it."""

LATEST_MS = 4_000_000_000_000
"""Event times of rows and of promises are held to at most this; only the end of time closes rows up there."""

END_MS = 9_000_000_000_000
"""Event time of the promise that nothing more comes; exceeds LATEST_MS."""

SPAN_MS = 1_000_000_000_000
"""Longest span of rows that a unit may stretch over."""


@dataclass(frozen=True)
class EventClock:
    """The scale of one Spark query: instants count from `base` in steps of `unit` ns, a step being 1 ms of event time.

    Rows are named by the instant after which they are final, `_last + 1`, rounded up, and promises are rounded down,
    so rounding can only delay a closing.
    """

    base: int
    unit: int

    @classmethod
    def over(cls, first: int, last: int) -> EventClock:
        """The finest clock whose event times stay in SPAN_MS for rows from `first` to `last` (ns).

        Example:
            >>> EventClock.over(0, 3_600_000_000_000)
            EventClock(base=-1000, unit=1000)
        """
        unit = 1
        while (last - first) // unit >= SPAN_MS:
            unit *= 1000
        return cls(first - unit, unit)

    def row_ms(self, last: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Event times (ms) of rows with these last instants."""
        steps: npt.NDArray[np.int64] = (np.minimum(last, END_OF_TIME) + (self.unit - self.base)) // self.unit
        capped: npt.NDArray[np.int64] = np.minimum(steps, LATEST_MS)
        return capped

    def promise_ms(self, promise: int) -> int:
        """Watermark (ms) that says: no later row has a smaller last instant than `promise`."""
        return END_MS if promise >= END_OF_TIME else max(0, min((promise - self.base) // self.unit, LATEST_MS - 1))

    def promised(self, watermark_ms: int) -> int | None:
        """What a watermark (ms) promises, in ns; None where it promises nothing yet."""
        if watermark_ms >= LATEST_MS:
            return END_OF_TIME
        return self.base + watermark_ms * self.unit if watermark_ms > 0 else None
