"""One LFTA on one link: its operator, its heartbeats, its host values, and the stream of its rows.

Between the pass of `low.run` and the writer of the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.low.arrays import Int64Array
from lowwater.low.code.compiler import Code
from lowwater.low.code.eviction import EJECTIONS
from lowwater.low.code.expressions import OWN_SKEW
from lowwater.low.code.kernel import NodeProgram
from lowwater.low.runtime.chunk_columns import ChunkColumns
from lowwater.low.runtime.heartbeat import Heartbeats
from lowwater.low.runtime.host_columns import Host, gate_of
from lowwater.low.runtime.lfta_operators import LftaAggregation, LftaOperator, LftaSelection
from lowwater.low.runtime.output import in_order, punctuation_batch, rows_batch
from lowwater.low.settings import Bounds, LftaStatistics, LowSettings
from lowwater.plan.operators import Lfta

Write = Callable[[str, pa.RecordBatch], None]


class LftaNode:
    """One LFTA on a link.

    Args:
        lfta: the LFTA.
        link: the name of the link.
        program: the inputs and outputs of its code.
        number: the number of the node in the kernel.
        code: the functions of the kernel's source.
        bounds: the records that the run reads and owns, ns since the epoch.
        settings: the settings of the run.
        write: receives the next rows of its stream.

    Attributes:
        operator: the selection or aggregation.
        beats: its promises.
        lowest: the first timestamp that it may process, ns.
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
        self.operator: LftaOperator
        if lfta.aggregates:
            self.operator = LftaAggregation(lfta, program, number, code, self._read_from, settings)
        else:
            self.operator = LftaSelection(program, self._read_from, settings.chunk_rows)
        self.operator.written = self._emit
        grain = bounds.grains.get(lfta.name, 1)
        self.beats = Heartbeats(lfta, settings, self._read_from, bounds.end, grain, bounds.entered)
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
            columns: the columns of the chunk.
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
        ok = (arrivals - stamps <= skew) & (stamps >= self.lowest) & (stamps < self._bounds.end)
        if self.lfta.whole:  # late records are rows too
            ok = (arrivals >= self._read_from) & (arrivals < self._bounds.end)
        self._beside = self._host.parameters(columns, ok)

    def room(self, records: int) -> int:
        """Returns how many records can be processed before rows must be written; at least one.

        Args:
            records: the number of records that the pass has left.
        """
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
        self.operator.state[EJECTIONS] += self.operator.finish(self.beats.after(seen))

    def _emit(self, last: bool = False) -> None:
        operator = self.operator
        operator.settle(self._host.texts)
        size = operator.size
        punctuations = self.beats.take(size, last)
        self._rows += size
        self._punctuations += len(punctuations)
        if size:
            columns = operator.columns(self._host.texts)
            rows = rows_batch(self.lfta, columns, operator.rows.clock(0, size), operator.lasts())
            operator.clear()
        if punctuations:
            promises = punctuation_batch(self.lfta, punctuations, self._settings.period)
            before = [punctuation.before for punctuation in punctuations]
            for batch in in_order(rows, promises, before) if size else [promises]:
                self._write(self.lfta.name, batch)
        elif size:
            self._write(self.lfta.name, rows)
