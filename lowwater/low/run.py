"""One pass over the packets of a link for all LFTAs that read it: the entry of `low`.

Called by `replay` in a Spark worker or in process; `write` receives each LFTA's stream in order of emission. Memory is
bounded by the chunk and the group tables, and grows only by what the result holds (minutes, violations).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.catalog.expr import columns_of
from lowwater.catalog.packets import THINNED_BY, stored
from lowwater.errors import LawError
from lowwater.low.account import MINUTE, Minutes, Violations
from lowwater.low.columns import Columns, numbers
from lowwater.low.compiler import load
from lowwater.low.heartbeat import Heartbeats
from lowwater.low.hosted import Host
from lowwater.low.kernel import generate
from lowwater.low.operators import Aggregation, Chunk, Selection
from lowwater.low.output import interleave, punctuation_batch, rows_batch
from lowwater.low.settings import Bounds, LftaStatistics, LinkResult, LowSettings
from lowwater.low.table import Table
from lowwater.plan.nodes import Lfta

Write = Callable[[str, pa.RecordBatch], None]

IDENTITY = ("capture", "position", "timestamp", "arrival")


def needed_columns(lftas: Sequence[Lfta], shed: bool = False) -> list[str]:
    """The columns of `packets/` that a pass for these LFTAs reads: identity, clock, then what the expressions use.

    Args:
        lftas: the nodes.
        shed: whether some packets are shed on the link, so that it is read what packets are chosen by (O5).
    """
    names: dict[str, None] = dict.fromkeys(IDENTITY)
    for lfta in lftas:
        items = [item.expr for item in lfta.keys]
        used = columns_of(lfta.member, lfta.predicate, *items, *(part.argument for part in lfta.partials))
        names.update(dict.fromkeys(stored(used)))
        names.update(dict.fromkeys(THINNED_BY if shed or lfta.sample else ()))
    return list(names)


def run_link(
    lftas: Sequence[Lfta],
    link: str,
    batches: Iterable[pa.RecordBatch],
    bounds: Bounds,
    settings: LowSettings,
    write: Write,
) -> LinkResult:
    """Runs LFTAs over one link's records (000 section 4; SEMANTICS T2, T4, P2, A1).

    Args:
        lftas: the nodes that read the link.
        link: its name, the value of `interface`.
        batches: its records in canonical order (T1) with the columns of `needed_columns`; `arrival` never decreases.
        bounds: read ranges and owned interval, ns.
        settings: of the run.
        write: takes the name of an LFTA and the next rows of its stream, in order of `_tick`.

    Returns:
        The accounting of the pass; picklable.

    Raises:
        UnsupportedError: if an expression cannot run at the low level.
        LowwaterError: if a column is missing.
        LawError: if arrivals decrease.
    """
    states = [_Node(lfta, link, bounds, settings, write) for lfta in lftas]
    violations = Violations(bounds.start, bounds.end)
    clock = 0
    for batch in _chunks(batches, settings.chunk_rows):
        stamps, arrivals = numbers(batch, "timestamp", link), numbers(batch, "arrival", link)
        if arrivals[0] < clock or np.any(arrivals[1:] < arrivals[:-1]):
            raise LawError(f"records of link '{link}' are not in order of arrival", "sort its captures as T1 says")
        clock = int(arrivals[-1])
        late = arrivals - stamps > settings.skew
        owned = ~late & (stamps >= bounds.start) & (stamps < bounds.end)
        violations.add(batch, late, owned, arrivals)
        minutes = stamps // MINUTE
        columns = Columns(batch, link)
        for state in states:
            ok = ~late & (stamps >= state.read_from) & (stamps < bounds.end)
            state.add(columns, stamps, arrivals, ok, minutes, owned)
    statistics = tuple(state.close() for state in states)
    tables = [state.minutes.table(state.lfta.name) for state in states]
    late_ones = violations.table()
    counted = pa.concat_tables(tables) if tables else Minutes().table("")
    return LinkResult(link, violations.sane, len(late_ones), statistics, counted, late_ones)


def _chunks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for begin in range(0, len(batch), rows):
            yield batch.slice(begin, rows)


class _Node:
    """One LFTA on the link: operator, heartbeats, accounting, output."""

    def __init__(self, lfta: Lfta, link: str, bounds: Bounds, settings: LowSettings, write: Write) -> None:
        self.lfta = lfta
        self.read_from = bounds.read_from[lfta.name]
        self.minutes = Minutes()
        self._settings = settings
        self._write = write
        self._program = generate(lfta, link)
        kernel = load(self._program, settings.compiled)
        self._host = Host(lfta, self._program, link, settings)
        self._operator: Selection | Aggregation
        if lfta.aggregates:
            table = Table(settings.slots or lfta.slots, self._program.width)
            sizes = (settings.period, settings.chunk_rows)
            self._operator = Aggregation(lfta, self._program, kernel, table, *sizes)
        else:
            self._operator = Selection(self._program, kernel, settings.period, settings.chunk_rows)
        self._beats = Heartbeats(lfta, settings, self.read_from, bounds.end)
        self._rows = self._punctuations = 0

    def add(
        self,
        columns: Columns,
        stamps: npt.NDArray[np.int64],
        arrivals: npt.NDArray[np.int64],
        ok: npt.NDArray[np.bool_],
        minutes: npt.NDArray[np.int64],
        owned: npt.NDArray[np.bool_],
    ) -> None:
        """Runs a chunk, cut where a promise is due."""
        if not ok.any():
            return
        # Clocks behind the last processed record say nothing that the close does not say.
        count = len(ok) - int(np.argmax(ok[::-1]))
        outcome = np.zeros(len(ok), np.uint8)
        operator, beats, arrivals = self._operator, self._beats, arrivals[:count]
        if not operator.buffer.room(operator.most):
            self._emit(last=False)
        if self._host.full and beats.seen is not None:
            self._emit(last=False)
            operator.spill(beats.after(beats.seen))
            self._emit(last=False)
            self._host.forget()
        parameters = self._host.parameters(columns, ok)
        operator.begin(Chunk(ok[:count], arrivals, stamps, parameters, outcome))
        begin = 0
        while begin < count:
            end = beats.next(arrivals, begin)
            operator.run(begin, end)
            if end > 0:
                beats.seen = int(arrivals[end - 1]) if end > begin or beats.seen is None else beats.seen
            if end < count:
                beats.advance(int(arrivals[end]), operator)
            begin = end
        self.minutes.add(minutes, outcome, owned)

    def close(self) -> LftaStatistics:
        """Flushes, promises the end of the run and writes what is left."""
        self._beats.close(self._operator)
        self._emit(last=True)
        operator = self._operator
        return LftaStatistics(self.lfta.name, self._rows, self._punctuations, operator.ejections, operator.collisions)

    def _emit(self, last: bool) -> None:
        operator, buffer = self._operator, self._operator.buffer
        made = self._beats.take(buffer.size, last)
        # Copied, because the buffer is used again and Arrow shares what it is given.
        words, ticks = buffer.words[: buffer.size], buffer.ticks[: buffer.size].copy()
        lasts, texts = operator.lasts().copy(), self._host.texts
        rows = rows_batch(self.lfta, self._program.slots, words, lasts, ticks, texts)
        batch = rows
        if made:
            promises = punctuation_batch(self.lfta, made, self._settings.period)
            batch = interleave(rows, promises, [one.before for one in made]) if len(rows) else promises
        self._rows += len(rows)
        self._punctuations += len(made)
        operator.clear()
        if len(batch):
            self._write(self.lfta.name, batch)
