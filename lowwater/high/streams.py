"""Streams of rows and promises as files: those that are stored below a plan, with the ticks at which they promise, and
those of a query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.schemas import CONTROL, LAST, PUNCTUATION, ROW, TICK
from lowwater.columns.files import Chunk, Index, file_schema
from lowwater.errors import LowwaterError
from lowwater.high.timeline import ROW_COUNT_UNIT, Instants, Promise, Timeline, grid
from lowwater.plan import operators as ops, temporal
from lowwater.storage import paths


@dataclass
class StoredStream:
    """The stored stream of one source: an LFTA on a link, or a part of a cut plan.

    Attributes:
        chunks: row groups with data rows.
        rows: number of these.
        stored: number of rows with punctuation.
        tick: tick of the first data row, ns; the end of time without rows.
        ends: number of data rows, by the ROW_COUNT_UNIT of time that holds their `_last`.
        latest: tick of the last row or punctuation, ns; below every instant without any.
    """

    chunks: list[Chunk] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    rows: int = 0
    stored: int = 0
    tick: int = temporal.END_OF_TIME
    ends: Counter[int] = field(default_factory=Counter)
    latest: int = -temporal.END_OF_TIME

    @property
    def promise(self) -> int:
        """The largest promise, ns; below every instant without any."""
        return max((promise.latest for promise in self.promises), default=-temporal.END_OF_TIME)

    def add(self, *files: str) -> StoredStream:
        """Reads the control columns of the next files; it is an error if one cannot be read."""
        for file in files:
            try:
                with pq.ParquetFile(paths.local(paths.lake_path(file))) as stored:
                    index = Index.of(stored)
                    for group in range(stored.num_row_groups):
                        self._take(file, group, stored, index)
            except (OSError, ValueError, KeyError) as error:
                message = f"cannot read the stored stream {file}: {error}"
                raise LowwaterError(message, "run the low stage again") from error
        return self

    def _take(self, file: str, group: int, stored: pq.ParquetFile, index: Index) -> None:
        facts, bounds = stored.metadata.row_group(group), {}
        for at, name in enumerate(stored.schema_arrow.names):
            known = facts.column(at).statistics if name in (LAST, "_kind", TICK) else None
            if known is not None and known.has_min_max:
                bounds[name] = known.min, known.max
        if bounds.get("_kind") == (ROW, ROW) and TICK in bounds and LAST in bounds:
            (low, high), (tick, latest), unit = bounds[LAST], bounds[TICK], bounds[LAST][0] // ROW_COUNT_UNIT
            alone = unit == high // ROW_COUNT_UNIT
            ends = Counter({unit: facts.num_rows}) if alone else _ends(_control(stored, group, LAST)[LAST])
        else:
            low, high, tick, latest, ends = self._read(_control(stored, group, *CONTROL.names))
        self.latest = max(self.latest, latest)
        if rows := ends.total():
            self.ends.update(ends)
            place = self.stored, facts.num_rows, index.by, index.bounds(group)
            self.chunks.append(Chunk(file, group, low, high, *place))
            self.rows += rows
            self.tick = min(self.tick, tick)
        self.stored += facts.num_rows

    def _read(self, table: pa.Table) -> tuple[int, int, int, int, Counter[int]]:
        """Takes the promises of a row group; returns the bounds of `_last` of its data rows, ns, their first tick, the
        last one of all rows, and `ends`."""
        is_row = pc.equal(table["_kind"], ROW)
        marks, rows = table.filter(pc.invert(is_row)), table.filter(is_row)
        columns = [marks[name].to_pylist() for name in (TICK, "_until", "_period", LAST)]
        self.promises += [Promise(*values) for values in zip(*columns, strict=True)]
        latest = pc.max(table[TICK]).as_py() if table.num_rows else -temporal.END_OF_TIME
        if not rows.num_rows:
            return 0, 0, 0, latest, Counter()
        low, high = pc.min_max(rows[LAST]).values()
        return low.as_py(), high.as_py(), pc.min(rows[TICK]).as_py(), latest, _ends(rows[LAST])

    def promised(self, instants: Instants) -> Instants:
        """The highest promise (ns) up to each instant; below every instant where there is none."""
        highest: Instants = np.full(len(instants), -temporal.END_OF_TIME, np.int64)
        for promise in self.promises:
            begin = int(np.searchsorted(instants, promise.first))
            # The instant after its last tick still has its last promise.
            part = slice(begin, int(np.searchsorted(instants, promise.until, side="right")) + 1)
            highest[part] = np.maximum(highest[part], promise.at(instants[part]))
        return np.maximum.accumulate(highest)


def _control(stored: pq.ParquetFile, group: int, *names: str) -> pa.Table:
    return stored.read_row_group(group, columns=[*names], use_threads=False)  # so small that threads cost more


def _ends(lasts: pa.ChunkedArray) -> Counter[int]:
    """The number of rows by the unit of time that holds their `_last`."""
    ends, counts = np.unique(lasts.to_numpy() // ROW_COUNT_UNIT, return_counts=True)
    return Counter(dict(zip(ends.tolist(), counts.tolist(), strict=True)))


def timeline_of(feeds: Collection[StoredStream], end: int, step: int, start: int | None = None) -> Timeline:
    """The timeline of a plan over its stored streams: at each tick the least of their promises (I1, P3, P4), and at the
    last one all of time.

    Args:
        feeds: at least one has rows, or `start` is given.
        end: end of the interval, ns; the last tick, unless a later row exists or `end` is the end of time.
        start: smallest `_last` (ns) of a row from the earlier state; None without a state.
    """
    closing = max(end if end < temporal.END_OF_TIME else -temporal.END_OF_TIME, *(feed.latest for feed in feeds))
    starts = [] if start is None else [start]
    # Before the first row a promise releases nothing.
    instants = grid(min([*starts, *(feed.tick for feed in feeds if feed.rows)], default=closing), closing, step)
    promised = np.min([feed.promised(instants) for feed in feeds], axis=0)
    promised[-1] = temporal.END_OF_TIME
    return Timeline.of(instants, promised)


@dataclass
class StreamFiles:
    """The files of one stream: rows written by slices, and a file of punctuation.

    Attributes:
        folder: of this machine, or of the lake for readers on other machines.
        owned: rows with `_last` (ns) in [first, second) belong to the stream.
        closing: promise of the closing punctuation, ns.
        published: whether rows are written in published types, a file for each hour, instead of stream types.
        files: paths in the order of writing; ticks define the order of rows (SEMANTICS P5).
    """

    folder: PurePath
    fields: Sequence[ops.Field]
    owned: tuple[int, int]
    closing: int
    published: bool = False
    files: list[str] = field(default_factory=list)
    rows: int = 0
    punctuation: int = 0

    def close(self, tick: int, timeline: Timeline | None = None) -> None:
        """Writes the punctuation; the closing one has the tick given (ns)."""
        promises = [*(timeline.below(self.closing) if timeline else ()), Promise(tick, tick, 0, self.closing)]
        schema = file_schema(self.fields, self.published)
        lasts = [promise.last for promise in promises]
        temporal_columns = [[f.temporal.promise(last) if f.temporal else None for last in lasts] for f in self.fields]
        ticks, untils, periods = zip(*((each.first, each.until, each.period) for each in promises), strict=True)
        instants = [[None] * len(lasts)] * (len(schema) - len(self.fields) - len(CONTROL))
        values = [*temporal_columns, *instants, lasts, [PUNCTUATION] * len(promises), ticks, untils, periods]
        columns = [pa.array(value, column.type) for value, column in zip(values, schema, strict=True)]
        file = self.folder / "punctuation.parquet"
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), paths.draft(file), write_page_checksum=True)
        paths.put(file)
        self.files.append(str(file))
        self.punctuation = len(promises)
