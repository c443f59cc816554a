"""Reads a row group of a stored stream: rows of an LFTA on a link, or of a part of a cut plan.

Workers of Spark import it for the parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.catalog.streams import LAST, ROW
from lowwater.storage.paths import lake_path, local

PLACE = "_place"
"""Column with the canonical order of a row: the number of its link in the query, and in the lower LINK_BITS its number
in the stream of the link.
"""
LINK_BITS = 40


@dataclass(frozen=True)
class Chunk:
    """A row group with data rows.

    Attributes:
        file: path of the file, or its address in the lake.
        low, high: smallest and largest `_last` of its data rows, ns.
        before: number of rows of the stream before this group.
    """

    file: str
    group: int
    low: int
    high: int
    before: int

    def ending(self, names: list[str], first: int, end: int, link: int | None = None, number: str = "") -> pa.Table:
        """Reads the data rows with `_last` in [first, end).

        Args:
            names: names of the columns.
            first, end: bounds, ns.
            link: number of the link, to add the column PLACE; None to leave it out.
            number: column with the number of the record on its link, for PLACE; empty takes the number of the row.
        """
        columns = [*names, *([number] if number else []), "_kind", LAST]
        with pq.ParquetFile(local(lake_path(self.file))) as stored:
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
