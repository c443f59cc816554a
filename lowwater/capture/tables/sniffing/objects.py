"""Columns of a sample of JSON lines and of parquet, by the paths of their values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.capture.tables.columnar import column_at, longest_text, open_parquet
from lowwater.capture.tables.sniffing.columns import MOST_COLUMNS, Column, SniffedColumns
from lowwater.capture.tables.sniffing.kinds import BEARABLE, Kind, kind_of_texts, kind_of_values
from lowwater.capture.tables.sniffing.pieces import TextSample
from lowwater.catalog.types import Type
from lowwater.errors import CaptureError

WHOLE = 0.9
"""Least share of the lines that are objects."""

DEEPEST = 4
"""Most names of a path."""

SAMPLED_ROWS = 10_000
"""Rows of a row group that are read, bounded also by GROUP_BYTES."""

GROUP_BYTES = 256 << 20
"""Largest row group that is read for a sample, bytes without compression."""

LONGEST_VALUE = 1024
"""A longer text, in bytes, is a text and nothing else."""

_TOO_MANY = f"it is behind the first {MOST_COLUMNS:,} columns"


def json_columns(sample: TextSample) -> SniffedColumns | None:
    """Returns the columns of JSON lines; None if too many lines are no objects."""
    paths: dict[tuple[str, ...], dict[int, Any]] = {}
    sniffed = SniffedColumns()
    lines = 0
    for piece in sample.pieces:
        for line in piece.splitlines():
            if not line.strip():
                continue
            lines += 1
            record = _object(line)
            if record is None:
                continue
            for path, value in _leaves(record):
                if path in paths or len(paths) < MOST_COLUMNS:
                    paths.setdefault(path, {})[sniffed.records] = value
                else:
                    sniffed.left_out[".".join(path)[:200]] = _TOO_MANY
                    if len(sniffed.left_out) > MOST_COLUMNS:
                        return None
            sniffed.records += 1
    if not sniffed.records or sniffed.records < WHOLE * lines:
        return None
    for path, told in paths.items():
        kind = _json_kind(list(told.values()), path)
        name = ".".join(path)
        if isinstance(kind, str):
            sniffed.left_out[name[:200]] = kind
        else:
            # Values stand for themselves here: a column for each name and a cell for each line would be a square.
            absent = sniffed.records - len(told)
            sniffed.columns.append(Column(name, None, path, kind, _rises(kind, list(told.values())), absent))
    return sniffed


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _leaves(record: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in record.items():
        path = (*above, name)
        if isinstance(value, dict) and len(path) < DEEPEST:
            yield from _leaves(value, path)
        else:
            yield path, value


def _json_kind(values: list[Any], path: tuple[str, ...]) -> Kind | str:
    """Returns the type of the values of a path, or why it has none."""
    kinds = Counter(type(value) for value in values if value is not None)
    if not kinds:
        return "it has no value in the sample"
    if len(path) > 1 and any("." in name for name in path):
        return "a path of several names has a dot in one of them"
    if not set(kinds) <= {int, float} and len(kinds) > 1:
        (kind, count), *_ = kinds.most_common()
        if count < (1 - BEARABLE) * kinds.total():
            return f"its values are of several types: {', '.join(sorted(_WORDS.get(k, k.__name__) for k in kinds))}"
        values = [value if type(value) is kind else None for value in values]
        kinds = Counter({kind: count})
    if set(kinds) <= {bool}:
        return Kind(Type.BOOL)
    if set(kinds) <= {str}:
        try:
            return kind_of_texts(pa.array(values, pa.string()), numbers=False)
        except (UnicodeEncodeError, pa.ArrowException):
            return "its texts are no UTF-8"
    if set(kinds) <= {int, float}:
        return _numbers(values, kinds)
    return f"its values are {_WORDS.get(kinds.most_common(1)[0][0], 'of another type')}"


def _numbers(values: list[Any], kinds: Counter[type]) -> Kind | str:
    try:
        if float not in kinds:
            return kind_of_values(pa.array(values, pa.int64())) or Kind(Type.INT)
        # Python's text of a float has all digits of a time in microseconds.
        texts = [None if value is None else repr(value) for value in values]
        kind = kind_of_texts(pa.array(texts, pa.string()))
        return kind if kind.type is not Type.STRING and not kind.nulls else Kind(Type.FLOAT)
    except (OverflowError, pa.ArrowException):
        return Kind(Type.FLOAT)


_WORDS = {list: "lists", dict: "objects", str: "texts", int: "numbers", float: "numbers", bool: "booleans"}


def _rises(kind: Kind, values: list[Any]) -> bool:
    if kind.type is not Type.INT or kind.form:
        return False
    told: list[int] = [value for value in values if type(value) is int]
    return len(set(told)) > 1 and all(one <= other for one, other in pairwise(told))


def parquet_columns(path: Path) -> SniffedColumns:
    """Returns the columns of a parquet file, from the first rows of its first, middle and last row group.

    Raises:
        CaptureError: the file cannot be read.
    """
    sniffed = SniffedColumns()
    with open_parquet(path) as file:
        leaves: dict[tuple[str, ...], int | None] = {}
        names = Counter(file.schema_arrow.names)
        for number, column in enumerate(file.schema_arrow, 1):
            if names[column.name] > 1:
                sniffed.left_out[column.name[:200]] = "several columns have this name"
                continue
            for leaf in _struct_leaves(column):
                if len(leaves) < MOST_COLUMNS:
                    leaves[leaf] = number if len(leaf) == 1 else None
                else:
                    sniffed.left_out[".".join(leaf)[:200]] = _TOO_MANY
        parts = _parquet_parts(path, file, list(dict.fromkeys(leaf[0] for leaf in leaves)))
    sniffed.records = sum(part.num_rows for part in parts)
    if not sniffed.records:
        raise CaptureError(f"{path}: has no records", "wait until it has some, or leave it out")
    for leaf, position in leaves.items():
        values = _leaf_values(path, parts, leaf)
        if values is None:
            sniffed.columns.append(Column(".".join(leaf), position, leaf, Kind(Type.STRING)))
            continue
        name = ".".join(leaf)
        kind = None if values.null_count == len(values) and not _textual(values.type) else kind_of_values(values)
        if kind is None:
            absent = values.null_count == len(values)
            sniffed.left_out[name[:200]] = "it has no value in the sample" if absent else f"its type is {values.type}"
            continue
        rises = kind.type is Type.INT and not kind.form and pa.types.is_integer(values.type) and _climbs(values)
        sniffed.columns.append(Column(name, position, leaf, kind, rises))
    return sniffed


def _leaf_values(path: Path, parts: list[pa.RecordBatch], leaf: tuple[str, ...]) -> pa.Array | None:
    """Returns the values of a column; None for texts of which some are longer than any number, address or time."""
    try:
        values = [column_at(part, leaf) for part in parts]
        if max(map(longest_text, values)) > LONGEST_VALUE:
            return None
        plain = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in values]
        return pa.chunked_array(plain).combine_chunks()
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path}: is no readable parquet file: {reason}", "write the file again") from error


def _struct_leaves(column: pa.Field, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    path = (*above, column.name)
    if pa.types.is_struct(column.type) and len(path) < DEEPEST:
        for inner in column.type:
            yield from _struct_leaves(inner, path)
    else:
        yield path


def _textual(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _climbs(values: pa.Array) -> bool:
    steps: NDArray[np.int64] = np.diff(pc.drop_null(values).cast(pa.int64()).to_numpy())
    return bool(len(steps) and np.all(steps >= 0) and np.any(steps))


def _parquet_parts(path: Path, file: pq.ParquetFile, columns: list[str]) -> list[pa.RecordBatch]:
    groups = file.metadata.num_row_groups
    parts: list[pa.RecordBatch] = []
    try:
        for group in sorted({0, groups // 2, groups - 1} & set(range(groups))):
            if file.metadata.row_group(group).total_byte_size > GROUP_BYTES and parts:
                continue
            batches = file.iter_batches(SAMPLED_ROWS, row_groups=[group], columns=columns, use_threads=False)
            parts += [part for part in [next(batches, None)] if part is not None and part.num_rows]
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path}: is no readable parquet file: {reason}", "write the file again") from error
    return parts
