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
from lowwater.high.shares import EVERYTHING, Bounds

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
        size: number of its rows, with punctuation.
        by: texts of the keys by which the row groups of the file are divided.
        bounds: digests of its keys.
    """

    file: str
    group: int
    low: int
    high: int
    before: int
    size: int
    by: tuple[str, ...] = ()
    bounds: Bounds = EVERYTHING

    def known(self, by: tuple[str, ...]) -> Bounds:
        """Returns the digests of its rows by these keys: any, unless the file is divided by them."""
        return self.bounds if self.by == by else EVERYTHING

    def ending(
        self,
        stored: pq.ParquetFile,
        names: list[str],
        first: int,
        end: int,
        link: int | None = None,
        number: str = "",
        rows: slice = slice(None),
    ) -> pa.Table:
        """Reads the data rows with `_last` in [first, end).

        Args:
            stored: the file, open.
            names: names of the columns.
            first, end: bounds, ns.
            link: number of the link, to add the column PLACE; None to leave it out.
            number: column with the number of the record on its link, for PLACE; empty takes the number of the row.
            rows: the rows of the group that are read.
        """
        columns = [*names, *([number] if number else []), "_kind", LAST]
        table = stored.read_row_group(self.group, columns=[*dict.fromkeys(columns)])
        if link is not None:
            numbers = table[number] if number else pa.array(np.arange(self.before, self.before + table.num_rows))
            table = table.append_column(PLACE, pc.add(numbers, link << LINK_BITS))
            names = [*names, PLACE]
        if rows != slice(None):
            table = table.slice(rows.start, rows.stop - rows.start)
        keep = pc.equal(table["_kind"], ROW)
        if self.low < first or self.high >= end:
            last = table[LAST]
            keep = pc.and_(keep, pc.and_(pc.greater_equal(last, first), pc.less(last, end)))
        return table.select(names).filter(keep)
