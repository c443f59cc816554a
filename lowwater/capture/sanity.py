"""Which timestamps of a capture are sane (SEMANTICS T3).

Between `scan` and `decode`. A record is compared with the median of the 33 records centred on it, so the reader
judges a record once it has seen the 16 after it, and `Judge` remembers the 16 before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

SIDE = 16
END_OF_TIME = 1 << 62
_NONE = (1 << 63) - 1
_BLOCK = 256


@njit(nogil=True, cache=True)
def _calm(stamps: Any, begin: int, end: int, ahead: int) -> bool:
    """Whether no record of [begin, end) can be more than `ahead` above its median, seen from the records after it."""
    # Were it, more than half of its window would lie below `stamp - ahead`, so at least one record after it.
    last = min(end + SIDE, len(stamps))
    ordered = True
    largest, smallest = stamps[begin], stamps[begin]
    for index in range(begin + 1, last):
        ordered &= stamps[index] >= stamps[index - 1]
        smallest = min(smallest, stamps[index])
        largest = max(largest, stamps[index])
    return ordered or largest - smallest <= ahead


@njit(nogil=True, cache=True)
def _following(stamps: Any, begin: int, end: int, least: Any) -> None:
    """The least of each record of [begin, end) and the SIDE records after it."""
    for index in range(_BLOCK + SIDE):
        least[index] = stamps[begin + index] if begin + index < min(end + SIDE, len(stamps)) else _NONE
    for step in (1, 2, 4, 8, 1):  # 2, 4, 8, 16 and 17 of them
        for index in range(_BLOCK + SIDE - step):
            least[index] = min(least[index], least[index + step])


@njit(nogil=True, cache=True)
def _judge(stamps: Any, begin: int, end: int, max_jump: int, ahead: int, smallest: int, jumps: Any) -> tuple[int, int]:
    """Marks in `jumps` the time-jumps of stamps[begin:end]; all of `stamps` is known context (see `Judge`)."""
    least = np.empty(_BLOCK + SIDE, np.int64)
    start = begin
    while start < end:
        stop = min(start + _BLOCK, end)
        if not _calm(stamps, start, stop, ahead):
            _following(stamps, start, stop, least)
            for index in range(start, stop):
                if least[index - start] >= stamps[index] - ahead:
                    continue
                side = min(SIDE, index, len(stamps) - 1 - index)
                below = 0
                for other in range(index - side, index + side + 1):
                    below += stamps[other] < stamps[index] - ahead
                if below <= side:
                    continue
                window = np.sort(stamps[index - side : index + side + 1])
                lead = stamps[index] - window[side]
                if lead > max_jump:
                    jumps[index - begin] = True
                    smallest = min(smallest, lead)
                else:
                    ahead = max(ahead, lead)
        start = stop
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


def in_range(stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each timestamp (ns) lies in [0, 2^62)."""
    return (stamps >= 0) & (stamps < END_OF_TIME)
