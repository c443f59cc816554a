"""Processes rows in blocks, since an operator may make many rows from one.

The operators of a slice use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from lowwater.high.slices.keys import Numbers
from lowwater.high.slices.values import Frame, concat_frames

BLOCK = 1 << 20
"""Largest number of rows of a block, unless a single row makes more."""


def repeated(counts: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Repeats each row as often as its count, a block at a time.

    Yields:
        Positions of the rows, and the number of each repetition.

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
    """Regroups rows into blocks of about BLOCK rows."""
    waiting: list[Frame] = []
    for frame in blocks:
        if frame.rows:
            waiting.append(frame)
        if sum(block.rows for block in waiting) >= BLOCK:
            yield concat_frames(waiting)
            waiting = []
    if waiting:
        yield concat_frames(waiting)
