"""Writes rows in published form: addresses as texts, each file for one hour.

Slices, the sink of streams, and publishing (for older files) use it. `tables/` are partitioned by the hour of `_last`,
so a file becomes part of a table unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from lowwater.capture.addresses import published
from lowwater.catalog.expr import Expr
from lowwater.high.shares import FEWEST_EXCHANGED, DividedWriter
from lowwater.high.slices.instants import first
from lowwater.instants import HOUR
from lowwater.plan.operators import Field
from lowwater.plan.properties.instant_columns import INSTANT, InstantColumn, instant_columns
from lowwater.plan.properties.schemas import published_schema, result_schema, stream_schema
from lowwater.storage import paths

ROW_GROUP = 1 << 20
MOST_OPEN = 64
"""Files that are open at once; rows of more hours in mixed order make several files for an hour."""


def file_schema(fields: Sequence[Field], published: bool) -> pa.Schema:
    """The schema of a stream's files: fields, in published types with their instants or in stream types; CONTROL."""
    return result_schema(fields) if published else stream_schema(fields)


def file_columns(rows: pa.RecordBatch | pa.Table, fields: Sequence[Field], published: bool) -> list[pa.ChunkedArray]:
    """Converts rows in stream types to the columns of `file_schema`; other columns are dropped."""
    if not published:
        return [pa.table(rows).column(f.name) for f in fields]
    return [*published_columns(rows, fields), *instants_of(pa.table(rows), fields)]


def instants_of(rows: pa.Table, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
    """Computes the columns of instants of a query from its temporal columns, NULL where they are NULL."""
    return [instants(column, rows.column(column.of)) for column in instant_columns(fields)]


def instants(column: InstantColumn, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Computes a column of instants from the values of its temporal column."""
    chunks = []
    for chunk in values.chunks:
        numbers = first(column.begins, chunk.fill_null(0).to_numpy(zero_copy_only=False))
        instants_us = np.maximum(numbers, 0) // 1000  # division truncates, so the epoch of 0 would begin before 1970
        empty = chunk.is_null().to_numpy(zero_copy_only=False)
        chunks.append(pa.array(instants_us, pa.int64(), mask=empty).cast(INSTANT))
    return pa.chunked_array(chunks, INSTANT)


def published_columns(rows: pa.RecordBatch | pa.Table, fields: Sequence[Field]) -> list[pa.ChunkedArray]:
    """Converts the fields of rows from stream types to published types."""
    table, schema = pa.table(rows), published_schema(fields)
    return [
        pa.chunked_array([published(chunk, f.type) for chunk in table.column(f.name).chunks], schema.field(f.name).type)
        for f in fields
    ]


class HourFiles:
    """Writes rows to one file for each hour of `_last`.

    Args:
        folder: folder for the files: of this machine, or of the lake for readers on other machines.
        name: prefix of the file names.
        schema: schema of the rows, with `_last`.
        keys: what divides the row groups of a file by share; empty for nothing.

    Attributes:
        files: path -> number of rows, in the order of creation.
    """

    def __init__(self, folder: PurePath, name: str, schema: pa.Schema, keys: Sequence[Expr] = ()) -> None:
        self.files: dict[PurePath, int] = {}
        self._folder, self._name, self._schema = folder, name, schema
        self._choices = [tuple(keys)] if keys else []
        self._open: dict[int, tuple[PurePath, DividedWriter]] = {}

    def __enter__(self) -> HourFiles:
        return self

    def __exit__(self, *raised: object) -> None:
        for hour in [*self._open]:
            self._close(hour)

    def write(self, rows: pa.Table) -> None:
        """Writes rows of the schema."""
        hours = rows.column("_last").to_numpy() // HOUR
        row_hours = np.unique(hours)
        for hour in row_hours.tolist():
            mine = rows if len(row_hours) == 1 else rows.filter(pa.array(hours == hour))
            path, writer = self._writer(hour)
            writer.write(mine)
            self.files[path] += mine.num_rows

    def _writer(self, hour: int) -> tuple[PurePath, DividedWriter]:
        entry = self._open.pop(hour, None)
        if entry is None:
            if len(self._open) == MOST_OPEN:
                self._close(next(iter(self._open)))
            path = self._folder / f"{self._name}-{len(self.files):05d}.parquet"
            draft = paths.draft(path)
            entry = (
                path,
                DividedWriter(draft, self._schema, self._choices, ROW_GROUP, FEWEST_EXCHANGED, compression="lz4"),
            )
            self.files[path] = 0
        self._open[hour] = entry
        return entry

    def _close(self, hour: int) -> None:
        path, writer = self._open.pop(hour)
        writer.close()
        paths.place(path)
