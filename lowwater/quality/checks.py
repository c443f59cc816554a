"""The law's own audits of a stream: what must hold of every interval before it is published.

Between `high` and publishing. A check returns the rows that break it, so that a failure can name them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import CONTROL, PUNCTUATION, ROW


def control_columns(files: Sequence[Path]) -> pa.Table:
    """The control columns of a stream, in order of its files; an empty table where there are none."""
    tables = [pq.ParquetFile(path).read(columns=CONTROL.names).cast(CONTROL) for path in files]
    return pa.concat_tables(tables) if tables else CONTROL.empty_table()


def rows_not_owned(stream: pa.Table, start: int, end: int) -> pa.Table:
    """Rows whose last instant is not in [start, end), ns (SEMANTICS I1)."""
    rows = stream.filter(pc.equal(stream.column("_kind"), ROW))
    last = rows.column("_last")
    return rows.filter(pc.invert(pc.and_(pc.greater_equal(last, start), pc.less(last, end))))


def rows_below_a_promise(stream: pa.Table) -> pa.Table:
    """Rows that come after a punctuation which excludes them (SEMANTICS P1).

    The rows of a tick precede its punctuation (P5), so a row is held against the promises of earlier ticks only.
    """
    rows = stream.filter(pc.equal(stream.column("_kind"), ROW))
    promises = stream.filter(pc.equal(stream.column("_kind"), PUNCTUATION)).sort_by("_tick")
    if rows.num_rows == 0 or promises.num_rows == 0:
        return rows.slice(0, 0)
    highest = np.maximum.accumulate(promises.column("_last").to_numpy())
    earlier = np.searchsorted(promises.column("_tick").to_numpy(), rows.column("_tick").to_numpy(), side="left")
    bound = np.where(earlier > 0, highest[np.maximum(earlier - 1, 0)], np.iinfo(np.int64).min)
    return rows.filter(pa.array(rows.column("_last").to_numpy() < bound))


def is_closed(stream: pa.Table, end: int) -> bool:
    """Whether the stream ends with the promise of the interval's end (SEMANTICS T6)."""
    promises = stream.filter(pc.equal(stream.column("_kind"), PUNCTUATION)).column("_last")
    highest = pc.max(promises).as_py()
    return highest is not None and highest >= end
