"""Compares what the logs of a lake say of files with the files: rows, and bounds of values.

Commands choose files by these bounds, so a bound that is wrong hides rows in silence. No command of every day looks at
each file; `lowwater maintain --verify` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake
from lowwater.lake.tables import lake_errors, live_files, open_table
from lowwater.storage import paths

HOURS = {"_hour": "_last", "hour": "arrival"}
"""Partition -> the column whose hour it is."""


def wrong_claims(lake: Lake) -> Iterator[str]:
    """Yields, for every file of which a log says something wrong, the file and what is wrong."""
    for folder in _tables(lake):
        try:
            with lake_errors(f"{folder}: the table cannot be read"):
                table = open_table(folder)
                rows = live_files(table) if table is not None else []
        except LakeError as error:
            yield error.message
            continue
        for row in rows:
            yield from _wrong(folder, row)


def _tables(lake: Lake) -> Iterator[PurePath]:
    for place in (lake.root, *paths.folders(lake.root)):
        yield from (folder for folder in paths.folders(place) if paths.exists(folder / "_delta_log"))
    yield from lake.record_tables()


def _wrong(folder: PurePath, row: Mapping[str, Any]) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = folder / unquote(row["path"])
    try:
        metadata = pq.read_metadata(paths.local(place))
    except FileNotFoundError:
        yield f"{place}: the log names it, and it is not there"
        return
    except (LakeError, OSError, pa.ArrowException) as error:
        yield error.message if isinstance(error, LakeError) else f"{place}: {str(error).splitlines()[0][:200]}"
        return
    if metadata.num_rows != row["num_records"]:
        yield f"{place}: the log says {row['num_records']:,} rows, and it has {metadata.num_rows:,}"
    bounds = _bounds(metadata)
    for name, (least, most) in bounds.items():
        low, high = row.get(f"min.{name}"), row.get(f"max.{name}")
        if (type(low) is int and low > least) or (type(high) is int and high < most):
            yield f"{place}: the log says that {name} is in {low} to {high}, and it is in {least} to {most}"
    for partition, name in HOURS.items():
        hour = row.get(f"partition.{partition}")
        if hour is not None and name in bounds and {int(hour)} != {bound // HOUR for bound in bounds[name]}:
            yield f"{place}: the log puts it into hour {hour}, and its {name} is in {bounds[name][0] // HOUR}"


def _bounds(metadata: Any) -> dict[str, tuple[int, int]]:
    """Returns the smallest and the largest value of each column of whole numbers, where every row group says them."""
    found: dict[str, tuple[int, int]] = {}
    unknown: set[str] = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            statistics, name = column.statistics, column.path_in_schema
            is_number = statistics is not None and statistics.logical_type.type in ("NONE", "INT")
            if not is_number or not statistics.has_min_max or type(statistics.min) is not int:
                if statistics is None or statistics.null_count != column.num_values:
                    unknown.add(name)
                continue
            least, most = found.get(name, (statistics.min, statistics.max))
            found[name] = min(least, statistics.min), max(most, statistics.max)
    return {name: bounds for name, bounds in found.items() if name not in unknown}
