"""The group table of an aggregation between kernel calls, and the groups that leave it at a promise.

Beside the code of `low.code.aggregation`, which fills the table and ejects groups. Several epochs can be alive at the
same time. Records come out of order by up to the skew, and flush policies may let closed epochs stay (002, section 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowwater.low.arrays import Int64Array
from lowwater.low.code.compiler import Code
from lowwater.low.code.eviction import ALIVE, ALL, BOUNDS, EVERY, OLD, OLDEST
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.runtime.arithmetic import MAX, MIN
from lowwater.low.runtime.flush import Flush
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Temporal, granularity


class GroupTable:
    """The groups of one LFTA on one link.

    Args:
        lfta: the LFTA.
        program: the inputs and outputs of its code.
        number: the number of the node in the kernel.
        code: the functions of the kernel's source.
        slots: the number of slots, a power of two.
        flush: the flush policy.

    Attributes:
        words: shape (slots, words); the first word of an unused slot is 0.
        state: counters and bounds; `low.code.eviction` names their positions.
    """

    def __init__(self, lfta: Lfta, program: NodeProgram, number: int, code: Code, slots: int, flush: Flush) -> None:
        self.words: Int64Array = np.zeros((slots, program.width), np.int64)
        self.times: tuple[Temporal, ...] = tuple(_time(lfta, epoch.column) for epoch in program.epochs)
        self.state: Int64Array = np.zeros(BOUNDS + 3 * len(self.times), np.int64)
        self.state[EVERY] = flush.every
        self._survey = code[f"survey{number}"]
        self._windows = flush.windows * granularity(self.times)
        self._waits = flush.waits
        self._oldest = END_OF_TIME

    @property
    def alive(self) -> int:
        """The number of groups in the table."""
        return int(self.state[ALIVE])

    @property
    def leaving(self) -> int:
        """The number of groups that must leave now."""
        return int(self.state[OLD])

    def due(self, promise: int) -> int:
        """Marks the groups that leave at a promise (ns), and returns their number."""
        overdue = promise - self._windows
        if self.alive == 0 or not self.times or (self.state[OLDEST] > 0 and self._oldest >= overdue):
            return 0
        self._bound(overdue)
        return self.leaving

    def mark(self, promise: int) -> None:
        """Marks the groups that a promise closes, which collisions and steps may evict (P1)."""
        if self._waits and self.alive:
            self._bound(promise)

    def every(self) -> int:
        """Marks all groups, and returns their number."""
        self.state[ALL] = 1
        self.state[OLD] = self.alive
        return self.alive

    def emptied(self) -> None:
        """Resets the marks of `every`."""
        self.state[ALL] = self.state[OLD] = self.state[OLDEST] = 0

    def oldest(self) -> int:
        """Returns the least `_last` of the groups (I1); END_OF_TIME without any."""
        if self.alive == 0:
            return END_OF_TIME
        if not self.times:
            return END_OF_TIME - 1
        if self.state[OLDEST] <= 0:
            self._count()
        return self._oldest

    def wake(self) -> int:
        """Returns the least promise at which a group leaves without a collision."""
        return self.oldest() + 1 + self._windows

    def _bound(self, instant: int) -> None:
        # The kernel updates the counts with every group that comes or leaves: equal bounds need no new count.
        bounds = self.state[BOUNDS : BOUNDS + len(self.times)].copy()
        self._put(0, instant)
        if self.state[OLDEST] <= 0 or not np.array_equal(bounds, self.state[BOUNDS : BOUNDS + len(self.times)]):
            self._count()

    def _count(self) -> None:
        """Counts the groups before the bounds and the groups of the oldest epoch."""
        keys = len(self.times)
        self._survey(self.words, self.state)
        self._oldest = least_last(self.times, self.state[BOUNDS + 2 * keys :].tolist())
        self._put(keys, self._oldest + 1)
        if keys > 1:
            self._survey(self.words, self.state)

    def _put(self, at: int, instant: int) -> None:
        """Sets the bounds that the keys of a group precede if its `_last` is below an instant (ns)."""
        for place, time in enumerate(self.times, BOUNDS + at):
            self.state[place] = min(max(time.promise(instant), MIN), MAX)


def _time(lfta: Lfta, column: int) -> Temporal:
    time = lfta.fields[column].temporal
    assert time is not None
    return time


def least_last(times: Sequence[Temporal], values: Sequence[int]) -> int:
    """Returns `_last` of a group with these temporal keys, below the end of time (T3)."""
    return min((min(time.last(v), INT64_MAX) for time, v in zip(times, values, strict=True)), default=END_OF_TIME - 1)
