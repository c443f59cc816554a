"""The two operators of the low level over a chunk of records: selection and aggregation (000 sections 4.3, 4.4).

Between the generated kernels and `low.heartbeat`: the heartbeat cuts a chunk where a promise is due, and the operator
runs the records in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowwater.low.compiler import Kernel
from lowwater.low.kernel import ACCEPTED, COLLISIONS, Program
from lowwater.low.table import Table, lasts_of
from lowwater.plan.nodes import Lfta
from lowwater.plan.temporal import END_OF_TIME

Words = npt.NDArray[np.int64]


@dataclass
class Chunk:
    """Records as a kernel reads them.

    Attributes:
        ok: which are processed: sane and inside the read range.
        arrivals: ns, never decreasing; `stamps` their timestamps.
        columns: parameters of the kernel: values, then validity, of each stored column.
        outcome: what the kernel made of each.
    """

    ok: npt.NDArray[np.bool_]
    arrivals: Words
    stamps: Words
    columns: list[npt.NDArray[np.generic]]
    outcome: npt.NDArray[np.uint8]


class Buffer:
    """Rows of words waiting to be written, with the tick of each."""

    def __init__(self, rows: int, width: int) -> None:
        self.words: Words = np.empty((rows, width), np.int64)
        self.ticks: Words = np.empty(rows, np.int64)
        self.size = 0

    def room(self, rows: int) -> bool:
        return self.size + rows <= len(self.ticks)


class Selection:
    """Rows whose predicate is true, at once; nothing stays alive."""

    ejections = collisions = 0

    def __init__(self, program: Program, kernel: Kernel, period: int, chunk_rows: int) -> None:
        self.buffer = Buffer(2 * chunk_rows, program.width)
        self.most = chunk_rows
        self._lasts: Words = np.empty(2 * chunk_rows, np.int64)
        self._kernel = kernel
        self._period = period
        self._outcome: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def begin(self, chunk: Chunk) -> None:
        """Runs the whole chunk: its rows do not depend on the ticks."""
        buffer = self.buffer
        self._size = buffer.size
        self._outcome = chunk.outcome
        shared = (chunk.ok, chunk.arrivals, self._period, chunk.outcome, buffer.words, buffer.ticks, buffer.size)
        buffer.size = self._kernel(0, len(chunk.ok), *shared, chunk.stamps, self._lasts, *chunk.columns)

    def run(self, begin: int, end: int) -> None:
        self._size += int(np.count_nonzero(self._outcome[begin:end] == ACCEPTED))

    def flush(self, tick: int, promise: int) -> int:
        return END_OF_TIME

    def spill(self, tick: int) -> None:
        """Nothing is kept."""

    def lasts(self) -> Words:
        return self._lasts[: self.buffer.size]

    def clear(self) -> None:
        self.buffer.size = self._size = 0


class Aggregation:
    """Partial groups in a table; those that leave it are rows."""

    def __init__(
        self, lfta: Lfta, program: Program, kernel: Kernel, table: Table, period: int, chunk_rows: int
    ) -> None:
        # Every record adds at most one group to those of the table, and every row was one of them.
        self.most = len(table.words) + chunk_rows
        self.buffer = Buffer(self.most + chunk_rows, program.width)
        self._lfta = lfta
        self._program = program
        self._kernel = kernel
        self._table = table
        self._period = period
        self._chunk: Chunk | None = None

    @property
    def size(self) -> int:
        return self.buffer.size

    @property
    def ejections(self) -> int:
        return self._table.ejections

    @property
    def collisions(self) -> int:
        return int(self._table.counters[COLLISIONS])

    def begin(self, chunk: Chunk) -> None:
        self._chunk = chunk

    def run(self, begin: int, end: int) -> None:
        """Adds records to the table; groups that are ejected become rows of the tick after the record."""
        chunk, buffer = self._chunk, self.buffer
        if chunk is None or begin == end:
            return
        shared = (chunk.ok, chunk.arrivals, self._period, chunk.outcome, buffer.words, buffer.ticks, buffer.size)
        state = (self._table.words, self._table.counters)
        buffer.size = self._kernel(begin, end, *shared, *state, *chunk.columns)

    def flush(self, tick: int, promise: int) -> int:
        """Writes the groups that the promise closes; the least `_last` of those left, END_OF_TIME if none (P2)."""
        rows, alive = self._table.close(promise, self._lfta.fields, self._program.slots)
        self._add(rows, tick)
        return alive

    def spill(self, tick: int) -> None:
        """Writes all groups as they are, so that nothing of the packets so far is kept."""
        self._add(self._table.empty(), tick)

    def _add(self, rows: Words, tick: int) -> None:
        begin, end = self.buffer.size, self.buffer.size + len(rows)
        self.buffer.words[begin:end] = rows
        self.buffer.ticks[begin:end] = tick
        self.buffer.size = end

    def lasts(self) -> Words:
        return lasts_of(self.buffer.words[: self.buffer.size], self._lfta.fields, self._program.slots)

    def clear(self) -> None:
        self.buffer.size = 0
