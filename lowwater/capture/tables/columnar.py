"""Parquet files: reads the columns of a layout with Arrow's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowwater.capture.tables.pieces import Piece, Places, Refusals, make_piece
from lowwater.catalog.records import RecordField, RecordLayout
from lowwater.errors import CaptureError

ROWS = 1 << 16
"""Most rows that are read at a time."""


def open_parquet(path: Path) -> pq.ParquetFile:
    """Opens a parquet file.

    Raises:
        CaptureError: the file is no parquet file.
    """
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path}: is no readable parquet file: {reason}", "check kind of the link") from error


class ParquetParser:
    """Reads a parquet file; iterate it once.

    Args:
        path: the file.
        layout: the fields, by position or name.

    Raises:
        CaptureError: the file is no parquet file, or lacks a column.
    """

    def __init__(self, path: Path, layout: RecordLayout) -> None:
        self._path, self._layout = path, layout
        self._file = open_parquet(path)
        self._paths = [self._path_of(field) for field in layout.fields]

    def __iter__(self) -> Iterator[Callable[[], Piece]]:
        """Yields the work on each batch of rows, in order; a thread may do it while the next batch is read."""
        offset = 0
        columns = [".".join(path) for path in dict.fromkeys(self._paths)]
        try:
            for batch in self._file.iter_batches(ROWS, columns=columns, use_threads=False):
                rows = np.arange(batch.num_rows, dtype=np.int64)
                places = Places(offset + rows, np.zeros(len(rows), np.int64))
                raw = [column_at(batch, path) for path in self._paths]
                yield partial(make_piece, self._layout, places, rows, raw, Refusals(len(rows)))
                offset += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise CaptureError(
                f"{self._path}: cannot be read behind row {offset:,}: {str(error).splitlines()[0]}",
                "write the file again",
            ) from error
        finally:
            self._file.close()

    def _path_of(self, field: RecordField) -> tuple[str, ...]:
        schema = self._file.schema_arrow
        if field.position is not None:
            if field.position <= len(schema.names):
                return (schema.names[field.position - 1],)
            raise CaptureError(
                f"{self._path}: has {len(schema.names)} columns, and {field.name} of {self._layout.protocol} reads "
                f"column {field.position}",
                "check the positions in the PROTOCOL",
            )
        kind: pa.DataType = pa.struct(list(schema))
        for name in field.path:
            if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
                raise CaptureError(
                    f"{self._path}: has no column {'.'.join(field.path)!r}, which {field.name} of "
                    f"{self._layout.protocol} reads",
                    f"its columns are: {', '.join(schema.names)}"[:500],
                )
            kind = kind.field(name).type
        return field.path


def column_at(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """Returns the column of a batch at a path of names, through structs."""
    column = batch.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, [name])
    return column
