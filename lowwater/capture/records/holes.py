"""Holes of a capture: where its bytes are no record, which time that may be, and how many records are lost (T5).

`stream` says where damage lies, and hands in every span of records. The time of a hole lies between the clock before it
and the first record behind it. Its records are estimated by the mean size of the records around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowwater.capture.records.facts import Hole
from lowwater.catalog.time import arrival_times
from lowwater.limits import CAPTURE_HOLES

AROUND = 32
"""Records on either side of a hole by which pauses and sizes around it are known."""


@dataclass
class _Damage:
    """A hole while its capture is read."""

    offset: int
    length: int
    lost: float  # bytes of records that are lost, decompressed
    clocks: tuple[int, ...]  # clock of each interface before it, ns; -1 for none
    nearest: int  # interface of the last record before it; -1 for none
    stamps: list[int]  # the last timestamps before it, over all interfaces, and the bytes of these records
    sizes: list[int]
    later: list[int] = field(default_factory=list)  # the first timestamps behind it, and the bytes of these records
    later_sizes: list[int] = field(default_factory=list)
    following: int = -1  # interface of the first record behind it
    firsts: dict[int, int] = field(default_factory=dict)  # interface -> its first timestamp behind it, ns


class HoleFinder:
    """Finds the holes of one capture, in file order."""

    def __init__(self) -> None:
        self._holes: list[_Damage] = []
        self._open: deque[_Damage] = deque()  # holes behind which few records are known
        self._seen: set[int] = set()  # interfaces with records since the last hole
        self._stamps: deque[int] = deque(maxlen=AROUND)
        self._sizes: deque[int] = deque(maxlen=AROUND)
        self._nearest = -1

    def open(self, offset: int, length: int, clocks: Iterable[int], lost: float | None = None) -> None:
        """Notes bytes that are no record, behind the spans that were added.

        Args:
            clocks: clock of each interface, ns; -1 for none.
            lost: bytes of records that are lost; None for `length`.
        """
        size = float(length) if lost is None else lost
        if self._holes and not self._holes[-1].later:  # no record lies between
            last = self._holes[-1]
            last.length, last.lost = last.length + length, last.lost + size
            return
        hole = _Damage(offset, length, size, tuple(clocks), self._nearest, [*self._stamps], [*self._sizes])
        self._holes.append(hole)
        self._open.append(hole)
        self._seen.clear()
        if len(self._holes) > 2 * CAPTURE_HOLES:
            self._join(CAPTURE_HOLES)

    def add(self, stamps: NDArray[np.int64], sizes: NDArray[Any], interfaces: NDArray[np.int64] | None) -> None:
        """Adds sane records, at least one.

        Args:
            stamps: their timestamps, ns.
            sizes: their bytes, with headers.
            interfaces: numbers of their interfaces; None for 0.
        """
        if self._holes:
            self._behind(stamps, sizes, interfaces)
        self._stamps.extend(stamps[-AROUND:].tolist())
        self._sizes.extend(sizes[-AROUND:].tolist())
        self._nearest = 0 if interfaces is None else int(interfaces[-1])

    def _behind(self, stamps: NDArray[np.int64], sizes: NDArray[Any], interfaces: NDArray[np.int64] | None) -> None:
        first = 0 if interfaces is None else int(interfaces[0])
        for hole in self._open:
            hole.following = first if hole.following < 0 else hole.following
            rest = AROUND - len(hole.later)
            hole.later += stamps[:rest].tolist()
            hole.later_sizes += sizes[:rest].tolist()
        while self._open and len(self._open[0].later) == AROUND:
            self._open.popleft()
        if interfaces is None:
            present, places = [0], [0]
        else:
            numbers, at = np.unique(interfaces, return_index=True)
            present, places = numbers.tolist(), at.tolist()
        for number, place in zip(present, places, strict=True):
            if number not in self._seen:
                self._seen.add(number)
                for hole in reversed(self._holes):
                    if number in hole.firsts:
                        break
                    hole.firsts[number] = int(stamps[place])

    def _join(self, most: int) -> None:
        """Joins holes with the least time between them, until there are at most so many."""
        while len(self._holes) > most:
            between = [
                (max(other.stamps, default=0) - min(one.later, default=0), at)
                for at, (one, other) in enumerate(zip(self._holes, self._holes[1:], strict=False))
            ]
            # Neighbours of a joined hole wait for the next round.
            joined: list[_Damage] = []
            last = -2
            chosen = {at for _, at in sorted(between)[: len(self._holes) - most]}
            for at, hole in enumerate(self._holes):
                if at - 1 in chosen and last != at - 1:
                    joined[-1] = _joined(joined[-1], hole)
                    last = at
                else:
                    joined.append(hole)
            self._holes = joined
        self._open = deque(hole for hole in self._open if any(hole is each for each in self._holes))

    def move(self, place_of: Callable[[int], int]) -> None:
        """Gives each hole another place in the file."""
        for hole in self._holes:
            hole.offset = place_of(hole.offset)

    def found(self, interface: int) -> tuple[Hole, ...]:
        """Returns the holes as an interface has them, once all records are added."""
        self._join(CAPTURE_HOLES)
        return tuple(_hole(each, interface) for each in self._holes)


def merged_holes(parts: Sequence[Sequence[Hole]]) -> tuple[Hole, ...]:
    """Merges the holes of a capture as several of its interfaces have them, into those of one link."""
    merged = []
    for holes in zip(*parts, strict=True):
        before = min((hole.before for hole in holes if hole.before is not None), default=None)
        after = max((hole.after for hole in holes if hole.after is not None), default=None)
        merged.append(replace(holes[0], before=before, after=after))
    return tuple(merged)


def _joined(one: _Damage, other: _Damage) -> _Damage:
    return replace(
        one,
        length=one.length + other.length,
        lost=one.lost + other.lost,
        later=other.later,
        later_sizes=other.later_sizes,
        following=other.following,
        firsts=other.firsts,
    )


def _hole(hole: _Damage, interface: int) -> Hole:
    before, after = _clock(hole, interface), hole.firsts.get(interface)
    # Records of all interfaces lie in the order of the file. So the neighbours of the hole bound it, where they are of
    # the same clock.
    near, next_one = _clock(hole, hole.nearest), hole.firsts.get(hole.following)
    if (
        (near is None or next_one is None or near <= next_one)
        and (before is None or (near is not None and before <= near))
        and (after is None or (next_one is not None and next_one <= after))
    ):
        before, after = near, next_one
    sizes = hole.sizes + hole.later_sizes
    mean = sum(sizes) / len(sizes) if sizes else hole.lost
    records = max(1, round(hole.lost / mean)) if hole.lost else 0
    return Hole(hole.offset, hole.length, before, after, records, max(_pause(hole.stamps), _pause(hole.later)))


def _clock(hole: _Damage, interface: int) -> int | None:
    clock = hole.clocks[interface] if 0 <= interface < len(hole.clocks) else -1
    return clock if clock >= 0 else None


def _pause(stamps: Sequence[int]) -> int:
    """Returns the longest time between successive arrivals, ns; 0 with less than two records."""
    if len(stamps) < 2:
        return 0
    return int(np.max(np.diff(arrival_times(np.array(stamps, np.int64)))))
