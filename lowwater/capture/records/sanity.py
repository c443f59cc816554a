"""Sanity of timestamps: finds the time jumps of a capture (SEMANTICS T3).

Called by `judging`. A record is compared with the 33 records centred on it, and its lead with the pauses of the 32
records before it and the 16 after it. So a record is judged after the 16 records behind it are known, and `Judge`
remembers the 32 before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowwater.machine_code import cached_njit

SIDE = 16
_BEFORE = 2 * SIDE
"""Records before one whose pauses count as usual."""

_USUAL = 4
"""A lead is a time jump only if it is longer than this many of the longest usual pauses."""

END_OF_TIME = 1 << 62
LARGEST_WIRE = (1 << 31) - 1
_NONE = (1 << 63) - 1


@njit(nogil=True)
def _next_drop(stamps: Any, at: int, last: int, largest: int, ahead: int) -> tuple[int, int]:
    """Finds the next record that is more than `ahead` below the largest timestamp before it.

    Returns:
        Its index (`last` if there is none), and that largest timestamp.
    """
    while at < last and stamps[at] >= largest - ahead:
        largest = max(largest, stamps[at])
        at += 1
    return at, largest


@njit(nogil=True)
def _returns(stamps: Any, index: int, side: int, level: int) -> bool:
    """Whether time goes on at or below a level: some record after stamps[index] is not before all those before it."""
    least, largest = _NONE, -1
    for other in range(index - side, index):
        if stamps[other] <= level:
            least = min(least, stamps[other])
    for other in range(index + 1, index + side + 1):
        if stamps[other] <= level:
            largest = max(largest, stamps[other])
    return bool(largest >= least)


@njit(nogil=True)
def _pause(stamps: Any, index: int, level: int) -> int:
    """Returns the longest pause at or below a level among the records around stamps[index]."""
    clock, longest = -1, 0
    for other in range(max(index - _BEFORE, 0), min(index + SIDE + 1, len(stamps))):
        if stamps[other] <= level:
            if clock >= 0:
                longest = max(longest, stamps[other] - clock)
            clock = max(clock, stamps[other])
    return longest


@njit(nogil=True)
def _lead(stamps: Any, index: int, side: int, least: int) -> int:
    """Returns the lead of stamps[index] (SEMANTICS T3), or `least` if that is larger."""
    most, first, last = least, index - side, index + side
    for place in range(first, last + 1):
        level, reached = stamps[place], 0
        if level >= stamps[index] - most:
            continue
        for other in range(first, last + 1):
            reached += stamps[other] <= level
        if reached <= side:
            continue
        lowest = stamps[index]
        for other in range(first, last + 1):
            if stamps[other] > level:
                lowest = min(lowest, stamps[other])
            elif other > index:
                break
        lead = lowest - level
        if lead > most and _returns(stamps, index, side, level) and lead > _USUAL * _pause(stamps, index, level):
            most = lead
    return most


@cached_njit(nogil=True)
def _judge(stamps: Any, begin: int, end: int, max_jump: int, ahead: int, smallest: int, jumps: Any) -> tuple[int, int]:
    """Marks in `jumps` the time jumps of stamps[begin:end]; `stamps` includes the context on both sides."""
    # If a record leads by more than `ahead`, more than half of its window lies below `stamp - ahead`. Then one of the
    # 16 records after it does too. So only records shortly before such a drop are candidates.
    last = min(end + SIDE, len(stamps))
    drop, largest = _next_drop(stamps, begin + 1, last, stamps[begin], ahead)
    judged = begin
    while drop < last:
        first, behind = max(judged, drop - SIDE), min(drop, end)
        # Upper bound, mostly 1, of the records after each candidate that lie below its limit.
        later = 0
        for other in range(first + 1, min(behind + SIDE, len(stamps))):
            later += stamps[other] < largest - ahead
        for index in range(first, behind):
            side = min(SIDE, index, len(stamps) - 1 - index)
            limit = stamps[index] - ahead
            # More than half of the window lies below the limit: more records after it than records before it do not.
            before, other = 0, index
            while before < later and other > index - side:
                other -= 1
                before += stamps[other] >= limit
            if before >= later:
                continue
            after = 0
            for other in range(index + 1, index + side + 1):
                after += stamps[other] < limit
            if after <= before:
                continue
            lead = _lead(stamps, index, side, ahead)
            if lead > max_jump:
                jumps[index - begin] = True
                smallest = min(smallest, lead)
            else:
                ahead = lead
        judged = max(judged, behind)
        # A record more than a window before the next drop no longer counts.
        if drop - SIDE > begin:
            largest = stamps[drop]
            for other in range(drop - SIDE + 1, drop):
                largest = max(largest, stamps[other])
        drop, largest = _next_drop(stamps, drop + 1, last, largest, ahead)
    return ahead, smallest


@dataclass
class Judge:
    """Finds the time jumps of one capture, piece by piece.

    Attributes:
        max_jump: largest lead of a sane record, ns.
        largest_ahead: largest lead of a sane record so far, ns, at least 0.
        smallest_jump: smallest lead of a time jump so far, ns; None if there is none.
        before: the last timestamps that were judged, 32 at most.
    """

    max_jump: int
    largest_ahead: int = 0
    smallest_jump: int | None = None
    before: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def settle(self, stamps: NDArray[np.int64], final: bool) -> NDArray[np.bool_]:
        """Judges the records whose neighbours are known.

        Args:
            stamps: timestamps within range, ns, from the first record that is not judged.
            final: whether the capture ends with them.

        Returns:
            A bool for every judged record, True for a time jump. All records are judged if `final`, else all but 16.
        """
        count = len(stamps) if final else max(len(stamps) - SIDE, 0)
        jumps = np.zeros(count, np.bool_)
        if not count:
            return jumps
        context = np.concatenate([self.before, stamps])
        begin = len(self.before)
        smallest = _NONE if self.smallest_jump is None else self.smallest_jump
        self.largest_ahead, smallest = _judge(
            context, begin, begin + count, self.max_jump, self.largest_ahead, smallest, jumps
        )
        self.smallest_jump = None if smallest == _NONE else smallest
        self.before = context[: begin + count][-_BEFORE:].copy()
        return jumps


@cached_njit(nogil=True)
def judgeable(stamps: Any, wire: Any) -> tuple[Any, bool]:
    """Finds the records whose timestamp can be compared: it lies in [0, 2^62) ns, and the wire length is below 2^31.

    Returns:
        A bool for every record, and whether all are True.
    """
    usable, whole = np.empty(len(stamps), np.bool_), True
    for index in range(len(stamps)):
        fits = (stamps[index] >= 0) & (stamps[index] < END_OF_TIME) & (wire[index] <= LARGEST_WIRE)
        usable[index] = fits
        whole &= fits
    return usable, whole
