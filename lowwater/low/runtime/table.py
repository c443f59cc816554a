"""The group table of an aggregation between kernel calls, and which of its groups leave at a promise.

Beside the code of `low.code.aggregation`, which fills it and ejects from it. Several epochs may be alive at once,
because records come out of order by up to the skew and policies may let closed ones stay (002, section 6).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lowwater.low.code.compiler import Code
from lowwater.low.code.eviction import ALIVE, ALL, BOUNDS, EVERY, OLD, OLDEST
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.runtime.arithmetic import MAX, MIN
from lowwater.low.runtime.flush import Flush
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Temporal, granularity

Words = npt.NDArray[np.int64]


class Table:
    """Groups of one LFTA on one link.

    Args:
        lfta: the node, `program` its code and `number` its place in the kernel.
        code: functions of the kernel's source.
        slots: a power of two.
        flush: when groups of closed epochs leave.

    Attributes:
        words: [slot, word]; an unused slot has 0 in its first word.
        state: counters and bounds as `low.code.eviction` names them.
    """

    def __init__(self, lfta: Lfta, program: NodeProgram, number: int, code: Code, slots: int, flush: Flush) -> None:
        self.words: Words = np.zeros((slots, program.width), np.int64)
        self.times: tuple[Temporal, ...] = tuple(_time(lfta, epoch.column) for epoch in program.epochs)
        self.state: Words = np.zeros(BOUNDS + 3 * len(self.times), np.int64)
        self.state[EVERY] = flush.every
        self._survey = code[f"survey{number}"]
        self._windows = flush.windows * granularity(self.times)
        self._waits = flush.waits
        self._oldest = END_OF_TIME

    @property
    def alive(self) -> int:
        """Groups in it."""
        return int(self.state[ALIVE])

    @property
    def leaving(self) -> int:
        """Groups that are to leave now."""
        return int(self.state[OLD])

    def due(self, promise: int) -> int:
        """Marks the groups that leave at a promise; how many there are."""
        overdue = promise - self._windows
        if self.alive == 0 or not self.times or (self.state[OLDEST] > 0 and self._oldest >= overdue):
            return 0
        self._bound(overdue)
        return self.leaving

    def mark(self, promise: int) -> None:
        """Marks the groups that the promise closes, which collisions and steps may let go (P1)."""
        if self._waits and self.alive:
            self._bound(promise)

    def every(self) -> int:
        """Marks all groups; how many there are."""
        self.state[ALL] = 1
        self.state[OLD] = self.alive
        return self.alive

    def emptied(self) -> None:
        """Ends what `every` began."""
        self.state[ALL] = self.state[OLD] = self.state[OLDEST] = 0

    def oldest(self) -> int:
        """The least `_last` of its groups (I1), END_OF_TIME without any."""
        if self.alive == 0:
            return END_OF_TIME
        if not self.times:
            return END_OF_TIME - 1
        if self.state[OLDEST] <= 0:
            self._look()
        return self._oldest

    def wake(self) -> int:
        """The least promise at which a group leaves by itself."""
        return self.oldest() + 1 + self._windows

    def _bound(self, instant: int) -> None:
        # The counts follow every group that comes or leaves, so the same bounds need no other look.
        old = self.state[BOUNDS : BOUNDS + len(self.times)].copy()
        self._put(0, instant)
        if self.state[OLDEST] <= 0 or not np.array_equal(old, self.state[BOUNDS : BOUNDS + len(self.times)]):
            self._look()

    def _look(self) -> None:
        """Counts the groups before the bounds and those of the oldest epoch."""
        count = len(self.times)
        self._survey(self.words, self.state)
        self._oldest = least_last(self.times, self.state[BOUNDS + 2 * count :].tolist())
        self._put(count, self._oldest + 1)
        if count > 1:
            self._survey(self.words, self.state)

    def _put(self, at: int, instant: int) -> None:
        """Bounds that the keys of a group precede if its `_last` is below an instant."""
        for place, time in enumerate(self.times, BOUNDS + at):
            self.state[place] = min(max(time.promise(instant), MIN), MAX)


def _time(lfta: Lfta, column: int) -> Temporal:
    time = lfta.fields[column].temporal
    assert time is not None
    return time


def least_last(times: Sequence[Temporal], values: Sequence[int]) -> int:
    """`_last` of a group with these temporal keys, below the end of time (T3)."""
    return min((min(time.last(v), INT64_MAX) for time, v in zip(times, values, strict=True)), default=END_OF_TIME - 1)
