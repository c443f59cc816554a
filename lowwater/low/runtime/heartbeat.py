"""The heartbeats of an LFTA: when it makes promises, and which (000 section 4; SEMANTICS T2, T4, P1, P2, P5).

Above `low.runtime.node`, which know the groups that are still alive. A tick h of an ordered clock promises
h - skew: the tick comes before the records of its instant, and those are at most `skew` late.
By arrival it promises h. A delay of the link makes promises later, as a larger skew does, but late records stay late.
A punctuation is made only if it changes a promised field. Ticks without a row between them are stored as one lull.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa

from lowwater.catalog.schemas import PUNCTUATION, ROW
from lowwater.catalog.time import clock_of, promise_at, tick_after, tick_from
from lowwater.low.code.row_buffers import Int64Array
from lowwater.low.settings import LowSettings, Policy
from lowwater.plan import operators as ops, properties, temporal

NEVER = temporal.INT64_MAX


@dataclass
class PunctuationRun:
    """A promise, or a lull of promises that grow by the period (T4).

    Attributes:
        before: the number of rows of the output that precede it.
        promise: the promise at `tick`, ns.
        tick: the first tick, ns.
        until: the last tick, ns; equal to `tick` for one promise.
    """

    before: int
    promise: int
    tick: int
    until: int


class FlushTarget(Protocol):
    """The methods of an LFTA's operator that heartbeats call."""

    @property
    def size(self) -> int:
        """The number of rows of the output so far."""

    def flush(self, tick: int, promise: int) -> int:
        """Writes the groups that leave at a promise as rows of the tick.

        Returns:
            The least `_last` of the groups that stay.
        """

    def wake(self) -> int:
        """Returns the least promise at which another group leaves, even if no record comes."""

    def finish(self, tick: int) -> int:
        """Writes all groups as rows of the tick, and returns their number."""


class Heartbeats:
    """The promises of one LFTA.

    Args:
        end: the end of the run, ns.
        grain: clock time between two promises that a reader can use, ns.
        entered: the link's clock up to which an earlier chunk made the promises; -1 for none.

    Attributes:
        due: arrival of the first record that must not be processed before `advance`.
    """

    def __init__(
        self, lfta: ops.Lfta, settings: LowSettings, read_from: int, end: int, grain: int = 1, entered: int = -1
    ) -> None:
        self._times = ops.clocks(lfta.fields)
        # Each component by itself: the least promise at which a field has a value is that of its last component.
        self._components = [(time, [temporal.Temporal((steps,)) for steps in time.components]) for time in self._times]
        self._skew, self._delay = 0 if lfta.arrival else settings.skew, settings.delay
        self._period = settings.period
        self._policy = settings.policy
        self._end = end
        self._grain = grain
        self._tick = entered // settings.period * settings.period
        self._change = self._next_change(read_from)
        self.pending: list[PunctuationRun] = []
        self.due = self._due(entered)

    def after(self, instant: int) -> int:
        """Returns the first tick after an instant, the `_tick` of rows that it emits."""
        return tick_after(instant, self._period)

    def advance(self, clock: int, seen: int, operator: FlushTarget) -> None:
        """Makes the promises of the due ticks.

        Args:
            clock: the clock up to which ticks are due, inclusive.
            seen: the last clock before it.
        """
        if self._policy is Policy.PERIODIC:
            self._lull(min(clock, self._clock_of(self._end) - 1), operator)
        elif self._policy is Policy.DATA_DRIVEN:
            self._follow(clock, seen, operator)
        self.due = self._due(clock)

    def close(self, seen: int, operator: FlushTarget) -> None:
        """Makes the promises that are due after the last record, then flushes all groups and promises the end (T6).

        Args:
            seen: the largest arrival that was processed; -1 for none.
        """
        bounded = self._end < temporal.END_OF_TIME
        if bounded and self._policy is Policy.PERIODIC and self.due < self._end:
            self._lull(self._end - 1, operator)
        elif bounded and self._policy is Policy.DATA_DRIVEN:
            self._follow(self._end - 1, seen, operator)
        tick = 0 if seen < 0 else self.after(seen)
        tick = max(tick, self._end) if bounded else tick
        operator.finish(tick)
        self.pending.append(PunctuationRun(operator.size, self._end, tick, tick))

    def take(self, size: int, last: bool) -> list[PunctuationRun]:
        """Removes and returns the punctuations before `size` rows. Unless `last`, a lull that may still grow stays."""
        keep = 1 if self.pending and not last and self.pending[-1].before == size else 0
        ready, self.pending = self.pending[: len(self.pending) - keep], self.pending[len(self.pending) - keep :]
        for punctuation in self.pending:
            punctuation.before = 0
        return ready

    def _promise_at(self, clock: int) -> int:
        return promise_at(clock, self._skew, self._delay)

    def _clock_of(self, promise: int) -> int:
        return clock_of(promise, self._skew, self._delay)

    def _due(self, clock: int) -> int:
        """Returns when the next promise is due, once everything up to a clock is done."""
        if self._change >= self._end or self._policy is Policy.NONE:
            return NEVER
        if self._policy is Policy.PERIODIC:
            tick = self._tick_of(self._change)
            return tick if self._promise_at(tick) < self._end else NEVER
        if self._promise_at(clock) >= self._end:
            return NEVER
        # A record that allows a higher promise is followed by it at the next tick.
        return self.after(clock) if self._promise_at(clock) >= self._change else self._clock_of(self._change)

    def _follow(self, clock: int, seen: int, operator: FlushTarget) -> None:
        """Makes the promise that the last record allows, at the tick after it, unless that is after the clock."""
        if self._change <= self._promise_at(seen) < self._end and self.after(seen) <= clock:
            self._make(self.after(seen), self._promise_at(seen), operator)

    def _tick_of(self, promise: int) -> int:
        """Returns the first tick, after the last one done, with at least this promise."""
        return max(tick_from(self._clock_of(promise), self._period), self._tick + self._period)

    def _next_change(self, promise: int) -> int:
        """Returns the least promise that changes a field, of the promises that readers can use."""
        change = min((time.last(time.promise(promise)) for time in self._times), default=promise) + 1
        return max(change, (promise // self._grain + 1) * self._grain)

    def _make(self, tick: int, promise: int, operator: FlushTarget) -> int:
        """Makes one tick: flushes, then promises as much as the remaining groups allow (P2)."""
        alive = operator.flush(tick, promise)
        self._tick = tick
        self._append(min(promise, alive), tick, operator.size)
        return alive

    def _lull(self, clock: int, operator: FlushTarget) -> None:
        last = clock // self._period * self._period
        while self._change < self._end and (tick := self._tick_of(self._change)) <= last:
            alive = self._make(tick, self._promise_at(tick), operator)
            # Until the next group leaves, only the promise itself changes, for any number of ticks.
            quiet = min(last, self._tick_of(operator.wake()) - self._period)
            if alive < self._promise_at(tick):
                self._tick = max(tick, quiet)
                continue
            quiet = min(quiet, self._tick_of(alive + 1) - self._period)
            if quiet <= tick:
                continue
            promise = self._least_equal(self._promise_at(quiet))
            if promise > self._promise_at(tick):
                self._tick = self._tick_of(promise)
                self._append(self._promise_at(self._tick), self._tick, operator.size)

    def _least_equal(self, promise: int) -> int:
        """Returns the least promise with the same value in every field."""
        firsts = [part.first(time.promise(promise)) for time, parts in self._components for part in parts]
        return min(max(firsts, default=promise), promise // self._grain * self._grain)

    def _append(self, promise: int, tick: int, size: int) -> None:
        if promise < self._change:
            return
        self._change = self._next_change(promise)
        last = self.pending[-1] if self.pending else None
        grows = last is not None and last.before == size and promise - last.promise == tick - last.tick
        if last is not None and grows and self._policy is Policy.PERIODIC:
            last.until = tick
        else:
            self.pending.append(PunctuationRun(size, promise, tick, tick))


# Batches of rows and promises


@lru_cache(maxsize=8)
def _constants(rows: int) -> tuple[pa.Array, pa.Array]:
    """Returns the columns `_kind` and `_period` of rows, which all batches share."""
    return pa.repeat(pa.scalar(ROW), rows), pa.array(np.zeros(rows, np.int64))


def rows_batch(lfta: ops.Lfta, columns: Sequence[pa.Array], clocks: Int64Array, lasts: Int64Array) -> pa.RecordBatch:
    """Returns rows of an LFTA as a stream batch, without a copy.

    Args:
        columns: the columns of its operator; the batch then owns their buffers.
        clocks: shape (rows), the tick of each row, ns.
        lasts: shape (rows), `_last` of each row, ns.
    """
    size = len(clocks)
    kind, period = (array.slice(0, size) for array in _constants(1 << max(size - 1, 0).bit_length()))
    ticks = _int64_array(clocks)
    control = [_int64_array(lasts), kind, ticks, ticks, period]
    return pa.record_batch([*columns, *control], schema=properties.stream_schema(lfta.fields))


def _int64_array(values: Int64Array) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def punctuation_batch(lfta: ops.Lfta, punctuations: list[PunctuationRun], period: int) -> pa.RecordBatch:
    """Returns punctuations as a stream batch: promised columns have values, the others are NULL (P5).

    Args:
        period: time between ticks, ns.
    """
    schema = properties.stream_schema(lfta.fields)
    promised = [lfta.promises(punctuation.promise) for punctuation in punctuations]
    columns = [[row[at] for row in promised] for at in range(len(lfta.fields))]
    columns.append([punctuation.promise for punctuation in punctuations])
    control = [
        pa.repeat(pa.scalar(PUNCTUATION), len(punctuations)),
        pa.array([punctuation.tick for punctuation in punctuations], pa.int64()),
        pa.array([punctuation.until for punctuation in punctuations], pa.int64()),
        pa.array([period if punctuation.until > punctuation.tick else 0 for punctuation in punctuations], pa.int64()),
    ]
    values = [pa.array(column, schema.field(at).type) for at, column in enumerate(columns)]
    return pa.record_batch([*values, *control], schema=schema)
