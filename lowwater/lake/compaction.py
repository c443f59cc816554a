"""Compaction: the small files of a table are joined, and have the same rows."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater import limits
from lowwater.errors import LakeError
from lowwater.lake import tables
from lowwater.lake.open_tables import existing, was_opened
from lowwater.lake.table_logs import pack_logs
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.untrusted import require_modest

if TYPE_CHECKING:
    from deltalake import DeltaTable


# Joins of the small files of tables: the same rows in fewer files. Above `tables`. Delta's own join commits beside
# another one that removed the same files, and rows are there twice. Here the joined files are written first; the
# commit takes those whose files are all still there in the version that it follows, and leaves the others out. So
# nobody waits, and a join that was overtaken does nothing (docs/adr/0151).


AT_ONCE = 2
"""Ledgers that are joined at the end of a command, those first that need it most: no run has to do it for all."""

SELDOM = 16
"""Small files of a ledger that no run reads, which count as one."""


@dataclass(frozen=True)
class _Join:
    """Files of a partition, by name, and the file with their rows."""

    names: frozenset[str]
    file: tables.DataFile


def tidy_ledgers(root: PurePath, ledgers: Iterable[PurePath], unread: Container[PurePath] = ()) -> None:
    """Joins the small files of some ledgers, at the end of a command that wrote to them, and packs the logs of a lake.

    Ledgers that cannot be joined stay as they are: who reads them says what is wrong.

    Args:
        unread: those that no run reads, which wait for others.
    """

    def need(path: PurePath) -> float:
        return max(_fragments(path).values(), default=0) / (SELDOM if path in unread else 1)

    with suppress(LakeError):
        # What this process never looked at it did not write to, and a look at a store takes requests.
        for path in sorted(filter(was_opened, ledgers), key=need, reverse=True)[:AT_ONCE]:
            compact(path)
    pack_logs(root)


def compact(path: PurePath, grouped: int = limits.LEDGER_GROUP_ROWS) -> None:
    """Joins the small files of those partitions of a ledger that have the most, once these are many.

    Args:
        grouped: most rows of a row group, which readers decode as a whole.
    """
    fragments = _fragments(path)
    most = max(fragments.values(), default=0)
    if most > (limits.LEDGER_FRAGMENTS_OF_STORE if isinstance(path, ObjectPath) else limits.LEDGER_FRAGMENTS):
        join(path, lambda row: _is_small(path, row) and fragments[_part(row)] == most, grouped)


def _fragments(path: PurePath) -> Counter[Hashable]:
    """Counts the small files of each partition of a table."""
    table = tables.open_table(path)
    return (
        Counter(_part(row) for row in tables.live_files(table) if _is_small(path, row))
        if table is not None
        else Counter()
    )


def _is_small(path: PurePath, row: Mapping[str, Any]) -> bool:
    return (
        int(row["size_bytes"])
        < (limits.JOINED_LEDGER_BYTES if isinstance(path, ObjectPath) else limits.JOINED_FILE_BYTES) // 2
    )


def join_files(path: PurePath, column: str, values: Sequence[str]) -> bool:
    """Joins the files of some partitions. Returns False if a writer changed one of them meanwhile."""
    wanted = set(values)
    return join(path, lambda row: str(row[f"partition.{column}"]) in wanted)


def join(path: PurePath, chosen: Callable[[Mapping[str, Any]], bool], grouped: int = limits.JOINED_GROUP_ROWS) -> bool:
    """Joins the chosen files of each partition.

    Args:
        chosen: says of a row of `live_files` whether the file is joined with others.
        grouped: most rows of a row group.

    Returns:
        Whether all were joined; a file that a writer has removed meanwhile is not there to be joined.

    Raises:
        LakeError: if the table cannot be read or written.
    """
    with tables.lake_errors(f"{path}: its files cannot be joined"):
        table = existing(path)
        groups = list(_groups(row for row in tables.live_files(table) if chosen(row)))
        tables.require_room(path, sum(row["size_bytes"] for rows in groups for row in rows))
        schema = pa.schema(table.schema().to_arrow())
        joins = [
            _Join(frozenset(row["path"] for row in rows), write_joined(path, schema, rows, grouped)) for rows in groups
        ]
    return not joins or commit_joins(path, joins)


def commit_joins(path: PurePath, joins: Sequence[_Join]) -> bool:
    """Commits the joins whose files are all there; returns whether these were all."""
    done: list[_Join] = []

    def present(newest: DeltaTable) -> list[dict[str, Any]]:
        live = {row["path"]: row for row in tables.live_files(newest)}
        done[:] = [each for each in joins if each.names <= live.keys()]
        return [live[name] for each in done for name in sorted(each.names)]

    tables.swap_files(path, [], present, lambda _: [each.file for each in done], rows_change=False)
    return len(done) == len(joins)


def _groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yields files of one partition, several together, that fit one file; in the order of their rows' `_last`."""
    parts: dict[Hashable, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        parts[_part(row)].append(row)
    for part in parts.values():
        group: list[dict[str, Any]] = []
        size = 0
        for row in sorted(part, key=lambda row: row.get("min._last") or 0):
            if row["size_bytes"] >= limits.JOINED_FILE_BYTES:
                continue
            if size + row["size_bytes"] > limits.JOINED_FILE_BYTES:
                if len(group) > 1:
                    yield group
                group, size = [], 0
            group.append(row)
            size += row["size_bytes"]
        if len(group) > 1:
            yield group


def _part(row: Mapping[str, Any]) -> Hashable:
    return tuple(tables.partition_of(row).items())


def write_joined(path: PurePath, schema: pa.Schema, rows: Sequence[dict[str, Any]], grouped: int) -> tables.DataFile:
    """Writes the rows of files of one partition into a new file beside the first of them, and describes it.

    Args:
        rows: the files, of `live_files`.
        grouped: most rows of a row group.
    """
    partition = tables.partition_of(rows[0])
    columns = pa.schema(
        [pa.field(each.name, tables.plain_type(each.type)) for each in schema if each.name not in partition]
    )
    place = PurePath(unquote(rows[0]["path"])).parent
    target = path / place / f"joined-{uuid.uuid4().hex[:12]}.parquet"
    for row in rows:
        if isinstance(path, Path):
            require_modest(path / row["path"], path / unquote(row["path"]))
    dataset = tables.files_dataset(path, [(row["path"], None) for row in rows], columns)
    with pq.ParquetWriter(paths.draft(target), columns, compression="snappy") as writer:
        for rows_together in _gathered(dataset.to_batches(batch_readahead=2, fragment_readahead=1), columns):
            writer.write_table(rows_together, row_group_size=grouped)
    paths.put(target)
    return replace(tables.describe(path, target, {}), partition=partition)


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of small batches together."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= limits.JOIN_HELD_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)
