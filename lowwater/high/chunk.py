"""A row group of a stored stream: the rows of an LFTA on a link, or of a part of a cut plan, that are read together.

Below the replay source and the slices; imported by Spark's Python workers, so it imports nothing of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import ROW
from lowwater.high.clock import LAST, TICK

PLACE = "_place"
"""Column of the place of a row: the number of its link in the query, and below LINK_BITS its number in the link's
stream."""
LINK_BITS = 40


@dataclass(frozen=True)
class Chunk:
    """A row group with data rows.

    Attributes:
        file: that holds it, as number `group`.
        first, last: least and greatest `_tick` of its data rows.
        low, high: least and greatest `_last` of them.
        place: of its first row.
        number: column with what a row's place is behind that; empty where it is its number in the row group.
    """

    file: str
    group: int
    first: int
    last: int
    low: int
    high: int
    place: int
    number: str = ""

    def rows(self, names: list[str], after: int, upto: int) -> pa.Table:
        """The data rows with `_tick` in (after, upto]."""
        with pq.ParquetFile(self.file) as stored:
            stored_names = [name for name in names if name not in (PLACE, TICK)]
            more = [self.number] if self.number and PLACE in names else []
            table = stored.read_row_group(self.group, columns=[*dict.fromkeys([*stored_names, *more, "_kind", TICK])])
        if PLACE in names:
            numbers = table[self.number] if self.number else pa.array(np.arange(table.num_rows))
            table = table.append_column(PLACE, pc.add(numbers, self.place))
        keep = pc.equal(table["_kind"], ROW)
        if self.first <= after or self.last > upto:
            tick = table[TICK]
            keep = pc.and_(keep, pc.and_(pc.greater(tick, after), pc.less_equal(tick, upto)))
        return table.select(names).filter(keep)

    def ending(self, names: list[str], first: int, end: int) -> pa.Table:
        """The data rows with `_last` in [first, end)."""
        with pq.ParquetFile(self.file) as stored:
            table = stored.read_row_group(self.group, columns=[*dict.fromkeys([*names, "_kind", LAST])])
        keep = pc.equal(table["_kind"], ROW)
        if self.low < first or self.high >= end:
            last = table[LAST]
            keep = pc.and_(keep, pc.and_(pc.greater_equal(last, first), pc.less(last, end)))
        return table.select(names).filter(keep)
