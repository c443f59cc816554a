"""The ring buffer between a link and the low level: how fast a link may be before packets are lost.

The packets wait in a buffer of fixed capacity and are served one after another (002, section 6). Work comes in steps
of some packets and the seconds that they take; a flush of the whole table is one long step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Work:
    """What the low level does with the packets of a link, in order.

    Attributes:
        packets: of each step; `seconds` that the step takes.
    """

    packets: NDArray[np.int64]
    seconds: NDArray[np.float64]

    @property
    def rate(self) -> float:
        """Packets a second if no packet ever waits for another."""
        return float(self.packets.sum() / self.seconds.sum())


def fullest(work: Work, rate: float) -> float:
    """Most packets that wait at once when `rate` packets a second arrive evenly.

    A step begins when the one before has ended and its own packets are there; its packets leave the buffer at its end.
    """
    served = np.concatenate([[0], np.cumsum(work.packets)])
    there = served[1:] / rate
    # finish[i] = max(finish[i-1], there[i]) + seconds[i]: with the sums of the seconds taken out, a running maximum.
    spent = np.cumsum(work.seconds)
    finish = np.maximum.accumulate(there - (spent - work.seconds)) + spent
    return float(np.max(rate * finish - served[:-1]))


def loses(work: Work, rate: float, capacity: int) -> bool:
    """Whether a buffer of so many packets overflows."""
    return fullest(work, rate) > capacity + float(work.packets.max())


def busy(work: Work, rate: float) -> float:
    """Share of the time in which the low level works, when `rate` packets a second arrive."""
    return min(1.0, rate / work.rate)


def fastest(work: Work, capacity: int) -> float:
    """The highest rate, packets a second, at which a buffer of so many packets does not overflow; within 0.1 %."""
    low, high = 0.0, work.rate
    if not loses(work, high, capacity):
        return high
    while high - low > high / 1000:
        middle = (low + high) / 2
        low, high = (low, middle) if loses(work, middle, capacity) else (middle, high)
    return low
