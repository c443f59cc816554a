"""Rows in blocks: what an operator makes of a row may be many, and is made and given on a block at a time.

Below the operators of a slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from lowwater.high.slices.keys import Numbers
from lowwater.high.slices.values import Frame, concat_frames

BLOCK = 1 << 20
"""Rows that are made at once, but for what one row brings."""


def repeated(counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Each row as often as it counts, a block at a time.

    Yields:
        The places of the rows, and which of the times of its row each is.

    Example:
        >>> [(places.tolist(), times.tolist()) for places, times in repeated(np.array([2, 0, 1]))]
        [([0, 0, 2], [0, 1, 0])]
    """
    upto = np.cumsum(counts)
    at = 0
    while at < len(upto):
        before = int(upto[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(upto, before + BLOCK, side="right")))
        row_counts = counts[at:until]
        places = np.repeat(np.arange(at, until), row_counts)
        yield places, np.arange(len(places)) - np.repeat(np.cumsum(row_counts) - row_counts, row_counts)
        at = until


def in_blocks(blocks: Iterable[Frame]) -> Iterator[Frame]:
    """The same rows in blocks of about BLOCK rows."""
    waiting: list[Frame] = []
    for frame in blocks:
        if frame.rows:
            waiting.append(frame)
        if sum(block.rows for block in waiting) >= BLOCK:
            yield concat_frames(waiting)
            waiting = []
    if waiting:
        yield concat_frames(waiting)
