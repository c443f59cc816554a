"""The timeline of a stream: its promises over virtual time, and the ticks of its rows.

A row that waits for a promise gets the first tick at which its stream promises more than its `_last`, whichever slice
evaluates it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowwater.catalog.time import ticks_up_to
from lowwater.plan.temporal import END_OF_TIME

Instants = npt.NDArray[np.int64]

MOST_TICKS = 1 << 16
"""Largest number of ticks; beyond it ticks are made longer."""


@dataclass(frozen=True)
class Promise:
    """A stored run of punctuation: promise `last` (ns) at tick `first`, rising each period up to tick `until` (T4)."""

    first: int
    until: int
    period: int
    last: int

    @property
    def latest(self) -> int:
        """The promise at the last tick, ns."""
        return self.last + self.until - self.first

    def at(self, instants: Instants) -> Instants:
        """The promises at instants (ns) that are not before `first`."""
        return self.last + ticks_up_to(instants, self.first, self.until, self.period) - self.first


@dataclass(frozen=True)
class Timeline:
    """The promises of a stream over virtual time.

    Attributes:
        instants: ticks at which the promise rises, ns, ascending; the last is the closing tick.
        promises: promise from each tick on, ns, ascending.
    """

    instants: Instants
    promises: Instants

    @classmethod
    def of(cls, instants: Instants, promises: Instants) -> Timeline:
        """Builds the timeline from promises (ns, never falling) at instants (ns); instants without a new promise are
        dropped.

        Example:
            >>> Timeline.of(np.array([10, 20, 30]), np.array([4, 4, 25])).promises.tolist()
            [4, 25]
        """
        rises = np.append(True, promises[1:] > promises[:-1])
        return cls(instants[rises], promises[rises])

    def ticks(self, lasts: Instants) -> Instants:
        """The tick (ns) of rows with these last instants (ns): the first one that promises more.

        Example:
            >>> Timeline(np.array([10, 20, 30]), np.array([4, 15, 90])).ticks(np.array([3, 4, 20])).tolist()
            [10, 20, 30]
        """
        places = np.searchsorted(self.promises, lasts, side="right")
        ticks: Instants = self.instants[np.minimum(places, len(self.instants) - 1)]
        return ticks

    def below(self, closing: int) -> Iterator[Promise]:
        """Yields the promises above nothing and below the closing one (ns); promises that rise with time form one run.

        Example:
            >>> line = Timeline(np.array([10, 20, 30, 50]), np.array([4, 14, 24, 98]))
            >>> list(line.below(99))
            [Promise(first=10, until=30, period=10, last=4), Promise(first=50, until=50, period=0, last=98)]
        """
        begin = int(np.searchsorted(self.promises, -END_OF_TIME, side="right"))
        end = int(np.searchsorted(self.promises, closing))
        instants, promises = self.instants[begin:end].tolist(), self.promises[begin:end].tolist()
        at = 0
        while at < len(instants):
            first, last, to = instants[at], promises[at], at + 1
            period = instants[to] - first if to < len(instants) else 0
            while to < len(instants) and instants[to] - instants[to - 1] == period == promises[to] - promises[to - 1]:
                to += 1
            yield Promise(first, instants[to - 1], period if to > at + 1 else 0, last)
            at = to


def grid(first: int, closing: int, step: int) -> Instants:
    """The multiples of a step (ns) from an instant (ns) on, then the closing one; the step doubles while there are too
    many.

    Example:
        >>> grid(7, 32, 10).tolist()
        [10, 20, 30, 32]
    """
    while (closing - first) // step > MOST_TICKS:
        step *= 2
    return np.append(np.arange(-(-first // step) * step, closing, step, dtype=np.int64), closing)
