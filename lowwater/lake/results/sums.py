"""Sums of each file of a published table by the values of a column, so that a plot of a year opens no data.

`lowwater maintain` writes them beside the tables, and the pages read them. They are a function of the file that they
name, and files never change: what has none, or is newer than the last maintenance, is read itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from numpy.typing import NDArray

from lowwater.lake.joins import compact
from lowwater.lake.opened import existing
from lowwater.lake.results.visible import of_query, plain_type
from lowwater.lake.tables import (
    append_rows,
    create,
    files_dataset,
    lake_errors,
    live_files,
    open_table,
    replace_rows,
    safe_name,
)
from lowwater.storage.leases import Fence

ALL = "0"
"""Stands for the column of the sums of all rows together; no column has this name."""
MOST_VALUES = 1_000
"""A text has all of its values in a file summed up to so many; of more only the largest."""
LARGEST = 200
"""Values that are kept of a column with more: those of the largest number of rows, and those of the largest sums."""
MOST_NUMBERS = 256
"""A whole number with more values in a file than so many is no key, and has no sums by its values."""
MOST_HELD = 500_000
"""Values of a column in one file that are held at a time; a column with more has no sums there."""
MOST_READ = 250_000
"""Rows up to which a file is read once for all of its columns, and not once for each."""
BATCH = 65_536
LEAST = 100
"""A table of fewer files has no sums: reading it is as fast."""
AT_ONCE = 512
"""Files whose sums are written by one commit."""
GROUPED = 128
"""Files whose sums are read at a time."""

SUMS = pa.schema(
    [
        pa.field("column", pa.string(), nullable=False),  # the partition
        pa.field("path", pa.string(), nullable=False),  # of the file, as in the log of the table
        pa.field("hour", pa.int64(), nullable=False),  # of all of its rows
        pa.field("whole", pa.bool_(), nullable=False),  # no value was left out
        pa.field("values", pa.list_(pa.string()), nullable=False),  # NULL among them
        pa.field("rows", pa.list_(pa.int64()), nullable=False),  # number of rows of each value
        pa.field("numbers", pa.list_(pa.string()), nullable=False),  # columns that are summed
        pa.field("sums", pa.list_(pa.list_(pa.float64())), nullable=False),  # of each of them, by value
        pa.field("rest", pa.list_(pa.float64()), nullable=False),  # rows of values left out, and each sum of theirs
    ]
)
"""A row for each file of a table, and each column by whose values it is summed."""


def sums_path(table: PurePath) -> PurePath:
    """Returns the folder of the sums of a published table.

    Example:
        >>> sums_path(PurePath("lake/tables/flows")).as_posix()
        'lake/sums/flows'
    """
    return table.parent.parent / "sums" / table.name


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type can be summed."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_key(kind: pa.DataType) -> bool:
    """Whether there are sums by the values of a column of this type: texts, and whole numbers of few values."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def make_sums(table: PurePath, dry_run: bool = False, fence: Fence | None = None) -> tuple[int, int]:
    """Sums the files of a published table that have no sums yet. Sums of files that are gone go once they are half.

    Args:
        table: folder of the published table.
        dry_run: whether to count only.
        fence: lease of the maintenance.

    Returns:
        Number and bytes of the files that were summed, or would be.

    Raises:
        LakeError: the table cannot be read, or the sums cannot be written.
    """
    opened, path = open_table(table), sums_path(table)
    live = {row["path"]: row for row in live_files(opened)} if opened is not None else {}
    if len(live) < LEAST or opened is None:
        return 0, 0
    known = _known(path)
    new = [row for name, row in live.items() if name not in known]
    if not dry_run:
        columns = [
            pa.field(field.name, plain_type(field.type))
            for field in pa.schema(opened.schema().to_arrow())
            if of_query(field) and safe_name(field.name) == field.name
        ]
        create(path, SUMS, ["column"])
        for at in range(0, len(new), AT_ONCE):
            rows = [sums for row in new[at : at + AT_ONCE] for sums in _sums_of(table, columns, row)]
            append_rows(path, pa.Table.from_pylist(rows, schema=SUMS), fence, GROUPED)
        compact(path, GROUPED)
        gone = known - live.keys()
        if len(gone) >= len(live):
            _drop(path, gone)
    return len(new), sum(row["size_bytes"] for row in new)


def _known(path: PurePath) -> set[str]:
    """Names the files of a table that have sums: each has those of all rows together."""
    names: set[str] = set()
    for batch in _stored(path, ALL, ["path"]):
        names.update(batch.column("path").to_pylist())
    return names


def _drop(path: PurePath, gone: Iterable[str]) -> None:
    """Drops the sums of some files, a column at a time."""
    names = pa.array(sorted(gone), pa.string())
    for column in sorted({row["partition.column"] for row in live_files(existing(path))}):
        batches = [
            batch.filter(pc.invert(pc.is_in(batch.column("path"), value_set=names)))
            for batch in _stored(path, column, [field.name for field in SUMS if field.name != "column"])
        ]
        kept = pa.Table.from_batches(batches)
        replace_rows(path, kept.add_column(0, SUMS.field("column"), [[column] * kept.num_rows]), f"column = '{column}'")


def _sums_of(table: PurePath, columns: Sequence[pa.Field], row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the rows of `SUMS` of a file: one without a key, and one for each column that is a key."""
    hour = int(row["partition._hour"])
    numbers = [field.name for field in columns if is_number(field.type)]
    dataset = files_dataset(table, [(row["path"], pads.field("_hour") == hour)], pa.schema(columns))
    with lake_errors(f"{table}: the table cannot be read"):
        rows = dataset.to_table() if row["num_records"] <= MOST_READ else None
        for key in (None, *(field for field in columns if is_key(field.type))):
            names = list(dict.fromkeys([*([] if key is None else [key.name]), *numbers]))
            if rows is None:
                batches = dataset.to_batches(names, batch_size=BATCH, batch_readahead=2)
            else:
                batches = rows.select(names).to_batches() if names else rows.to_batches()
            grouped = _grouped(batches, key, numbers)
            if grouped is None:
                continue
            whole = grouped.num_rows <= MOST_VALUES
            chosen = grouped if whole else grouped.take(_largest(grouped, numbers))
            sums = ["rows", *(f"sum {name}" for name in numbers)]
            rest = [float(pc.sum(grouped.column(name)).as_py() - pc.sum(chosen.column(name)).as_py()) for name in sums]
            yield {
                "column": ALL if key is None else key.name,
                "path": row["path"],
                "hour": hour,
                "whole": whole,
                "values": chosen.column("value").to_pylist(),
                "rows": chosen.column("rows").to_pylist(),
                "numbers": numbers,
                "sums": [chosen.column(f"sum {name}").to_pylist() for name in numbers],
                "rest": rest,
            }


def _grouped(batches: Iterable[pa.RecordBatch], key: pa.Field | None, numbers: Sequence[str]) -> pa.Table | None:
    """Sums rows of a file by a column as text; None if it has too many values to be a key."""
    whole_number = key is not None and pa.types.is_integer(key.type)
    totals = [("rows", "sum"), *((f"sum {name}", "sum") for name in numbers)]
    parts: list[pa.Table] = []
    held = 0
    for batch in batches:
        size = batch.num_rows
        value = pa.nulls(size, pa.string()) if key is None else batch.column(key.name)
        arrays = {"value": value, "rows": pa.repeat(pa.scalar(1, pa.int64()), size)}
        arrays |= {f"sum {name}": pc.fill_null(batch.column(name).cast(pa.float64()), 0.0) for name in numbers}
        parts.append(_added(pa.table(arrays), totals))
        held += parts[-1].num_rows
        if held > MOST_HELD or (whole_number and parts[-1].num_rows > MOST_NUMBERS):
            parts = [_added(pa.concat_tables(parts), totals)]
            held = parts[0].num_rows
            if held > MOST_HELD // 2 or (whole_number and held > MOST_NUMBERS):
                return None
    if not parts:
        return None
    grouped = _added(pa.concat_tables(parts), totals) if len(parts) > 1 else parts[0]
    if whole_number and grouped.num_rows > MOST_NUMBERS:
        return None
    return grouped.set_column(0, "value", grouped.column("value").cast(pa.string()))


def _added(rows: pa.Table, totals: Sequence[tuple[str, str]]) -> pa.Table:
    added = rows.group_by("value").aggregate(list(totals))
    return added.select(["value", *(f"{name}_sum" for name, _ in totals)]).rename_columns(rows.column_names)


def _largest(grouped: pa.Table, numbers: Sequence[str]) -> list[int]:
    """Chooses the values that are kept: the largest ones by rows, and by each sum."""
    chosen: set[int] = set()
    for name in ("rows", *(f"sum {number}" for number in numbers)):
        chosen.update(pc.select_k_unstable(grouped, LARGEST, [(name, "descending")]).to_pylist())
    return sorted(chosen)


def read_sums(
    table: PurePath, column: str, number: str, names: pa.Array, seen: set[str], whole: bool
) -> Iterator[tuple[pa.Table, bool]]:
    """Yields the sums of files of a table by the values of a column, some hundred files at a time.

    Args:
        table: folder of the published table.
        column: column of the values; `ALL` for one sum a file.
        number: column that is summed; empty for the number of rows.
        names: paths of the files that are wanted.
        seen: gets the paths of the files whose sums were yielded; the others have none.
        whole: whether to leave files out of which some values have no sums.

    Yields:
        Rows `hour`, `value` (text) and `amount`, and whether they are the rest: the amounts of all values without sums.
    """
    wanted = ["path", "hour", "whole", "values", "rows", "rest", *(["numbers", "sums"] if number else [])]
    with lake_errors(f"{sums_path(table)}: the sums cannot be read"):
        for batch in _stored(sums_path(table), column, wanted):
            chosen = pc.is_in(batch.column("path"), value_set=names)
            rows = _some(batch, pc.and_(chosen, batch.column("whole")) if whole else chosen)
            place = np.zeros(rows.num_rows, np.int64)
            if number:
                rows, place = _with_number(rows, number)
            fresh = np.array([name not in seen for name in rows.column("path").to_pylist()], bool)
            rows, place = _some(rows, pa.array(fresh)), place[fresh]
            seen.update(rows.column("path").to_pylist())
            if rows.num_rows:
                yield _amounts(rows, number, place), False
                part = np.flatnonzero(~rows.column("whole").to_numpy(zero_copy_only=False))
                if len(part):
                    yield _rest(rows.take(pa.array(part)), place[part] + bool(number)), True


def _some(rows: pa.RecordBatch, chosen: pa.BooleanArray) -> pa.RecordBatch:
    """Returns the chosen rows; all of them are not copied."""
    return rows if pc.all(chosen).as_py() else rows.filter(chosen)


def _with_number(rows: pa.RecordBatch, number: str) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    """Returns the rows that have sums of a number, and its place among the sums of each."""
    named = rows.column("numbers")
    has = np.flatnonzero(pc.equal(named.flatten(), number).to_numpy(zero_copy_only=False))
    parents = pc.list_parent_indices(named).to_numpy()
    begins = np.searchsorted(parents, np.arange(rows.num_rows))
    each_has = len(has) == rows.num_rows and len(np.unique(parents[has])) == len(has)
    return rows if each_has else rows.take(pa.array(parents[has])), has - begins[parents[has]]


def _amounts(rows: pa.RecordBatch, number: str, place: NDArray[np.int64]) -> pa.Table:
    amounts = rows.column("rows").flatten().cast(pa.float64())
    if number:
        sums = rows.column("sums")
        begins = np.searchsorted(pc.list_parent_indices(sums).to_numpy(), np.arange(rows.num_rows))
        amounts = sums.flatten().take(pa.array(begins + place)).flatten()
    hours = rows.column("hour").take(pc.list_parent_indices(rows.column("values")))
    return pa.table({"hour": hours, "value": rows.column("values").flatten(), "amount": amounts})


def _rest(rows: pa.RecordBatch, place: NDArray[np.int64]) -> pa.Table:
    rest = rows.column("rest")
    begins = np.searchsorted(pc.list_parent_indices(rest).to_numpy(), np.arange(rows.num_rows))
    amounts = rest.flatten().take(pa.array(begins + place))
    return pa.table({"hour": rows.column("hour"), "value": pa.nulls(rows.num_rows, pa.string()), "amount": amounts})


def _stored(path: PurePath, column: str, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields columns of the stored sums by a column, none where there is no table of them."""
    opened = open_table(path)
    if opened is None:
        return
    files = [row["path"] for row in live_files(opened) if row["partition.column"] == column]
    if files:
        parts = [(name, pads.field("column") == column) for name in files]
        dataset = files_dataset(path, parts, SUMS)
        few = pads.ParquetFragmentScanOptions(pre_buffer=False)
        sizes = {"batch_size": GROUPED, "batch_readahead": 1, "fragment_readahead": 1}
        yield from dataset.to_batches(list(names), fragment_scan_options=few, **sizes)
