"""Delta tables of a lake: creation, owners, commits with retries, reads.

Above `opened` only. `deltalake` has threads of its own, so it is imported inside functions: a process that forks must
not have used it before.
"""

from __future__ import annotations

import fcntl
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from lowwater.errors import LakeError, OwnerError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.opened import existing, forget, keep, newest

if TYPE_CHECKING:
    import pyarrow.dataset as pads
    from deltalake import DeltaTable

OWNER = "lowwater.owner"
ATTEMPTS = 30
_CONFLICT = re.compile(r"oncurrent|(Metadata|Protocol) changed|transaction: \d+$")
"""Messages of Delta when other writers were faster; the last one after its own 15 attempts. Delta raises one class
for this and for disk errors, so only the text tells them apart."""
MOST_FRAGMENTS = 64


@dataclass(frozen=True)
class DataFile:
    """A parquet file in the directory of its table, before its commit.

    Attributes:
        path: path relative to the table.
        size: size in bytes.
        rows: number of rows.
        partition: values of the partition columns.
        smallest: smallest value of every integer column with statistics.
        largest: largest value of each of these columns.
    """

    path: str
    size: int
    rows: int
    partition: Mapping[str, str]
    smallest: Mapping[str, int]
    largest: Mapping[str, int]


def safe_name(text: str) -> str:
    """Makes a path component of a name. Delta percent-encodes other characters, some readers even twice.
    Example:
        >>> safe_name("main1/eth0")
        'main1@eth0'
    """
    return re.sub(r"[^A-Za-z0-9_.@-]", "_", text.replace("/", "@"))


def interval_label(start: int, end: int) -> str:
    """Makes the value of the partition column `interval` of the bounds (ns); its text order is the order of time.
    Example:
        >>> interval_label(0, 3600 * 10**9)
        '1970-01-01T000000Z_1970-01-01T010000Z'
    """
    return "_".join(format_instant(bound).replace(":", "") for bound in (start, end))


def hours(start: int, end: int) -> tuple[int, int]:
    """Returns the first and the last hour partition that meet [start, end), ns."""
    return start // HOUR, max(start, end - 1) // HOUR


@contextmanager
def lake_errors(what: str) -> Iterator[None]:
    """Turns errors of the disk and of Delta into a LakeError; `what` says what failed."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise LakeError(f"{what}: {reason}", "check that the lake is writable and its disk has room") from error
    except DeltaError as error:
        first = str(error).splitlines()[0]
        raise LakeError(f"{what}: {first}", "check that the lake is writable and its disk has room") from error


def create(
    path: Path, schema: pa.Schema, partition: Sequence[str] = (), owner: str | None = None, config: str = ""
) -> DeltaTable:
    """Opens a table, and creates it if it does not exist; several processes may do so at once.

    A table of the lake itself gets missing columns.

    Args:
        path: directory of the table.
        schema: schema, partition columns included.
        partition: names of the partition columns.
        owner: query set that claims the table (S3); None for tables of the lake itself.
        config: name of the settings file, for the message.

    Raises:
        OwnerError: if another query set owns the table.
        LakeError: if the table cannot be created.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    properties: dict[str, str | None] = {"delta.enableDeletionVectors": "false"}
    if owner is not None:
        properties[OWNER] = owner
    with lake_errors(f"{path}: the table cannot be opened"):
        if newest(path) is None:
            path.mkdir(parents=True, exist_ok=True)
            try:
                DeltaTable.create(
                    str(path),
                    schema,
                    mode="error",
                    partition_by=list(partition),
                    configuration=properties,
                    raise_if_key_not_exists=False,
                )
            except DeltaError:
                if not DeltaTable.is_deltatable(str(path)):  # else another process was first
                    raise
        table = existing(path)
    if owner is None:
        return with_columns(path, table, schema)
    check_owner(path, owner)
    return table


def with_columns(path: Path, table: DeltaTable, schema: pa.Schema) -> DeltaTable:
    """Adds missing columns to a table, NULL in its rows, and returns it."""
    from deltalake import Schema

    wanted = Schema.from_arrow(pa.schema([field.with_nullable(True) for field in schema])).fields

    def missing(table: DeltaTable) -> list[Any]:
        names = {field.name for field in table.schema().fields}
        return [field for field in wanted if field.name not in names]

    def widen(newest: DeltaTable) -> None:
        if fields := missing(newest):  # else another process was first
            newest.alter.add_columns(fields)

    if not missing(table):
        return table
    commit(path, widen)
    return existing(path)


def check_owner(path: Path, owner: str) -> None:
    """Checks that a table, if it exists, belongs to a query set (S3).

    Raises:
        OwnerError: if it belongs to another query set.
    """
    table = open_table(path)
    holder = table.metadata().configuration.get(OWNER) if table else owner
    if holder != owner:
        raise OwnerError(
            f"table {path.name!r} belongs to query set {holder!r}, and {owner!r} claims it too",
            f"rename the query {path.name!r} in {owner!r}, or remove {path} if {holder!r} no longer makes it",
        )


def open_table(path: Path) -> DeltaTable | None:
    """Returns a table at its newest version; None if there is none. The next call in this thread may update it."""
    with lake_errors(f"{path}: the table cannot be read"):
        return newest(path)


def commit(path: Path, change: Callable[[DeltaTable], object]) -> None:
    """Commits a change of the newest version, and retries while other writers are faster.

    Raises:
        LakeError: if the commit fails for another reason, or every time.
    """
    from deltalake.exceptions import CommitFailedError

    with lake_errors(f"{path}: cannot be written"):
        for attempt in range(ATTEMPTS):
            table = existing(path)
            forget(path)  # until the commit has succeeded
            try:
                change(table)
                keep(path, table)
                return
            except CommitFailedError as error:
                if attempt + 1 == ATTEMPTS or not _CONFLICT.search(str(error)):
                    raise
                time.sleep(random.uniform(0, min(0.01 * 2**attempt, 1.0)))


def replace_rows(path: Path, rows: pa.Table, predicate: str) -> None:
    """Replaces the rows that satisfy an SQL predicate, in one commit.

    Args:
        path: directory of the table.
        rows: new rows; all satisfy the predicate.
        predicate: condition on columns; partition columns in it keep parallel writers apart.
    """
    from deltalake import write_deltalake

    commit(path, lambda table: write_deltalake(table, rows, mode="overwrite", predicate=predicate))


def append_rows(path: Path, rows: pa.Table) -> None:
    """Appends rows in one commit."""
    from deltalake import write_deltalake

    commit(path, lambda table: write_deltalake(table, rows, mode="append"))


def swap_files(
    path: Path,
    files: Iterable[DataFile],
    old: Callable[[DeltaTable], list[dict[str, Any]]],
    rest: Callable[[list[dict[str, Any]]], Iterable[DataFile]] = lambda _: (),
) -> None:
    """Replaces files by others, in one atomic commit; commits nothing without files.

    Args:
        path: directory of the table.
        files: files to add; they are in the directory already.
        old: returns the rows of `live_files` to remove from the version that is changed.
        rest: gets these rows; writes and returns files for the part of their content that stays.
    """
    from deltalake.transaction import AddAction, RemoveAction

    now = int(time.time() * 1000)
    new_files = list(files)

    def change(table: DeltaTable) -> None:
        old_files = old(table)
        added = [
            AddAction(file.path, file.size, dict(file.partition), now, True, _statistics(file))
            for file in (*new_files, *rest(old_files))
        ]
        removed = [RemoveAction(row["path"], True, now, row["size_bytes"], _partition(row)) for row in old_files]
        if added or removed:
            names = table.metadata().partition_columns
            table.create_write_transaction([*added, *removed], "append", table.schema(), partition_by=names)

    commit(path, change)


def live_files(table: DeltaTable) -> list[dict[str, Any]]:
    """Lists the files of a version: path, size_bytes, num_records, and `partition.X`, `min.X`, `max.X` of columns X."""
    rows: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return rows


def _partition(row: Mapping[str, Any]) -> dict[str, str | None]:
    prefix = "partition."
    return {
        name.removeprefix(prefix): None if value is None else str(value)
        for name, value in row.items()
        if name.startswith(prefix)
    }


def _statistics(file: DataFile) -> str:
    return json.dumps(
        {"numRecords": file.rows, "minValues": dict(file.smallest), "maxValues": dict(file.largest), "nullCount": {}}
    )


def table_dataset(path: Path, table: DeltaTable) -> pads.Dataset:
    """Returns an open table as an Arrow dataset.

    The dataset reads by Arrow's own files. Delta's files are Python objects, which Arrow's threads may still hold when
    the interpreter is gone: the process would abort ("terminate called without an active exception").
    """
    local = fs.SubTreeFileSystem(str(path), fs.LocalFileSystem())
    return table.to_pyarrow_dataset(filesystem=local)


def read_rows(path: Path, schema: pa.Schema, predicate: Any = None) -> pa.Table:
    """Reads the columns of a schema, and the rows that a `pyarrow.dataset` expression selects; none without a table."""
    table = open_table(path)
    if table is None:
        return schema.empty_table()
    with lake_errors(f"{path}: the table cannot be read"):
        rows: pa.Table = table_dataset(path, table).to_table(schema.names, predicate)
    return rows.cast(schema)


def compact(path: Path) -> None:
    """Joins the small files of a ledger once there are many, since readers open every file."""
    table = open_table(path)
    if table is not None and len(table.file_uris()) > MOST_FRAGMENTS * max(1, len(table.partitions())):
        _join(path, None)


def join_files(path: Path, column: str, values: Sequence[str]) -> bool:
    """Joins the files of some partitions. Returns False if a writer changed one of them meanwhile."""
    return _join(path, [(column, "in", list(values))])


def _join(path: Path, partitions: Any) -> bool:
    from deltalake.exceptions import CommitFailedError

    with lake_errors(f"{path}: its files cannot be joined"), _exclusive(path) as alone:
        if not alone:
            return False
        table = existing(path)
        forget(path)
        try:
            table.optimize.compact(partition_filters=partitions)
        except CommitFailedError:
            return False  # another writer changed the table meanwhile; it stays as it was
    return True


@contextmanager
def _exclusive(path: Path) -> Iterator[bool]:
    """Yields whether nobody else joins files of the table: Delta lets two joins commit, and rows would be doubled."""
    with (path / "_delta_log" / "joining.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def quote(text: str) -> str:
    """Quotes a text as an SQL string literal.

    Example:
        >>> quote("o'clock")
        "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"
