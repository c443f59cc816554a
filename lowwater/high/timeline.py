"""The time of a run: its slices, the promises of a stream over virtual time, and the ticks of its rows."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from lowwater.catalog.time import ticks_up_to
from lowwater.limits import TIMELINE_TICKS
from lowwater.plan import operators as ops, properties, temporal

Instants = npt.NDArray[np.int64]


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
    """The promises of a stream over virtual time: each is in force from its instant on. Both in ns, ascending; the last
    instant is the closing tick."""

    instants: Instants
    promises: Instants

    @classmethod
    def of(cls, instants: Instants, promises: Instants) -> Timeline:
        """Builds the timeline from promises that never fall; instants without a new promise are dropped."""
        rises = np.append(True, promises[1:] > promises[:-1])
        return cls(instants[rises], promises[rises])

    @property
    def closing(self) -> int:
        """The closing tick, ns."""
        return int(self.instants[-1])

    def ticks(self, lasts: Instants) -> Instants:
        """The ticks of rows with these last instants: the first that promises more, whatever slice evaluates a row."""
        places = np.searchsorted(self.promises, lasts, side="right")
        ticks: Instants = self.instants[np.minimum(places, len(self.instants) - 1)]
        return ticks

    def below(self, closing: int) -> Iterator[Promise]:
        """Yields the promises below the closing one; those that rise with time form one run."""
        begin = int(np.searchsorted(self.promises, -temporal.END_OF_TIME, side="right"))
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
    many."""
    while (closing - first) // step > TIMELINE_TICKS:
        step *= 2
    return np.append(np.arange(-(-first // step) * step, closing, step, dtype=np.int64), closing)


# An interval needs only a bounded range of records before it (SEMANTICS I2), and so does any part of it. A slice is a
# part of the interval, and its rows need the state of no other slice.

ROW_COUNT_UNIT = 1_000_000_000
"""Rows are counted per this length of time (ns) before slices are chosen."""
ALL_TIME = temporal.END_OF_TIME


@dataclass(frozen=True)
class TimeSlice:
    """A part of the time of a query, which gives the rows with `_last` (ns) in [start, end); `reads` has the smallest
    `_last` of the rows of each LFTA that are read, up to `end`."""

    start: int
    end: int
    reads: Mapping[str, int]


def choose_slices(
    node: ops.Node, rows: Mapping[int, int], most: int, begin: int = -ALL_TIME, until: int = ALL_TIME
) -> list[TimeSlice]:
    """Chooses slices of the time [begin, until), ns, with about equal numbers of rows, for a plan without a state that
    outlives a slice. The last may end before `until`, unless that is the end of time; there may be none then.

    No slice is shorter than the time it reads before its start, unless its rows meet by a band alone: then each slice
    takes a copy of the rows of the band, and fewer pairs.

    Args:
        rows: number of rows of its LFTAs in that time, by the ROW_COUNT_UNIT of time that holds their `_last`.
        most: largest number of slices, at least 1.
    """
    cuts: list[int] = []
    waiting = [part for part in ops.walk(node) if part.facts.waits]
    copied = bool(waiting) and all(isinstance(part, ops.Join) and part.by_time_alone for part in waiting)
    before = max(begin, min(rows, default=0) * ROW_COUNT_UNIT)
    for boundary in [*boundaries(rows, most), *([until] if until < ALL_TIME else [])]:
        cut = boundary if copied else _aligned(node, boundary)
        if cut > before and (copied or before <= min(properties.read_from(node, cut).values())):
            cuts.append(cut)
            before = cut
    spans = pairwise([begin, *cuts] if until < ALL_TIME else [begin, *cuts, ALL_TIME])
    reads = {-ALL_TIME: dict.fromkeys(properties.read_from(node, 0), -ALL_TIME)}
    return [TimeSlice(start, end, reads.get(start) or properties.read_from(node, start)) for start, end in spans]


def choose_chain(names: Iterable[str], rows: Counter[int], most: int) -> list[TimeSlice]:
    """Chooses slices as `choose_slices` does, for a plan with a state over these LFTAs: each row is read once."""
    edges, read = [-ALL_TIME, *boundaries(rows, most), ALL_TIME], list(names)
    return [TimeSlice(start, end, dict.fromkeys(read, start)) for start, end in pairwise(edges)]


def boundaries(rows: Mapping[int, int], most: int) -> list[int]:
    """Chooses the instants (ns) between at most so many slices with about equal numbers of rows, none of them empty;
    rows as of `choose_slices`.

    A slice ends with the unit nearest to its exact end, also where rows come in bursts: its rows bound memory.
    """
    units = sorted(rows)
    until = [*accumulate(rows[unit] for unit in units)]
    ends = {_nearest(until, until[-1] * share / most) for share in range(1, most)} if units else set()
    return [(units[end] + 1) * ROW_COUNT_UNIT for end in sorted(ends) if end < len(units) - 1]


def _nearest(values: list[int], target: float) -> int:
    """The position of the value in a sorted list that is nearest to a target."""
    at = min(bisect_left(values, target), len(values) - 1)
    return at - 1 if at and target - values[at - 1] <= values[at] - target else at


def rows_of(slice_: TimeSlice, rows: Counter[int]) -> int:
    """Returns about how many rows a slice reads, of rows as of `choose_slices`."""
    first = min(slice_.reads.values(), default=slice_.start)
    return sum(
        count for at, count in rows.items() if first < (at + 1) * ROW_COUNT_UNIT and at * ROW_COUNT_UNIT < slice_.end
    )


def _aligned(node: ops.Node, cut: int) -> int:
    """The nearest earlier instant that needs no earlier rows (the begin of an epoch); otherwise the cut."""
    first = min(properties.read_from(node, cut).values())
    return first if first >= 0 and min(properties.read_from(node, first).values()) == first else cut
