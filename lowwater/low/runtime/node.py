"""One LFTA on one link: its operator, its heartbeats, the values beside its code, and where its rows go.

Between the pass of `low.run` and the stream's writer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.low.code.compiler import Code
from lowwater.low.code.eviction import EJECTIONS
from lowwater.low.code.expressions import OWN_SKEW
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.runtime.columns import Columns
from lowwater.low.runtime.heartbeat import Heartbeats
from lowwater.low.runtime.hosted import Host, gate_of
from lowwater.low.runtime.operators import Aggregation, Operator, Selection
from lowwater.low.runtime.output import in_order, punctuation_batch, rows_batch
from lowwater.low.settings import Bounds, LftaStatistics, LowSettings
from lowwater.plan.operators import Lfta

Write = Callable[[str, pa.RecordBatch], None]
Words = npt.NDArray[np.int64]


class Node:
    """One LFTA on the link.

    Args:
        lfta: the node.
        link: its name.
        program: what its code reads and writes.
        number: the number of the node in the kernel.
        code: functions of the kernel's source.
        bounds: which records the run reads and owns, ns since the epoch.
        settings: the settings of the run.
        write: takes the next rows of its stream.

    Attributes:
        operator: selection or aggregation.
        beats: its promises.
        lowest: timestamp of the first record that it may take.
    """

    def __init__(
        self,
        lfta: Lfta,
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
        self.operator: Operator
        if lfta.aggregates:
            self.operator = Aggregation(lfta, program, number, code, self._read_from, settings)
        else:
            self.operator = Selection(program, self._read_from, settings.chunk_rows)
        self.operator.written = self._emit
        grain = bounds.grains.get(lfta.name, 1)
        self.beats = Heartbeats(lfta, settings, self._read_from, bounds.end, grain, bounds.entered)
        self._rows = self._punctuations = 0

    @property
    def arguments(self) -> list[Any]:
        """What the kernel takes of the node."""
        return [*self.operator.arguments, *self._beside]

    @property
    def totals(self) -> tuple[int, int, int, int]:
        """Rows out, punctuations, ejections and collisions so far."""
        operator = self.operator
        rows, punctuations = self._rows + operator.size, self._punctuations + len(self.beats.made)
        return rows, punctuations, operator.ejections, operator.collisions

    def begin(self, columns: Columns, stamps: Words, arrivals: Words, seen: int) -> None:
        """Computes what the code reads of a chunk besides its columns; `seen` is the last clock before it.

        Args:
            columns: packet columns of the chunk.
            stamps: timestamps of the n records, ns since the epoch; shape (n).
            arrivals: clock of the link at each record, ns; shape (n).
            seen: the clock before the chunk, ns; negative where there is none.
        """
        if not self._host.needed:
            return
        if self._host.full and seen >= 0:
            self._emit()
            self._let_all_go(seen)
            self._emit()
            self._host.forget()
        skew = self._settings.skew if self._settings.skews is None else columns.pair(OWN_SKEW)[0].astype(np.int64)
        ok = (arrivals - stamps <= skew) & (stamps >= self.lowest) & (stamps < self._bounds.end)
        self._beside = self._host.parameters(columns, ok)

    def room(self, wanted: int) -> int:
        """How many of some records can be processed before rows are written; at least one."""
        if self.operator.room < min(wanted, self.operator.rows.capacity // 4 + 1):
            self._emit()
        return self.operator.room

    def close(self, seen: int) -> LftaStatistics:
        """Flushes, promises the end of the run, or the clock where the link goes on (P2), and writes what is left."""
        if self._bounds.left is None:
            self.beats.close(seen, self.operator)
        else:
            self._let_all_go(seen)
            self.beats.advance(self._bounds.left, seen, self.operator)
        self._emit(last=True)
        return LftaStatistics(self.lfta.name, *self.totals)

    def _let_all_go(self, seen: int) -> None:
        self.operator.state[EJECTIONS] += self.operator.finish(self.beats.after(seen))

    def _emit(self, last: bool = False) -> None:
        operator = self.operator
        operator.settle(self._host.texts)
        size = operator.size
        made = self.beats.take(size, last)
        self._rows += size
        self._punctuations += len(made)
        if size:
            columns = operator.columns(self._host.texts)
            rows = rows_batch(self.lfta, columns, operator.rows.clock(0, size), operator.lasts())
            operator.clear()
        if made:
            promises = punctuation_batch(self.lfta, made, self._settings.period)
            before = [one.before for one in made]
            for batch in in_order(rows, promises, before) if size else [promises]:
                self._write(self.lfta.name, batch)
        elif size:
            self._write(self.lfta.name, rows)
