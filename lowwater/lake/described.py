"""What a commit says of a file of a table: size, rows, bounds and NULLs of its columns, from the footer of the file.

Above `tables` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.lake.tables import DataFile
from lowwater.storage import paths

LONGEST_BOUND = 64
"""Most characters of a text in the bounds of a file."""


def describe(table: PurePath, file: PurePath, partition: Mapping[str, str]) -> DataFile:
    """Describes a file in the folder of its table, for a commit.

    Every column has its bounds: Delta's reader for Arrow takes a column without them as one without a value, and a
    filter of it finds no row.

    Args:
        table: folder of the table.
        file: a file of the table.
        partition: values of the partition columns.
    """
    content = paths.local(file)
    metadata = pq.read_metadata(content)
    bounds: dict[str, tuple[Any, Any]] = {}
    nulls: Counter[str] = Counter()
    complete = {metadata.schema.column(index).path for index in range(metadata.num_columns)}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            _widen(bounds, complete, column.path_in_schema, column.statistics)
            if column.statistics is not None and column.statistics.has_null_count:
                nulls[column.path_in_schema] += column.statistics.null_count
    return DataFile(
        file.relative_to(table).as_posix(),
        content.stat().st_size,
        metadata.num_rows,
        partition,
        {name: _bound(bounds[name][0]) for name in complete & set(bounds)},
        {name: _bound(bounds[name][1], "\U0010ffff") for name in complete & set(bounds)},
        dict(nulls),
    )


def _bound(value: Any, behind: str = "") -> Any:
    """Returns a bound as JSON has it: of a long text its beginning, with what comes behind all that begin so."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, str) and len(value) > LONGEST_BOUND:
        return value[:LONGEST_BOUND] + behind
    return value


def _widen(bounds: dict[str, tuple[Any, Any]], complete: set[str], name: str, statistics: Any) -> None:
    if statistics is not None and not statistics.num_values:
        return  # NULL in all rows of this part
    if statistics is None or not statistics.has_min_max or isinstance(statistics.min, bytes):
        complete.discard(name)
    else:
        low, high = bounds.get(name, (statistics.min, statistics.max))
        bounds[name] = (min(low, statistics.min), max(high, statistics.max))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type without the width of offsets, which Delta does not store."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind
