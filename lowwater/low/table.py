"""The direct-mapped group table of an aggregation, between kernel calls.

The kernel of `low.kernel` fills it and ejects from it; here whole epochs leave it. Several epochs may be alive at once,
because records come out of order by up to the skew (002 section 6).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.low.kernel import ALIVE, EJECTIONS, Slot
from lowwater.plan.nodes import Field
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX

Words = npt.NDArray[np.int64]
FlushPolicy = Callable[[Words, int], npt.NDArray[np.bool_]]
"""Which alive groups leave, of their `_last` and the promise; whatever stays holds the stream's promise back (P2)."""


def immediate(lasts: Words, promise: int) -> npt.NDArray[np.bool_]:
    """Every group that the promise closes leaves at once (P1)."""
    return lasts < promise


def lasts_of(rows: Words, fields: tuple[Field, ...], slots: tuple[Slot, ...]) -> Words:
    """`_last` of groups: the least `last(key)` over their temporal keys (I1), below the end of time (T3).

    Args:
        rows: words of groups, [group, word].
        fields: output columns of the LFTA.
        slots: where they lie.
    """
    lasts = np.full(len(rows), END_OF_TIME - 1, np.int64)
    for field, slot in zip(fields, slots, strict=True):
        if field.temporal is None:
            continue
        # A table holds few distinct epochs, so the exact function runs once for each.
        coded = pa.array(np.ascontiguousarray(rows[:, slot.at])).dictionary_encode()
        known = np.array([min(field.temporal.last(v), INT64_MAX) for v in coded.dictionary.to_pylist()], np.int64)
        null = rows[:, slot.mask] & (1 << slot.bit) != 0
        if len(known):
            lasts = np.minimum(lasts, np.where(null, lasts, known[coded.indices.to_numpy()]))
    return lasts


class Table:
    """Groups of one LFTA on one link.

    Attributes:
        words: [slot, word] as `low.kernel` lays them out; an unused slot has 0 in its first word.
        counters: collisions, ejections, groups alive.
    """

    def __init__(self, slots: int, width: int, policy: FlushPolicy = immediate) -> None:
        self.words: Words = np.zeros((slots, width), np.int64)
        self.counters: Words = np.zeros(3, np.int64)
        self._policy = policy

    @property
    def ejections(self) -> int:
        return int(self.counters[EJECTIONS])

    def close(self, promise: int, fields: tuple[Field, ...], slots: tuple[Slot, ...]) -> tuple[Words, int]:
        """Takes out the groups that leave at a promise.

        Returns:
            Their words in the order of their slots, and the least `_last` of the groups that stay (END_OF_TIME
            if there are none).
        """
        if self.counters[ALIVE] == 0:
            return self.words[:0], END_OF_TIME
        used = np.flatnonzero(self.words[:, 0])
        lasts = lasts_of(self.words[used], fields, slots)
        leaves = self._policy(lasts, promise)
        rows = self.words[used[leaves]]
        self.words[used[leaves], 0] = 0
        self.counters[ALIVE] -= len(rows)
        return rows, int(lasts[~leaves].min(initial=END_OF_TIME))

    def empty(self) -> Words:
        """Takes out every group; their words in the order of their slots."""
        used = np.flatnonzero(self.words[:, 0])
        rows = self.words[used]
        self.words[used, 0] = 0
        self.counters[EJECTIONS] += len(rows)
        self.counters[ALIVE] = 0
        return rows
