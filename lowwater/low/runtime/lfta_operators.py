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

from lowwater.catalog.calls import CheckedAggregate
from lowwater.catalog.schemas import STREAM_TYPES
from lowwater.low.code.aggregation import (
    ALIVE,
    ALL,
    BLOCK,
    BOUNDS,
    COLLISIONS,
    EJECTIONS,
    EVERY,
    FROM,
    OLD,
    OLDEST,
    SIZE,
    TAKEN,
)
from lowwater.low.code.compiler import Code
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.code.row_buffers import Array, Int64Array, OutputColumn, RowBuffer
from lowwater.low.runtime.arithmetic import MAX, MIN
from lowwater.low.runtime.flush import Flush
from lowwater.low.settings import LowSettings
from lowwater.plan.operators import Lfta
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Temporal, granularity

# The group table of an aggregation between kernel calls, and the groups that leave it at a promise. Beside the code
# of `low.code.aggregation`, which fills the table and ejects groups. Several epochs can be alive at the same time.
# Records come out of order by up to the skew, and flush policies may let closed epochs stay (002, section 6).


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
        state: counters and bounds; `low.code.aggregation` names their positions.
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


# States of users' sub-aggregates, kept beside the group table, which holds numbers only (SEMANTICS O2). Between the
# code of `low.code.aggregation` and the rows that leave. A group holds a ticket in place of their values: a number
# that no other group of the node has. The code queues the ticket and the arguments of every accepted record. The
# states are updated from the queue before any row of the node is written.


class States:
    """The states of all users' sub-aggregates, for the groups of one node.

    Args:
        lfta: the LFTA.
        queue: the columns of the queue: the ticket, then the argument of each aggregate that has one.
        capacity: the most records in the queue.

    Attributes:
        arrays: arguments of the code, the arrays of the queue.
    """

    def __init__(self, lfta: Lfta, queue: Sequence[OutputColumn], capacity: int) -> None:
        numbered = enumerate(lfta.partials, len(lfta.keys))
        partials = [(number, partial, partial.udaf) for number, partial in numbered if partial.udaf is not None]
        self._columns = [(number, STREAM_TYPES[partial.type]) for number, partial, _ in partials]
        self._functions = [CheckedAggregate(udaf) for _, _, udaf in partials]
        self._has_argument = [partial.argument is not None for _, partial, _ in partials]
        self._queue = queue
        self._parts = [output.arrays(capacity) for output in queue]
        self.arrays: list[Array] = [array for part in self._parts for array in part]
        self._groups: dict[int, list[Any]] = {}

    def take(self, count: int, texts: Sequence[str]) -> None:
        """Updates the states with the first records of the queue.

        Args:
            count: the number of queued records.
            texts: the strings that numbers stand for, by number.

        Raises:
            LowwaterError: a user's aggregate fails.
        """
        pairs = zip(self._queue, self._parts, strict=True)
        tickets, *arguments = (output.array(part, count, texts).to_pylist() for output, part in pairs)
        argument_columns = iter(arguments)
        every_record = [True] * count
        for at, (functions, has_argument) in enumerate(zip(self._functions, self._has_argument, strict=True)):
            values = next(argument_columns) if has_argument else every_record
            for ticket, value in zip(tickets, values, strict=True):
                states = self._groups.get(ticket)
                if states is None:
                    states = self._groups[ticket] = [aggregate.initialize() for aggregate in self._functions]
                # Aggregates skip NULL.
                if value is not None:
                    states[at] = functions.iterate(states[at], *([value] if has_argument else []))

    def leave(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Returns the columns of rows, with the values of the aggregates in place of the tickets.

        The states of these groups end.

        Raises:
            LowwaterError: a user's aggregate fails, or returns a value of another type.
        """
        values = list(columns)
        groups = [self._groups.pop(ticket) for ticket in columns[self._columns[0][0]].to_pylist()]
        for at, ((number, kind), functions) in enumerate(zip(self._columns, self._functions, strict=True)):
            values[number] = pa.array([functions.output(states[at]) for states in groups], kind)
        return values


Arguments = list[Any]


class LftaOperator(ABC):
    """Base of selections and aggregations: a state that the kernel updates, and rows that are not written yet.

    Attributes:
        state: the state; `low.code.aggregation` names its positions.
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
