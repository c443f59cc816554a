"""Writes the rows of a query as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.plan.operators import Field
from lowwater.plan.properties import is_instant, published_schema, visible_schema
from lowwater.terminal import spreadsheet_cell

# Integers are plain, floats have 17 significant digits, booleans are true or false, addresses are texts, and NULL is
# an empty field. Rows are sorted by all columns, NULL last, so that equal results give equal files.

FORMATS = ("csv", "json", "parquet")


def published_rows(rows: pa.Table, fields: Sequence[Field], instants: bool = False) -> pa.Table:
    """Converts rows of a stream to published types: addresses as texts, without control columns."""
    from lowwater.columns.files import instants_of, published_columns  # its kernels take numba

    columns = published_columns(rows, fields)
    if not instants:
        return pa.table(columns, schema=published_schema(fields))
    return pa.table([*columns, *instants_of(rows, fields)], schema=visible_schema(fields))


def with_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts instants to ISO 8601 with as many digits as they need; other columns stay.

    Example:
        >>> times = pa.array([1_767_225_600_000_000, 1_500_000, None]).cast(pa.timestamp("us", tz="UTC"))
        >>> with_texts(pa.record_batch({"tb_start": times})).column(0).to_pylist()
        ['2026-01-01T00:00:00Z', '1970-01-01T00:00:01.5Z', None]
    """
    columns = [_text(column) if is_instant(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _text(column: pa.Array) -> pa.Array:
    distinct = column.dictionary_encode()
    numbers = distinct.dictionary.cast(pa.int64()).to_pylist()
    texts = pa.array([format_instant(number * 1000) for number in numbers], pa.string())
    return pa.DictionaryArray.from_arrays(distinct.indices, texts).dictionary_decode()


def sort_rows(rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Sorts rows by all columns of the query: by value (an address by its bytes), NULL last."""
    if rows.num_rows == 0 or not fields:
        return rows
    keys = [(f.name, "ascending", "at_end") for f in fields]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def write_rows(
    rows: pa.Table, fields: Sequence[Field], path: Path, kind: str, spreadsheet: bool = False, instants: bool = False
) -> None:
    """Writes one query's rows to a file of one of FORMATS; `instants` adds those of temporal columns, as timestamps in
    parquet, else as ISO 8601.
    Raises LowwaterError if the folder cannot be written, or the format is unknown."""
    if kind not in FORMATS:
        raise LowwaterError(f"--format {kind} is not one of {', '.join(FORMATS)}")
    table = published_rows(sort_rows(rows, fields), fields, instants)
    try:
        if kind == "parquet":
            pyarrow.parquet.write_table(table, path)
        elif kind == "json":
            with path.open("w", encoding="utf-8") as out:
                for batch in map(with_texts, table.to_batches(max_chunksize=65_536)):
                    out.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
        else:
            write_csv(table, path, spreadsheet)
    except OSError as error:
        raise LowwaterError(f"{path} cannot be written: {error.strerror or error}") from None


def write_csv(table: pa.Table, path: Path, spreadsheet: bool = False) -> None:
    """Writes a table as CSV: a header row, then rows; the module describes the format of values. `spreadsheet`: texts
    are made safe for a program that evaluates texts which look like formulas."""
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as out:
        out.write(_lines([map(spreadsheet_cell, table.column_names) if spreadsheet else table.column_names]))
        for batch in map(with_texts, table.to_batches(max_chunksize=65_536)):
            if not spreadsheet and _plain(batch):
                pyarrow.csv.write_csv(_with_digits(batch), out, options)
                continue
            columns = [csv_values(column) for column in batch.columns]
            if spreadsheet:
                # Numbers are texts here too, and a minus sign before a number is no formula.
                columns = [
                    list(map(spreadsheet_cell, values)) if _is_text(column.type) else values
                    for column, values in zip(batch.columns, columns, strict=True)
                ]
            out.write(_lines(zip(*columns, strict=True)))


def spreadsheet_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch with texts and names of columns that no spreadsheet takes for formulas."""
    columns = [
        pa.array([*map(spreadsheet_cell, column.to_pylist())], pa.string()) if _is_text(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=[str(spreadsheet_cell(name)) for name in batch.schema.names])


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def _plain(batch: pa.RecordBatch) -> bool:
    """Whether no value needs quotes, so that Arrow can write the batch, five times as fast as Python. A single empty
    value needs quotes: the row would be an empty line."""
    return batch.num_columns > 1 and all(map(_without_quotes, batch.columns))


def _without_quotes(column: pa.Array) -> bool:
    kind = column.type
    if pa.types.is_string(kind):
        return not pc.any(pc.match_substring_regex(column, '[",\r\n]'), min_count=0).as_py()
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _with_digits(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts floats to their texts in CSV; Arrow would write fewer digits."""
    columns = [
        pa.array(csv_values(column), pa.string()) if pa.types.is_floating(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are texts, however a file that another program wrote holds them."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def csv_values(column: pa.Array) -> list[object]:
    """The values of a column as written to CSV; None for NULL. A float has the fewest digits that give it back."""
    if pa.types.is_floating(column.type):
        return [None if v is None else repr(v).removesuffix(".0") for v in column.to_pylist()]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    values: list[object] = column.to_pylist()
    return values
