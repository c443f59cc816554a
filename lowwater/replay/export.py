"""Writes the rows of a query for people: CSV, JSON lines or Parquet.

Last step of `lowwater run`. Integers plain, floats with 17 significant digits, booleans true/false, addresses as text,
NULL an empty field; rows sorted by all columns, NULL last, so that two equal results are equal files.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from lowwater.catalog.streams import published
from lowwater.errors import LowwaterError
from lowwater.plan.nodes import Field
from lowwater.plan.schemas import published_schema

FORMATS = ("csv", "json", "parquet")


def published_rows(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Rows of a stream in their published types: addresses as text, control columns gone.

    Args:
        rows: at least the columns of `fields`, in stream types.
        fields: of the query, in order.
    """
    schema = published_schema(fields)
    columns = [
        pa.chunked_array([published(chunk, f.type) for chunk in rows.column(f.name).chunks], schema.field(f.name).type)
        for f in fields
    ]
    return pa.table(columns, schema=schema)


def sort_rows(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Rows sorted by all columns of the query, by value (an address by its bytes), NULL last."""
    if rows.num_rows == 0 or not fields:
        return rows
    keys = [(f.name, "ascending", "at_end") for f in fields]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def write_rows(rows: pa.Table, fields: Sequence[Field], folder: Path, name: str, kind: str) -> Path:
    """Writes one query's rows to `folder/name.kind`.

    Raises:
        LowwaterError: the folder cannot be written, or the format is unknown.
    """
    if kind not in FORMATS:
        raise LowwaterError(f"--format {kind} is not one of {', '.join(FORMATS)}")
    table = published_rows(sort_rows(rows, fields), fields)
    path = folder / f"{name}.{kind}"
    try:
        if kind == "parquet":
            pyarrow.parquet.write_table(table, path)
        elif kind == "json":
            with path.open("w", encoding="utf-8") as out:
                for batch in table.to_batches(max_chunksize=65_536):
                    out.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
        else:
            write_csv(table, path)
    except OSError as error:
        raise LowwaterError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def write_csv(table: pa.Table, path: Path) -> None:
    """Writes a table as CSV: a header row, then rows; see the module for the form of values."""
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(table.column_names)
        for batch in table.to_batches(max_chunksize=65_536):
            writer.writerows(zip(*(csv_values(column) for column in batch.columns), strict=True))


def csv_values(column: pa.Array) -> list[object]:
    """The values of a column as CSV has them; None for NULL."""
    if pa.types.is_floating(column.type):
        return [None if v is None else format(v, ".17g") for v in column.to_pylist()]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    values: list[object] = column.to_pylist()
    return values
