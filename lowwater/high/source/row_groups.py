"""A row group of a stored stream: the rows of an LFTA on a link, or of a part of a cut plan, that are read together.

Below the slices; imported by Spark's Python workers, so it imports nothing of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import LAST, ROW

PLACE = "_place"
"""Column of the place of a row: the number of its link in the query, and below LINK_BITS its number in the link's
stream."""
LINK_BITS = 40


@dataclass(frozen=True)
class Chunk:
    """A row group with data rows.

    Attributes:
        file: that holds it, as number `group`.
        low, high: least and greatest `_last` of its data rows.
        before: how many rows the stream has before it.
    """

    file: str
    group: int
    low: int
    high: int
    before: int

    def ending(self, names: list[str], first: int, end: int, link: int | None = None, number: str = "") -> pa.Table:
        """The data rows with `_last` in [first, end).

        Args:
            names: the columns.
            first, end: ns.
            link: number of the link, where rows bring their PLACE.
            number: column with the number of a row's record in its link, by which places go; else by that of the row.
        """
        columns = [*names, *([number] if number else []), "_kind", LAST]
        with pq.ParquetFile(self.file) as stored:
            table = stored.read_row_group(self.group, columns=[*dict.fromkeys(columns)])
        if link is not None:
            numbers = table[number] if number else pa.array(np.arange(self.before, self.before + table.num_rows))
            table = table.append_column(PLACE, pc.add(numbers, link << LINK_BITS))
            names = [*names, PLACE]
        keep = pc.equal(table["_kind"], ROW)
        if self.low < first or self.high >= end:
            last = table[LAST]
            keep = pc.and_(keep, pc.and_(pc.greater_equal(last, first), pc.less(last, end)))
        return table.select(names).filter(keep)
