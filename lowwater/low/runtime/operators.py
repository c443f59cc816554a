"""The LFTAs of a link at run time: selections, and aggregations with their tables (000 sections 4.3, 4.4).

Between the generated code and `low.runtime.heartbeat`: the kernel runs records, and the heartbeat asks a node to flush
where a promise is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.low.code.aggregation import BLOCK
from lowwater.low.code.compiler import Code
from lowwater.low.code.eviction import BOUNDS, COLLISIONS, EJECTIONS, FROM, SIZE, TAKEN
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.code.rows import Rows
from lowwater.low.runtime.states import States
from lowwater.low.runtime.table import Table, least_last
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME

Words = npt.NDArray[np.int64]
Arguments = list[Any]


class Operator(ABC):
    """What both kinds have: a state that the kernel keeps, and rows that wait.

    Attributes:
        state: as `low.code.eviction` names its places.
        rows: room for the rows that the kernel writes.
        written: called to make room.
        slots: the slots of its table; 0 without one, as groups in it `alive`.
    """

    ejections = collisions = slots = alive = 0

    def __init__(self, program: NodeProgram, read_from: int, capacity: int) -> None:
        self.state: Words = np.zeros(BOUNDS, np.int64)
        self.state[FROM] = read_from
        self.rows = Rows(program.outputs, capacity, lasts=not program.width)
        self.written: Callable[[], None] = self.clear

    @property
    def size(self) -> int:
        """Rows that wait."""
        return int(self.state[SIZE])

    @property
    @abstractmethod
    def room(self) -> int:
        """How many records can be processed before rows are written."""

    @property
    def arguments(self) -> Arguments:
        """What the kernel takes of the node."""
        return [self.state, *self.rows.arrays]

    @abstractmethod
    def lasts(self) -> Words:
        """`_last` of the rows that wait."""

    def columns(self, texts: Sequence[str]) -> list[pa.Array]:
        """The rows that wait; `texts` are those that the numbers stand for."""
        return self.rows.columns(self.size, texts)

    def settle(self, texts: Sequence[str]) -> int:
        """Does what records have left to be done beside the code; how many they were."""
        return 0

    def clear(self) -> None:
        """Forgets the rows, whose room is the readers' now."""
        self.state[SIZE] = 0
        self.rows.renew()

    def flush(self, tick: int, promise: int) -> int:
        """Writes the groups that leave at a promise as rows of the tick; the least `_last` of those left alive."""
        return END_OF_TIME

    def wake(self) -> int:
        """The least promise at which another group leaves though no record comes."""
        return END_OF_TIME

    def finish(self, tick: int) -> int:
        """Writes all groups as rows of the tick, so that nothing of the packets so far is kept; how many they were."""
        return 0


class Selection(Operator):
    """Rows whose predicate is true, at once; nothing stays alive."""

    @property
    def room(self) -> int:
        return self.rows.capacity - self.size

    def lasts(self) -> Words:
        return self.rows.clock(1, self.size)


class Aggregation(Operator):
    """Partial groups in a table; those that leave it are rows.

    Args:
        lfta: the node, `program` its code and `number` its place in the kernel.
        code: functions of the kernel's source.
        read_from: begin of its read range.
        settings: the settings of the run.
    """

    def __init__(
        self, lfta: Lfta, program: NodeProgram, number: int, code: Code, read_from: int, settings: LowSettings
    ) -> None:
        slots = settings.slots or lfta.slots
        self._ordered, self._steps = settings.flush.ordered, settings.flush.steps
        # Where order is kept, one record may let a whole table go.
        super().__init__(program, read_from, settings.chunk_rows + (slots if self._ordered else 0) + 2)
        self.table = Table(lfta, program, number, code, slots, settings.flush)
        self.slots = slots
        self.table.state[FROM] = read_from
        self.state = self.table.state
        self._queue: Words = np.zeros((BLOCK, program.key + 2), np.int64)
        self._states = States(lfta, program.taken, self.rows.capacity) if program.taken else None
        self._epochs = tuple(epoch.column for epoch in program.epochs)
        self._release = code[f"release{number}"]

    @property
    def alive(self) -> int:  # type: ignore[override]
        return self.table.alive

    @property
    def ejections(self) -> int:  # type: ignore[override]
        return int(self.state[EJECTIONS])

    @property
    def collisions(self) -> int:  # type: ignore[override]
        return int(self.state[COLLISIONS])

    @property
    def room(self) -> int:
        left = self.rows.capacity - self.size - (self.table.leaving if self._ordered else 0)
        left = left // 2 if self._steps else left
        return left if self._states is None else min(left, self.rows.capacity - int(self.state[TAKEN]))

    @property
    def arguments(self) -> Arguments:
        states = self._states.arrays if self._states is not None else []
        return [self.state, self.table.words, self._queue, *states, *self.rows.arrays]

    def columns(self, texts: Sequence[str]) -> list[pa.Array]:
        found = super().columns(texts)
        return found if self._states is None else self._states.leave(found)

    def settle(self, texts: Sequence[str]) -> int:
        count = int(self.state[TAKEN])
        if self._states is not None:
            self._states.take(count, texts)
            self.state[TAKEN] = 0
        return count

    def flush(self, tick: int, promise: int) -> int:
        if self.table.due(promise):
            self._let_go(tick)
        self.table.mark(promise)
        return self.table.oldest()

    def wake(self) -> int:
        return self.table.wake()

    def finish(self, tick: int) -> int:
        count = self.table.every()
        self._let_go(tick)
        self.table.emptied()
        return count

    def lasts(self) -> Words:
        found = np.full(self.size, END_OF_TIME - 1, np.int64)
        for time, column in zip(self.table.times, self._epochs, strict=True):
            values = self.rows.values(column, self.size)
            # Few epochs leave at once, in long runs: the exact function is asked once a run.
            begins = np.flatnonzero(np.diff(values, prepend=~values[:1])) if len(values) else values
            known, places = np.unique(values[begins], return_inverse=True)
            exact = np.array([least_last((time,), (value,)) for value in known.tolist()], np.int64)
            runs = np.diff(np.append(begins, len(values)))
            found = np.minimum(found, np.repeat(exact[places], runs))
        return found

    def _let_go(self, tick: int) -> None:
        while self.table.leaving:
            free = self.rows.capacity - self.size
            if free == 0:
                self.written()
                continue
            size = self._release(self.table.words, self.state, free, tick, self.size, *self.rows.arrays)
            assert size > self.size, "a table counts groups that it does not hold"
            self.state[SIZE] = size
