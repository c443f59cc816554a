"""One LFTA on one link: its operators, its heartbeats, its host values, and what it counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog import calls, expr as ex, schemas
from lowwater.catalog.time import is_late
from lowwater.catalog.values import words_from_ip
from lowwater.low.code import aggregation
from lowwater.low.code.compiler import Code
from lowwater.low.code.expressions import OWN_SKEW, is_hosted, of_link
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.code.row_buffers import Array, Int64Array, OutputColumn, RowBuffer
from lowwater.low.evaluate import ChunkColumns, ExpressionKernel, Pair
from lowwater.low.runtime import arithmetic, heartbeat
from lowwater.low.settings import (
    Bounds,
    Flush,
    LftaStatistics,
    LowSettings,
)
from lowwater.plan import operators as ops
from lowwater.plan.temporal import END_OF_TIME, INT64_MAX, Temporal, granularity

# Operators of LFTAs (000 sections 4.3, 4.4). The kernel processes records, and the heartbeat flushes a node when a
# promise is due.

# The group table. Several epochs can be alive at the same time. Records come out of order by up to the skew, and flush
# policies may let closed epochs stay (002, section 6).


class GroupTable:
    """The groups of one LFTA on one link.

    Args:
        code: the functions of the kernel's source.

    Attributes:
        words: shape (slots, words); the first word of an unused slot is 0.
        state: counters and bounds; `low.code.aggregation` names their positions.
    """

    def __init__(self, lfta: ops.Lfta, program: NodeProgram, number: int, code: Code, slots: int, flush: Flush) -> None:
        self.words: Int64Array = np.zeros((slots, program.width), np.int64)
        self.times: tuple[Temporal, ...] = tuple(_time(lfta, epoch.column) for epoch in program.epochs)
        self.state: Int64Array = np.zeros(aggregation.BOUNDS + 3 * len(self.times), np.int64)
        self.state[aggregation.EVERY] = flush.every
        self._survey = code[f"survey{number}"]
        self._windows = flush.windows * granularity(self.times)
        self._waits = flush.waits
        self._oldest = END_OF_TIME

    @property
    def alive(self) -> int:
        """The number of groups in the table."""
        return int(self.state[aggregation.ALIVE])

    @property
    def leaving(self) -> int:
        """The number of groups that must leave now."""
        return int(self.state[aggregation.OLD])

    def due(self, promise: int) -> int:
        """Marks the groups that leave at a promise (ns), and returns their number."""
        overdue = promise - self._windows
        if self.alive == 0 or not self.times or (self.state[aggregation.OLDEST] > 0 and self._oldest >= overdue):
            return 0
        self._bound(overdue)
        return self.leaving

    def mark(self, promise: int) -> None:
        """Marks the groups that a promise closes, which collisions and steps may evict (P1)."""
        if self._waits and self.alive:
            self._bound(promise)

    def every(self) -> int:
        """Marks all groups, and returns their number."""
        self.state[aggregation.ALL] = 1
        self.state[aggregation.OLD] = self.alive
        return self.alive

    def emptied(self) -> None:
        """Resets the marks of `every`."""
        self.state[aggregation.ALL] = self.state[aggregation.OLD] = self.state[aggregation.OLDEST] = 0

    def oldest(self) -> int:
        """Returns the least `_last` of the groups (I1); END_OF_TIME without any."""
        if self.alive == 0:
            return END_OF_TIME
        if not self.times:
            return END_OF_TIME - 1
        if self.state[aggregation.OLDEST] <= 0:
            self._count()
        return self._oldest

    def wake(self) -> int:
        """Returns the least promise at which a group leaves without a collision."""
        return self.oldest() + 1 + self._windows

    def _bound(self, instant: int) -> None:
        # The kernel updates the counts with every group that comes or leaves: equal bounds need no new count.
        bounds = self._bounds()
        self._put(0, instant)
        if self.state[aggregation.OLDEST] <= 0 or self._bounds() != bounds:
            self._count()

    def _bounds(self) -> list[int]:
        bounds: list[int] = self.state[aggregation.BOUNDS : aggregation.BOUNDS + len(self.times)].tolist()
        return bounds

    def _count(self) -> None:
        """Counts the groups before the bounds and the groups of the oldest epoch."""
        keys = len(self.times)
        self._survey(self.words, self.state)
        self._oldest = least_last(self.times, self.state[aggregation.BOUNDS + 2 * keys :].tolist())
        self._put(keys, self._oldest + 1)
        if keys > 1:
            self._survey(self.words, self.state)

    def _put(self, at: int, instant: int) -> None:
        """Sets the bounds that the keys of a group precede if its `_last` is below an instant (ns)."""
        for place, time in enumerate(self.times, aggregation.BOUNDS + at):
            self.state[place] = min(max(time.promise(instant), arithmetic.MIN), arithmetic.MAX)


def _time(lfta: ops.Lfta, column: int) -> Temporal:
    time = lfta.fields[column].temporal
    assert time is not None
    return time


def least_last(times: Sequence[Temporal], values: Sequence[int]) -> int:
    """Returns `_last` of a group with these temporal keys, below the end of time (T3)."""
    return min((min(time.last(v), INT64_MAX) for time, v in zip(times, values, strict=True)), default=END_OF_TIME - 1)


# States of users' sub-aggregates (SEMANTICS O2). A group holds a ticket in place of their values: a number that no
# other group of the node has. The code queues the ticket and the arguments of every accepted record. The states are
# updated from the queue before any row of the node is written.


class States:
    """The states of all users' sub-aggregates, for the groups of one node.

    Args:
        queue: the columns of the queue: the ticket, then the argument of each aggregate that has one.
        capacity: the most records in the queue.

    Attributes:
        arrays: arguments of the code, the arrays of the queue.
    """

    def __init__(self, lfta: ops.Lfta, queue: Sequence[OutputColumn], capacity: int) -> None:
        numbered = enumerate(lfta.partials, len(lfta.keys))
        partials = [(number, partial, partial.udaf) for number, partial in numbered if partial.udaf is not None]
        self._columns = [(number, schemas.STREAM_TYPES[partial.type]) for number, partial, _ in partials]
        self._functions = [calls.CheckedAggregate(udaf) for _, _, udaf in partials]
        self._has_argument = [partial.argument is not None for _, partial, _ in partials]
        self._queue = queue
        self._parts = [output.arrays(capacity) for output in queue]
        self.arrays: list[Array] = [array for part in self._parts for array in part]
        self._groups: dict[int, list[Any]] = {}

    def take(self, count: int, texts: Sequence[str]) -> None:
        """Updates the states with the first records of the queue.

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
        written: called to make room.
        slots: the slots of its table; 0 without one.
    """

    ejections = collisions = slots = alive = 0

    def __init__(self, program: NodeProgram, read_from: int, capacity: int) -> None:
        self.state: Int64Array = np.zeros(aggregation.BOUNDS, np.int64)
        self.state[aggregation.FROM] = read_from
        self.rows = RowBuffer(program.outputs, capacity, lasts=not program.width)
        self.written: Callable[[], None] = self.clear

    @property
    def size(self) -> int:
        """The number of rows that are not written yet."""
        return int(self.state[aggregation.SIZE])

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
        """Returns the rows that are not written yet."""
        return self.rows.columns(self.size, texts)

    def settle(self, texts: Sequence[str]) -> int:
        """Updates the states of users' sub-aggregates with the queued records, and returns their number."""
        return 0

    def clear(self) -> None:
        """Drops the rows; readers now own their buffers."""
        self.state[aggregation.SIZE] = 0
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
        """Writes all groups as rows of the tick, so that nothing of earlier packets remains."""
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
        code: the functions of the kernel's source.
    """

    def __init__(
        self, lfta: ops.Lfta, program: NodeProgram, number: int, code: Code, read_from: int, settings: LowSettings
    ) -> None:
        slots = settings.slots or lfta.slots
        self._ordered, self._steps = settings.flush.ordered, settings.flush.steps
        # If order is kept, one record may evict all groups of the table.
        super().__init__(program, read_from, settings.chunk_rows + (slots if self._ordered else 0) + 2)
        self.table = GroupTable(lfta, program, number, code, slots, settings.flush)
        self.slots = slots
        self.table.state[aggregation.FROM] = read_from
        self.state = self.table.state
        self._queue: Int64Array = np.zeros((aggregation.BLOCK, program.key + 2), np.int64)
        self._states = States(lfta, program.taken, self.rows.capacity) if program.taken else None
        self._epochs = tuple(epoch.column for epoch in program.epochs)
        self._release = code[f"release{number}"]

    @property
    def alive(self) -> int:  # type: ignore[override]
        return self.table.alive

    @property
    def ejections(self) -> int:  # type: ignore[override]
        return int(self.state[aggregation.EJECTIONS])

    @property
    def collisions(self) -> int:  # type: ignore[override]
        return int(self.state[aggregation.COLLISIONS])

    @property
    def room(self) -> int:
        free = self.rows.capacity - self.size - (self.table.leaving if self._ordered else 0)
        free = free // 2 if self._steps else free
        return free if self._states is None else min(free, self.rows.capacity - int(self.state[aggregation.TAKEN]))

    @property
    def arguments(self) -> Arguments:
        states = self._states.arrays if self._states is not None else []
        return [self.state, self.table.words, self._queue, *states, *self.rows.arrays]

    def columns(self, texts: Sequence[str]) -> list[pa.Array]:
        columns = super().columns(texts)
        return columns if self._states is None else self._states.leave(columns)

    def settle(self, texts: Sequence[str]) -> int:
        count = int(self.state[aggregation.TAKEN])
        if self._states is not None:
            self._states.take(count, texts)
            self.state[aggregation.TAKEN] = 0
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
            self.state[aggregation.SIZE] = size


# One LFTA on one link

# Host values. A value is computed once for every distinct combination of its arguments, and only for records whose
# outcome it can change.

Flags = npt.NDArray[np.bool_]


_DTYPES: dict[ex.Type, type[np.generic]] = {ex.Type.BOOL: np.bool_, ex.Type.FLOAT: np.float64}


class Host:
    """The host values of one node, and the strings that their numbers stand for.

    Args:
        gate: a condition without which no host value of a record matters; None for none.

    Attributes:
        texts: string of each number; a number keeps its meaning until `forget`.
    """

    def __init__(
        self, hosted: Sequence[ex.Expr], beside: Sequence[str], gate: ex.Expr | None, settings: LowSettings
    ) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._characters = 0
        self._hosted, self._beside, self._gate = hosted, beside, gate
        self._settings = settings
        self._alone: dict[ex.Expr, ExpressionKernel] = {}

    @property
    def needed(self) -> bool:
        """Whether there are host values."""
        return bool(self._hosted)

    @property
    def full(self) -> bool:
        """Whether there are so many strings that they must be forgotten before the next chunk."""
        return len(self.texts) > self._settings.texts or self._characters >> 8 > self._settings.texts

    def forget(self) -> None:
        """Drops all strings; none of their numbers may be in use."""
        self.texts.clear()
        self._numbers.clear()
        self._characters = 0

    def parameters(self, columns: ChunkColumns, ok: Flags) -> list[npt.NDArray[np.generic]]:
        """Computes the columns of host values of a chunk; NULL where they cannot change an outcome.

        Args:
            ok: shape (records), which records are processed.
        """
        if not self.needed:
            return []
        mask = ok.copy()
        if self._gate is not None:
            gate = _Chunk(self, columns).coded(self._gate)
            mask &= np.array([value is True for value in gate.values], np.bool_)[gate.index]
        chunk = _Chunk(self, columns.where(mask))
        arrays: list[npt.NDArray[np.generic]] = []
        for name in self._beside:
            arrays += _spread(chunk.hosted(self._hosted, name), mask)
        return arrays

    def number(self, text: str) -> int:
        """Returns the number of a string, a new one if it has none."""
        at = self._numbers.get(text)
        if at is None:
            at = self._numbers[text] = len(self.texts)
            self.texts.append(text)
            self._characters += len(text)
        return at

    def alone(self, expr: ex.Expr) -> ExpressionKernel:
        """Returns the code that evaluates one expression by itself."""
        if expr not in self._alone:
            self._alone[expr] = ExpressionKernel(expr, self._settings.compiled)
        return self._alone[expr]


def gate_of(member: ex.Expr | None, predicate: ex.Expr | None, link: str) -> ex.Expr | None:
    """Returns the condition without which no host value of a record matters; None for none.

    Conjuncts that the kernel computes are enough, as long as no other one can fail, since failures are counted (A1).

    Args:
        member: the condition of the protocol; None for all packets.
        predicate: the predicate of the LFTA; None for none.
    """
    members = ex.conjuncts(None if member is None else of_link(member, link))
    parts = ex.conjuncts(None if predicate is None else of_link(predicate, link))
    plain = [part for part in parts if not any(is_hosted(node) for node in ex.walk(part))]
    others = (node for part in parts for node in ex.walk(part))
    infallible = not any(isinstance(node, ex.Call) and (node.function.partial or _is_users(node)) for node in others)
    return ex.conjunction(members + (plain if infallible else []))


def _is_users(call: ex.Call) -> bool:
    return call.function.origin != "built-in"


def _spread(pair: Pair, mask: Flags) -> Pair:
    """Puts the values of selected records at their positions in the chunk."""
    if mask.all():
        return pair
    values, valid = np.zeros(len(mask), pair[0].dtype), np.zeros(len(mask), np.bool_)
    values[mask], valid[mask] = pair
    return values, valid


class _Chunk:
    """The host values of some records; each is computed once."""

    def __init__(self, host: Host, columns: ChunkColumns) -> None:
        self._host = host
        self._columns = columns
        self._coded: dict[ex.Expr, calls.DictionaryColumn] = {}
        self._pairs: dict[tuple[ex.Expr, str], Pair] = {}

    def hosted(self, hosted: Sequence[ex.Expr], name: str) -> Pair:
        """Returns the column `<k>.<part>` of host values."""
        number, _, part = name.partition(".")
        expr = hosted[int(number)]
        if (expr, part) not in self._pairs:
            self._pairs[expr, part] = self._pair(expr, part)
        return self._pairs[expr, part]

    def _pair(self, expr: ex.Expr, part: str) -> Pair:
        coded = self.coded(expr)
        if part == "failed":
            failed = np.array(coded.failed or [False] * len(coded.values), np.bool_)[coded.index]
            return failed, np.ones(len(failed), np.bool_)
        valid = np.array([value is not None for value in coded.values], np.bool_)
        words = [0 if value is None else self._word(expr.type, value, int(part)) for value in coded.values]
        return np.array(words, _DTYPES.get(expr.type, np.int64))[coded.index], valid[coded.index]

    def _word(self, kind: ex.Type, value: object, part: int) -> object:
        if kind is ex.Type.STRING:
            return self._host.number(str(value))
        return words_from_ip(value)[part] if isinstance(value, bytes) else value

    def coded(self, expr: ex.Expr) -> calls.DictionaryColumn:
        """Returns any expression over the records, dictionary-encoded."""
        if expr not in self._coded:
            self._coded[expr] = self._evaluate(expr)
        return self._coded[expr]

    def _evaluate(self, expr: ex.Expr) -> calls.DictionaryColumn:
        rows = self._columns.rows
        if isinstance(expr, ex.Const):
            value = float(expr.value) if expr.type is ex.Type.FLOAT and isinstance(expr.value, int) else expr.value
            return calls.DictionaryColumn.constant(value, rows)
        if isinstance(expr, ex.Column):
            return self._columns.coded(expr.name)
        if not is_hosted(expr):
            return self._from_kernel(expr)
        arguments = [self.coded(argument) for argument in expr.children()]
        if isinstance(expr, ex.Call):
            return calls.call_function(expr.function, arguments, rows)
        if isinstance(expr, ex.Unary):
            (operand,) = arguments
            return calls.DictionaryColumn([value is None for value in operand.values], operand.index, operand.failed)
        if isinstance(expr, ex.OneOf):
            return calls.apply_python(expr.holds(), arguments, rows)
        if isinstance(expr, ex.Binary):
            return calls.apply_python(ex.COMPARE[expr.op], arguments, rows)
        raise TypeError(type(expr).__name__)

    def _from_kernel(self, expr: ex.Expr) -> calls.DictionaryColumn:
        alone = self._host.alone(expr)
        beside = [part for name in alone.beside for part in self.hosted(alone.hosted, name)]
        return calls.DictionaryColumn.of(alone.of(self._columns, beside, self._host.texts))


Write = Callable[[str, pa.RecordBatch], None]


class LftaNode:
    """One LFTA on a link.

    Args:
        code: the functions of the kernel's source.
        bounds: the records that the run reads and owns, ns since the epoch.

    Attributes:
        lowest: the first timestamp that it may process, ns.
    """

    def __init__(
        self,
        lfta: ops.Lfta,
        link: str,
        program: NodeProgram,
        number: int,
        code: Code,
        bounds: Bounds,
        settings: LowSettings,
        write: Write,
    ) -> None:
        self.lfta = lfta
        self._bounds, self._settings, self._write = bounds, settings, write
        self._read_from = bounds.read_from[lfta.name]
        self.lowest = self._read_from - settings.skew if lfta.arrival else self._read_from
        gate = gate_of(lfta.member, lfta.predicate, link) if program.hosted else None
        self._host = Host(program.hosted, program.beside, gate, settings)
        self._beside: list[npt.NDArray[np.generic]] = []
        self.operator: LftaOperator
        if lfta.aggregates:
            self.operator = LftaAggregation(lfta, program, number, code, self._read_from, settings)
        else:
            self.operator = LftaSelection(program, self._read_from, settings.chunk_rows)
        self.operator.written = self._emit
        grain = bounds.grains.get(lfta.name, 1)
        self.beats = heartbeat.Heartbeats(lfta, settings, self._read_from, bounds.end, grain, bounds.entered)
        self._rows = self._punctuations = 0

    @property
    def arguments(self) -> list[Any]:
        """The arguments of the kernel for this node."""
        return [*self.operator.arguments, *self._beside]

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """Rows, punctuations, ejections and collisions so far."""
        operator = self.operator
        rows, punctuations = self._rows + operator.size, self._punctuations + len(self.beats.pending)
        return rows, punctuations, operator.ejections, operator.collisions

    def begin(self, columns: ChunkColumns, stamps: Int64Array, arrivals: Int64Array, seen: int) -> None:
        """Computes the host values of a chunk.

        Args:
            stamps: timestamps of the records, ns since the epoch; shape (n).
            arrivals: the link's clock at each record, ns; shape (n).
            seen: the link's clock before the chunk, ns; negative for none.
        """
        if not self._host.needed:
            return
        if self._host.full and seen >= 0:
            self._emit()
            self._evict_all(seen)
            self._emit()
            self._host.forget()
        skew = self._settings.skew if self._settings.skews is None else columns.pair(OWN_SKEW)[0].astype(np.int64)
        ok = ~is_late(arrivals, stamps, skew) & (stamps >= self.lowest) & (stamps < self._bounds.end)
        if self.lfta.whole:  # late records are rows too
            ok = (arrivals >= self._read_from) & (arrivals < self._bounds.end)
        self._beside = self._host.parameters(columns, ok)

    def room(self, records: int) -> int:
        """Returns how many records can be processed before rows must be written; at least one."""
        if self.operator.room < min(records, self.operator.rows.capacity // 4 + 1):
            self._emit()
        return self.operator.room

    def close(self, seen: int) -> LftaStatistics:
        """Flushes, promises the end of the run or the clock of the next chunk (P2), and writes the remaining rows."""
        if self._bounds.left is None:
            self.beats.close(seen, self.operator)
        else:
            self._evict_all(seen)
            self.beats.advance(self._bounds.left, seen, self.operator)
        self._emit(last=True)
        return LftaStatistics(self.lfta.name, *self.totals)

    def _evict_all(self, seen: int) -> None:
        self.operator.state[aggregation.EJECTIONS] += self.operator.finish(self.beats.after(seen))

    def _emit(self, last: bool = False) -> None:
        operator = self.operator
        operator.settle(self._host.texts)
        size = operator.size
        punctuations = self.beats.take(size, last)
        self._rows += size
        self._punctuations += len(punctuations)
        if size:
            columns = operator.columns(self._host.texts)
            rows = heartbeat.rows_batch(self.lfta, columns, operator.rows.clock(0, size), operator.lasts())
            operator.clear()
            self._write(self.lfta.name, rows)
        if punctuations:
            self._write(self.lfta.name, heartbeat.punctuation_batch(self.lfta, punctuations, self._settings.period))
