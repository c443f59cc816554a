"""The order of the captures that one file has behind one another (SEMANTICS T1).

They are read in the order of their times, as the files of a link are, whatever order they were joined in.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from statistics import median_low
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.documents import stored_numbers, strange_text
from lowwater.limits import CAPTURE_PARTS

_FIRST = 33
"""Records of a part by whose median time it is ordered: a stray one (T3) decides nothing."""


@dataclass(frozen=True)
class ReadingOrder:
    """Parts of a file in the order in which they are read.

    Attributes:
        ranges: [begin, end) of each in the file, bytes; in a compressed file, in its content. Empty for the file's own
            order.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def parse(text: str | None) -> ReadingOrder:
        """Reads what `str` wrote; of None, the file's own order. Raises LakeError if it is no order."""
        rows = stored_numbers(text or "[]")
        ranges = [(row[0], row[1]) for row in rows if len(row) == 2 and row[0] is not None and row[1] is not None]
        ordered = sorted(ranges)
        apart = all(0 <= begin < end for begin, end in ranges) and all(
            one[1] <= two[0] for one, two in pairwise(ordered)
        )
        if len(ranges) != len(rows) or len(rows) > CAPTURE_PARTS + 1 or not apart:
            raise strange_text(text or "")
        return ReadingOrder(tuple(ranges))

    def __str__(self) -> str:
        return json.dumps(self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    @cached_property
    def borders(self) -> list[int]:
        """Where each part but the first begins in what is read."""
        return list(accumulate(end - begin for begin, end in self.ranges))[:-1]

    def shift(self, offset: int) -> int:
        """Returns by how much an offset in what is read is larger than in the file."""
        if not self.ranges:
            return 0
        at = bisect_right(self.borders, offset)
        return (self.borders[at - 1] if at else 0) - self.ranges[at][0]

    def in_file(self, offsets: NDArray[Any]) -> NDArray[Any]:
        """Returns offsets in the file of offsets in what is read."""
        shifts = np.array([begin - low for begin, (low, _) in zip([0, *self.borders], self.ranges, strict=True)])
        moved: NDArray[Any] = offsets - shifts[np.searchsorted(self.borders, offsets, side="right")]
        return moved


IN_FILE = ReadingOrder()
"""The order of the file itself."""


@dataclass(frozen=True)
class PartOverlap:
    """A capture in a file that begins before those read before it end, on one interface."""

    offset: int  # of its header in what is read
    first: int  # its first timestamp, ns
    clock: int  # the largest one before it, ns


class PartTimes:
    """Times of each part, while a file is read.

    Attributes:
        overlap: the longest overlap of a part with those before it; None without one.
    """

    def __init__(self) -> None:
        self.overlap: PartOverlap | None = None
        self._stamps: list[list[int]] = [[]]
        self._begun: set[int] = set()  # interfaces with a record in the last part

    @property
    def knows_first(self) -> bool:
        """Whether more records of the first part tell nothing."""
        return len(self._stamps[0]) == _FIRST

    def add(
        self,
        stamps: NDArray[np.int64],
        offsets: NDArray[np.int64],
        interfaces: NDArray[np.int64],
        parts: Sequence[int],
        clock_of: Callable[[int], int],
    ) -> None:
        """Adds successive sane records, at least one.

        Args:
            stamps: their timestamps, ns.
            offsets: where they begin in what is read.
            interfaces: numbers of their interfaces.
            parts: where the parts but the first begin, as far as the file is scanned.
            clock_of: largest timestamp of an interface before them, ns; -1 without one.
        """
        if not parts:
            self._note(0, stamps)
            return
        # Headers may be met before records are judged.
        first, last = (bisect_right(parts, int(offset)) for offset in offsets[[0, -1]])
        of_part = first + np.searchsorted(parts[first:last], offsets, side="right")
        for number in range(len(self._stamps) - 1, last + 1):
            if number == len(self._stamps):
                self._stamps.append([])
                self._begun.clear()
            begin, end = np.searchsorted(of_part, [number, number + 1]).tolist()
            if begin < end:
                self._note(number, stamps[begin:end])
                if number:
                    self._compare(parts[number - 1], stamps[:end], interfaces[:end], begin, clock_of)

    def _note(self, number: int, stamps: NDArray[np.int64]) -> None:
        known = self._stamps[number]
        if len(known) < _FIRST:
            known += stamps[: _FIRST - len(known)].tolist()

    def _compare(
        self,
        part: int,
        stamps: NDArray[np.int64],
        interfaces: NDArray[np.int64],
        begin: int,
        clock_of: Callable[[int], int],
    ) -> None:
        for number in {*np.unique(interfaces[begin:]).tolist()} - self._begun:
            self._begun.add(number)
            before = stamps[:begin][interfaces[:begin] == number]
            clock = max(clock_of(number), int(before.max(initial=-1)))
            first = int(stamps[begin:][interfaces[begin:] == number][0])
            longest = self.overlap.clock - self.overlap.first if self.overlap else 0
            if clock - first > longest:
                self.overlap = PartOverlap(part, first, clock)

    def order(self, parts: Sequence[int], end: int) -> ReadingOrder:
        """Returns the order of the parts by time. One without a record stays behind the one before it.

        Args:
            parts: where the parts but the first begin.
            end: size of the file.
        """
        groups: list[tuple[int, int]] = []  # time and begin
        for begin, stamps in zip([0, *parts], self._stamps, strict=False):
            if stamps and groups and groups[-1][0] < 0:
                groups[-1] = median_low(stamps), groups[-1][1]
            elif stamps or not groups:
                groups.append((median_low(stamps) if stamps else -1, begin))
        ends = [*(begin for _, begin in groups[1:]), end]
        placed = [(time, begin, stop) for (time, begin), stop in zip(groups, ends, strict=True)]
        ordered = sorted(placed, key=lambda part: part[0])
        if ordered == placed:
            return IN_FILE
        ranges: list[tuple[int, int]] = []
        for _, begin, stop in ordered:
            if ranges and ranges[-1][1] == begin:
                ranges[-1] = ranges[-1][0], stop
            else:
                ranges.append((begin, stop))
        return ReadingOrder(tuple(ranges))
