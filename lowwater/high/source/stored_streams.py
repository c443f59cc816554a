"""What is stored behind each leaf of a plan, and the instants at which its sources promise.

Runs on the driver, before the slices: between the files of `lfta/` (or of a part) and the tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, LAST, ROW, TICK
from lowwater.errors import LowwaterError
from lowwater.high.slices.slice_choice import ROW_COUNT_UNIT
from lowwater.high.source.row_groups import Chunk
from lowwater.high.timeline import Instants, Promise, Timeline, grid
from lowwater.plan.temporal import END_OF_TIME


@dataclass
class StoredStream:
    """The stored stream behind one source: one LFTA on one link, or one part of a cut plan.

    Attributes:
        chunks: row groups with data rows.
        promises: punctuation rows.
        rows: how many data rows; `stored` with the punctuation rows.
        tick: the instant (ns) of the first data row; meaningless without any.
        ends: how many there are by the GRAIN of time in which their `_last` lies.
        latest: instant (ns) of the last emission; below every instant where there is none.
    """

    chunks: list[Chunk] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    rows: int = 0
    stored: int = 0
    tick: int = END_OF_TIME
    ends: Counter[int] = field(default_factory=Counter)
    latest: int = -END_OF_TIME

    @classmethod
    def scan(cls, files: Iterable[str]) -> StoredStream:
        """Reads the control columns of the files.

        Raises:
            LowwaterError: if a file cannot be read.
        """
        feed = cls()
        for file in files:
            try:
                with pq.ParquetFile(file) as stored:
                    for group in range(stored.num_row_groups):
                        feed._take(file, group, stored)
            except (OSError, ValueError, KeyError) as error:
                raise LowwaterError(
                    f"cannot read the stored stream {file}: {error}", "run the low stage again"
                ) from error
        return feed

    def _take(self, file: str, group: int, stored: pq.ParquetFile) -> None:
        table = stored.read_row_group(group, columns=CONTROL.names)
        if table.num_rows:
            self.latest = max(self.latest, pc.max(table[TICK]).as_py())
        is_row = pc.equal(table["_kind"], ROW)
        marks = table.filter(pc.invert(is_row))
        columns = [marks[name].to_pylist() for name in (TICK, "_until", "_period", LAST)]
        self.promises += [Promise(*values) for values in zip(*columns, strict=True)]
        rows = table.filter(is_row)
        if rows.num_rows:
            last = rows[LAST].to_numpy()
            ends, counts = np.unique(last // ROW_COUNT_UNIT, return_counts=True)
            self.ends.update(dict(zip(ends.tolist(), counts.tolist(), strict=True)))
            self.chunks.append(Chunk(file, group, int(last.min()), int(last.max()), self.stored))
            self.rows += rows.num_rows
            self.tick = min(self.tick, pc.min(rows[TICK]).as_py())
        self.stored += table.num_rows

    def promised(self, instants: Instants) -> Instants:
        """The highest promise (ns) of any punctuation up to each instant; below every one where there is none."""
        highest_at = np.full(len(instants), -END_OF_TIME, np.int64)
        for promise in self.promises:
            begin = int(np.searchsorted(instants, promise.first))
            # One instant more than its ticks has what it said last.
            part = slice(begin, int(np.searchsorted(instants, promise.until, side="right")) + 1)
            highest_at[part] = np.maximum(highest_at[part], promise.at(instants[part]))
        highest: Instants = np.maximum.accumulate(highest_at)
        return highest


@dataclass(frozen=True)
class Replay:
    """How the sources of one query advance.

    Attributes:
        closing: the last instant (ns), at which all of time is promised.
        instants: the ticks up to it, ns.
    """

    closing: int
    instants: Instants

    @classmethod
    def over(cls, feeds: Sequence[StoredStream], end: int, step: int, start: int | None = None) -> Replay:
        """The replay of a query that reads these feeds.

        Args:
            feeds: at least one has rows, or there is a start.
            end: end of the interval, ns; the replay closes there, or at the last emission if that is later or `end` is
                the end of time.
            step: the replay tick, ns.
            start: `_last` (ns) of the first row that may come out of a state that was handed over.
        """
        closing = max(end if end < END_OF_TIME else -END_OF_TIME, *(feed.latest for feed in feeds))
        starts = [] if start is None else [start]
        # Before the first there is nothing that a promise could let go.
        first = min([*starts, *(feed.tick for feed in feeds if feed.rows)], default=closing)
        return cls(closing, grid(first, closing, step))

    def promised(self, feeds: Sequence[StoredStream]) -> Instants:
        """What one source with these feeds promises at each instant: what all of them do (P3), at last all time."""
        least: Instants = np.min([feed.promised(self.instants) for feed in feeds], axis=0)
        least[-1] = END_OF_TIME
        return least

    def timeline(self, promised: Sequence[Instants]) -> Timeline:
        """What the output of the query promises: what each source does, since a row is final by that (I1, P4)."""
        return Timeline.of(self.instants, np.min(promised, axis=0))
