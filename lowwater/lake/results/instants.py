"""Published tables of older versions get the columns of instants: their files are written again with them.

Called by `lowwater maintain`. No row changes, so digests stay, and subscribers are told nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.high.sink.hours import instants
from lowwater.lake.described import describe
from lowwater.lake.layout import Lake
from lowwater.lake.tables import (
    DataFile,
    commit,
    lake_errors,
    live_files,
    open_table,
    swap_files,
    with_columns,
)
from lowwater.plan.operators import Field
from lowwater.plan.properties.instant_columns import INSTANT, InstantColumn, instant_columns
from lowwater.storage import paths

if TYPE_CHECKING:
    from deltalake import DeltaTable

TAKEN_OVER: Mapping[str, str] = MappingProxyType({"lowwater.instants": "1"})
"""Property of a table whose rows all have their instants: of each new one, and of an older one once it is filled."""

FILES = 64
"""Most files of a commit."""


class _ChangedError(Exception):
    """A run replaced one of the files meanwhile."""


def fill_instants(lake: Lake, query: str, fields: Sequence[Field], dry_run: bool = False) -> tuple[int, int]:
    """Fills the columns of instants of a table that an older version made.

    It may be killed at any moment, and go on later; runs may publish meanwhile.

    Args:
        lake: the lake.
        query: an output query.
        fields: fields of its plan node.
        dry_run: whether to count only.

    Returns:
        Number of files that were written again, or would be, and their bytes.

    Raises:
        LakeError: if the table cannot be read or written.
    """
    path = lake.table(query)
    table, columns = open_table(path), instant_columns(fields)
    if table is None or not columns:
        return 0, 0
    with lake_errors(f"{path}: the instants of its rows cannot be written"):
        if table.metadata().configuration.get(next(iter(TAKEN_OVER))):
            return 0, 0
        fitting = _fitting(table, columns)
        if dry_run:
            waiting = list(_waiting(path, table, fitting))
            return len(waiting), sum(row["size_bytes"] for row in waiting)
        return _fill(lake, path, fitting)


def _fitting(table: DeltaTable, columns: Sequence[InstantColumn]) -> list[InstantColumn]:
    """Returns the columns whose name no column of another type has, and whose values the table has."""
    kinds = {field.name.lower(): field.type for field in pa.schema(table.schema().to_arrow())}
    return [
        column
        for column in columns
        if kinds.get(column.of.lower()) == pa.int64() and kinds.get(column.name.lower(), INSTANT) == INSTANT
    ]


def _fill(lake: Lake, path: PurePath, columns: Sequence[InstantColumn]) -> tuple[int, int]:
    count = size = 0
    table = open_table(path)
    assert table is not None
    with_columns(path, table, pa.schema([pa.field(column.name, INSTANT) for column in columns]))
    while True:
        table = open_table(path)
        assert table is not None
        waiting = list(_waiting(path, table, columns))
        for at in range(0, len(waiting), FILES):
            chosen = waiting[at : at + FILES]
            try:
                _rewrite(lake, path, chosen, columns)
            except _ChangedError:
                break
            count += len(chosen)
            size += sum(row["size_bytes"] for row in chosen)
        else:
            break
    commit(path, _settled)
    return count, size


def _settled(table: DeltaTable, options: dict[str, Any]) -> None:
    table.alter.set_table_properties(dict(TAKEN_OVER), False, commit_properties=options["commit_properties"])


def completed(path: PurePath, file: DataFile, fields: Sequence[Field]) -> DataFile:
    """Returns a file of rows that is not committed yet, written again if it lacks instants.

    Args:
        path: folder of the table.
        file: the file, in the folder.
        fields: fields of the query.
    """
    columns = instant_columns(fields)
    metadata = pq.read_metadata(paths.local(path / file.path))
    if not _lacks(metadata, columns):
        return file
    row = {"path": file.path, "partition._hour": file.partition["_hour"]}
    return _filled(path, row, f"times-{uuid.uuid4().hex[:12]}.parquet", columns)


def _waiting(path: PurePath, table: DeltaTable, columns: Sequence[InstantColumn]) -> Iterator[dict[str, Any]]:
    """Yields the files in which an instant is missing where its temporal column has a value."""
    for row in live_files(table):
        metadata = pq.read_metadata(paths.local(path / row["path"]))
        if _lacks(metadata, columns):
            yield row


def _lacks(metadata: pq.FileMetaData, columns: Sequence[InstantColumn]) -> bool:
    return any(_nulls(metadata, column.name) != _nulls(metadata, column.of) for column in columns)


def _nulls(metadata: pq.FileMetaData, name: str) -> int:
    """Returns the number of NULLs of a column; all rows where it is absent, -1 where it is unknown."""
    total = 0
    for group in range(metadata.num_row_groups):
        part = metadata.row_group(group)
        found = [part.column(at) for at in range(part.num_columns) if part.column(at).path_in_schema == name]
        statistics = found[0].statistics if found else None
        if found and (statistics is None or not statistics.has_null_count):
            return -1
        total += statistics.null_count if statistics is not None else part.num_rows
    return total


def _rewrite(lake: Lake, path: PurePath, rows: Sequence[dict[str, Any]], columns: Sequence[InstantColumn]) -> None:
    attempt = uuid.uuid4().hex[:12]
    added = [_filled(path, row, f"times-{attempt}-{at:05d}.parquet", columns) for at, row in enumerate(rows)]
    names = {row["path"] for row in rows}

    def present(newest: DeltaTable) -> list[dict[str, Any]]:
        found = [row for row in live_files(newest) if row["path"] in names]
        if len(found) < len(names):
            raise _ChangedError
        return found

    swap_files(path, added, present, fence=lake.fence, rows_change=False)


def _filled(path: PurePath, row: Mapping[str, Any], name: str, columns: Sequence[InstantColumn]) -> DataFile:
    """Writes a file of a table again with the instants of its rows."""
    partition = {"_hour": str(row["partition._hour"])}
    target = path / f"_hour={partition['_hour']}" / name
    with pq.ParquetFile(paths.local(path / row["path"])) as stored:
        writer = None
        for batch in stored.iter_batches(1 << 20):
            table = pa.Table.from_batches([batch])
            for column in columns:
                values = instants(column, table.column(column.of))
                at = table.schema.get_field_index(column.name)
                field = pa.field(column.name, INSTANT)
                table = table.append_column(field, values) if at < 0 else table.set_column(at, field, values)
            writer = writer or pq.ParquetWriter(paths.draft(target), table.schema, compression="lz4")
            writer.write_table(table)
        if writer is not None:
            writer.close()
    paths.place(target)
    return replace(describe(path, target, {}), partition=partition)
