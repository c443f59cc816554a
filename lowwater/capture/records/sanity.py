"""Which timestamps of a capture are sane (SEMANTICS T3).

Between `formats.scan` and `headers.packet`. A record is compared with the median of the 33 records centred on it, so
the reader judges a record once it has seen the 16 after it, and `Judge` remembers the 16 before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

SIDE = 16
END_OF_TIME = 1 << 62
LARGEST_WIRE = (1 << 31) - 1
_NONE = (1 << 63) - 1


@njit(nogil=True)
def _next_drop(stamps: Any, at: int, last: int, largest: int, ahead: int) -> tuple[int, int]:
    """The first record from `at` on, before `last`, that is more than `ahead` below the largest one before it.

    Returns:
        Its place, `last` if there is none; and that largest timestamp.
    """
    while at < last and stamps[at] >= largest - ahead:
        largest = max(largest, stamps[at])
        at += 1
    return at, largest


@njit(nogil=True, cache=True)
def _judge(stamps: Any, begin: int, end: int, max_jump: int, ahead: int, smallest: int, jumps: Any) -> tuple[int, int]:
    """Marks in `jumps` the time-jumps of stamps[begin:end]; all of `stamps` is known context (see `Judge`)."""
    # Of a record more than `ahead` above its median, more than half of the window lies below `stamp - ahead`: one of
    # the 16 records after it does at least. So only records shortly before such a drop are looked at.
    last = min(end + SIDE, len(stamps))
    drop, largest = _next_drop(stamps, begin + 1, last, stamps[begin], ahead)
    judged = begin
    while drop < last:
        first, behind = max(judged, drop - SIDE), min(drop, end)
        # So many, mostly one, at most lie below the limit of any of these records after it.
        later = 0
        for other in range(first + 1, min(behind + SIDE, len(stamps))):
            later += stamps[other] < largest - ahead
        for index in range(first, behind):
            side = min(SIDE, index, len(stamps) - 1 - index)
            limit = stamps[index] - ahead
            # More than half of the window lies below the limit: more after the record do than before it do not.
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
            window = np.sort(stamps[index - side : index + side + 1])
            lead = stamps[index] - window[side]
            if lead > max_jump:
                jumps[index - begin] = True
                smallest = min(smallest, lead)
            else:
                ahead = max(ahead, lead)
        judged = max(judged, behind)
        # What lies more than a window before the next record is no longer of it.
        if drop - SIDE > begin:
            largest = stamps[drop]
            for other in range(drop - SIDE + 1, drop):
                largest = max(largest, stamps[other])
        drop, largest = _next_drop(stamps, drop + 1, last, largest, ahead)
    return ahead, smallest


@dataclass
class Judge:
    """Judges the timestamps of one capture, piece by piece.

    Attributes:
        max_jump: how far ahead of its median a sane record may be, ns.
        largest_ahead: how far ahead of its median the farthest sane record was, ns, at least 0.
        smallest_jump: how far ahead of its median the nearest time-jump was, ns; None where there is none.
        before: timestamps of the last up to 16 that were judged.
    """

    max_jump: int
    largest_ahead: int = 0
    smallest_jump: int | None = None
    before: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def settle(self, stamps: NDArray[np.int64], final: bool) -> NDArray[np.bool_]:
        """Judges the records whose window is known.

        Args:
            stamps: timestamps within range, ns, from the first one not judged yet.
            final: whether the capture ends with them.

        Returns:
            One bool for each record judged, True for a time-jump: all of them if `final`, else all but the last 16.
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
        self.before = context[: begin + count][-SIDE:].copy()
        return jumps


@njit(nogil=True, cache=True)
def judgeable(stamps: Any, wire: Any) -> tuple[Any, bool]:
    """Whether each record is to be held against its neighbours: its timestamp lies in [0, 2^62) ns, its length on the
    wire below 2^31; and whether all are.
    """
    usable, whole = np.empty(len(stamps), np.bool_), True
    for index in range(len(stamps)):
        fits = (stamps[index] >= 0) & (stamps[index] < END_OF_TIME) & (wire[index] <= LARGEST_WIRE)
        usable[index] = fits
        whole &= fits
    return usable, whole
