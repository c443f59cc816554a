"""The operators of LFTAs at run time: selections, and aggregations with their group tables (000 sections 4.3, 4.4).

Between the generated code and `low.runtime.heartbeat`. The kernel processes records, and the heartbeat flushes a node
when a promise is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.low.arrays import Int64Array
from lowwater.low.code.aggregation import BLOCK
from lowwater.low.code.compiler import Code
from lowwater.low.code.eviction import BOUNDS, COLLISIONS, EJECTIONS, FROM, SIZE, TAKEN
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.code.row_buffers import RowBuffer
from lowwater.low.runtime.table import GroupTable, least_last
from lowwater.low.runtime.user_states import States
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME

Arguments = list[Any]


class LftaOperator(ABC):
    """Base of selections and aggregations: a state that the kernel updates, and rows that are not written yet.

    Attributes:
        state: the state; `low.code.eviction` names its positions.
        rows: buffers for the rows that the kernel writes.
        written: called to make room.
        slots: the slots of its table; 0 without one.
        alive: the groups in its table.
    """

    ejections = collisions = slots = alive = 0

    def __init__(self, program: NodeProgram, read_from: int, capacity: int) -> None:
        self.state: Int64Array = np.zeros(BOUNDS, np.int64)
        self.state[FROM] = read_from
        self.rows = RowBuffer(program.outputs, capacity, lasts=not program.width)
        self.written: Callable[[], None] = self.clear

    @property
    def size(self) -> int:
        """The number of rows that are not written yet."""
        return int(self.state[SIZE])

    @property
    @abstractmethod
    def room(self) -> int:
        """The number of records that can be processed before rows must be written."""

    @property
    def arguments(self) -> Arguments:
        """The arguments of the kernel for the node."""
        return [self.state, *self.rows.arrays]

    @abstractmethod
    def lasts(self) -> Int64Array:
        """Returns `_last` of the rows that are not written yet."""

    def columns(self, texts: Sequence[str]) -> list[pa.Array]:
        """Returns the rows that are not written yet.

        Args:
            texts: the strings that numbers stand for, by number.
        """
        return self.rows.columns(self.size, texts)

    def settle(self, texts: Sequence[str]) -> int:
        """Updates the states of users' sub-aggregates with the queued records, and returns their number.

        Args:
            texts: the strings that numbers stand for, by number.
        """
        return 0

    def clear(self) -> None:
        """Drops the rows; readers now own their buffers."""
        self.state[SIZE] = 0
        self.rows.renew()

    def flush(self, tick: int, promise: int) -> int:
        """Writes the groups that leave at a promise as rows of the tick.

        Returns:
            The least `_last` of the groups that stay.
        """
        return END_OF_TIME

    def wake(self) -> int:
        """Returns the least promise at which another group leaves, even if no record comes."""
        return END_OF_TIME

    def finish(self, tick: int) -> int:
        """Writes all groups as rows of the tick, so that nothing of earlier packets remains.

        Returns:
            The number of groups.
        """
        return 0


class LftaSelection(LftaOperator):
    """A selection: rows whose predicate is true leave at once, and nothing stays alive."""

    @property
    def room(self) -> int:
        return self.rows.capacity - self.size

    def lasts(self) -> Int64Array:
        return self.rows.clock(1, self.size)


class LftaAggregation(LftaOperator):
    """An aggregation: partial groups in a table, which become rows when they leave it.

    Args:
        lfta: the LFTA.
        program: the inputs and outputs of its code.
        number: the number of the node in the kernel.
        code: the functions of the kernel's source.
        read_from: start of its read range, ns.
        settings: the settings of the run.
    """

    def __init__(
        self, lfta: Lfta, program: NodeProgram, number: int, code: Code, read_from: int, settings: LowSettings
    ) -> None:
        slots = settings.slots or lfta.slots
        self._ordered, self._steps = settings.flush.ordered, settings.flush.steps
        # If order is kept, one record may evict all groups of the table.
        super().__init__(program, read_from, settings.chunk_rows + (slots if self._ordered else 0) + 2)
        self.table = GroupTable(lfta, program, number, code, slots, settings.flush)
        self.slots = slots
        self.table.state[FROM] = read_from
        self.state = self.table.state
        self._queue: Int64Array = np.zeros((BLOCK, program.key + 2), np.int64)
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
        free = self.rows.capacity - self.size - (self.table.leaving if self._ordered else 0)
        free = free // 2 if self._steps else free
        return free if self._states is None else min(free, self.rows.capacity - int(self.state[TAKEN]))

    @property
    def arguments(self) -> Arguments:
        states = self._states.arrays if self._states is not None else []
        return [self.state, self.table.words, self._queue, *states, *self.rows.arrays]

    def columns(self, texts: Sequence[str]) -> list[pa.Array]:
        columns = super().columns(texts)
        return columns if self._states is None else self._states.leave(columns)

    def settle(self, texts: Sequence[str]) -> int:
        count = int(self.state[TAKEN])
        if self._states is not None:
            self._states.take(count, texts)
            self.state[TAKEN] = 0
        return count

    def flush(self, tick: int, promise: int) -> int:
        if self.table.due(promise):
            self._evict(tick)
        self.table.mark(promise)
        return self.table.oldest()

    def wake(self) -> int:
        return self.table.wake()

    def finish(self, tick: int) -> int:
        count = self.table.every()
        self._evict(tick)
        self.table.emptied()
        return count

    def lasts(self) -> Int64Array:
        lasts = np.full(self.size, END_OF_TIME - 1, np.int64)
        for time, column in zip(self.table.times, self._epochs, strict=True):
            values = self.rows.values(column, self.size)
            # Few epochs leave together, in long runs of rows: the exact function is called once per run.
            begins = np.flatnonzero(np.diff(values, prepend=~values[:1])) if len(values) else values
            distinct, places = np.unique(values[begins], return_inverse=True)
            exact = np.array([least_last((time,), (value,)) for value in distinct.tolist()], np.int64)
            runs = np.diff(np.append(begins, len(values)))
            lasts = np.minimum(lasts, np.repeat(exact[places], runs))
        return lasts

    def _evict(self, tick: int) -> None:
        while self.table.leaving:
            free = self.rows.capacity - self.size
            if free == 0:
                self.written()
                continue
            size = self._release(self.table.words, self.state, free, tick, self.size, *self.rows.arrays)
            assert size > self.size, "a table counts groups that it does not hold"
            self.state[SIZE] = size
