"""The Delta tables of a lake: creation, owners, commits that are retried, reads.

Above `opened` only. `deltalake` runs threads of its own, so it is imported inside functions: a process that
forks must not have used it before.
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
_CONFLICT = re.compile(r"oncurrent|transaction: \d+$")
"""What Delta says where other writers were faster, the second after 15 attempts of its own. It has one class for that
and for a disk that refuses: only the text tells them apart."""
FRAGMENTS = 64


@dataclass(frozen=True)
class DataFile:
    """A parquet file that lies in the directory of its table and waits for a commit.

    Attributes:
        path: relative to the table.
        size: bytes.
        rows: number of rows.
        partition: values of the partition columns.
        smallest: least value of each integer column that has statistics; `largest` the greatest.
    """

    path: str
    size: int
    rows: int
    partition: Mapping[str, str]
    smallest: Mapping[str, int]
    largest: Mapping[str, int]


def safe_name(text: str) -> str:
    """A name as a path component: Delta percent-encodes anything else, twice over in some readers.

    Example:
        >>> safe_name("main1/eth0")
        'main1@eth0'
    """
    return re.sub(r"[^A-Za-z0-9_.@-]", "_", text.replace("/", "@"))


def interval_label(start: int, end: int) -> str:
    """The value of the partition `interval` (bounds in ns): one per pair of bounds, in order of time as text.

    Example:
        >>> interval_label(0, 3600 * 10**9)
        '1970-01-01T000000Z_1970-01-01T010000Z'
    """
    return "_".join(format_instant(bound).replace(":", "") for bound in (start, end))


def hours(start: int, end: int) -> tuple[int, int]:
    """First and last hour partition that meet [start, end), ns."""
    return start // HOUR, max(start, end - 1) // HOUR


@contextmanager
def lake_errors(what: str) -> Iterator[None]:
    """Turns what the disk and Delta say into a LakeError that names what was being done."""
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
    """Opens a table, and creates it first where it does not exist; several processes may do so at once.

    A table of the lake itself gets the columns that it lacks.

    Args:
        path: directory of the table.
        schema: with the partition columns.
        partition: their names.
        owner: query set that claims the table (S3); None for the tables of the lake itself.
        config: name of the settings file, for the message.

    Raises:
        OwnerError: if another query set owns it.
        LakeError: if it cannot be made.
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
        return widened(path, table, schema)
    check_owner(path, owner)
    return table


def widened(path: Path, table: DeltaTable, schema: pa.Schema) -> DeltaTable:
    """The table with all columns of a schema; where it lacked one, its rows have NULL."""
    from deltalake import Schema

    def missing(table: DeltaTable) -> list[Any]:
        known = {field.name for field in table.schema().fields}
        return [field for field in Schema.from_arrow(schema).fields if field.name not in known]

    def widen(newest: DeltaTable) -> None:
        if fields := missing(newest):  # else another process was first
            newest.alter.add_columns(fields)

    if not missing(table):
        return table
    commit(path, widen)
    return existing(path)


def check_owner(path: Path, owner: str) -> None:
    """Checks that a table, where it exists, belongs to a query set (S3).

    Raises:
        OwnerError: if it belongs to another.
    """
    table = open_table(path)
    holder = table.metadata().configuration.get(OWNER) if table else owner
    if holder != owner:
        raise OwnerError(
            f"table {path.name!r} belongs to query set {holder!r}, and {owner!r} claims it too",
            f"rename the query {path.name!r} in {owner!r}, or remove {path} if {holder!r} no longer makes it",
        )


def open_table(path: Path) -> DeltaTable | None:
    """The table at its newest version, until this thread asks again; None where there is none."""
    with lake_errors(f"{path}: the table cannot be read"):
        return newest(path)


def commit(path: Path, change: Callable[[DeltaTable], object]) -> None:
    """Applies a change to the newest version, again and again while other writers are faster.

    Raises:
        LakeError: if the commit is refused for another reason, or always.
    """
    from deltalake.exceptions import CommitFailedError

    with lake_errors(f"{path}: cannot be written"):
        for attempt in range(ATTEMPTS):
            table = existing(path)
            forget(path)  # until it has gone well
            try:
                change(table)
                keep(path, table)
                return
            except CommitFailedError as error:
                if attempt + 1 == ATTEMPTS or not _CONFLICT.search(str(error)):
                    raise
                time.sleep(random.uniform(0, min(0.01 * 2**attempt, 1.0)))


def replace_rows(path: Path, rows: pa.Table, predicate: str) -> None:
    """Replaces exactly the rows that satisfy an SQL predicate, in one commit.

    Args:
        path: directory of the table.
        rows: all of them satisfy the predicate.
        predicate: over partition columns and others; partitions beside it keep parallel writers apart.
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
    """Puts files in the place of others, in one atomic commit; nothing is committed where both are empty.

    Args:
        path: directory of the table.
        files: to add; they lie there already.
        old: the rows of `live_files` to remove, given the version that is changed.
        rest: given these rows, writes files of what stays of them.
    """
    from deltalake.transaction import AddAction, RemoveAction

    now = int(time.time() * 1000)
    whole = list(files)

    def change(table: DeltaTable) -> None:
        going = old(table)
        added = [
            AddAction(file.path, file.size, dict(file.partition), now, True, _statistics(file))
            for file in (*whole, *rest(going))
        ]
        removed = [RemoveAction(row["path"], True, now, row["size_bytes"], _partition(row)) for row in going]
        if added or removed:
            names = table.metadata().partition_columns
            table.create_write_transaction([*added, *removed], "append", table.schema(), partition_by=names)

    commit(path, change)


def live_files(table: DeltaTable) -> list[dict[str, Any]]:
    """The files of a version: path, size_bytes, num_records, `partition.X`, `min.X` and `max.X` of each."""
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


def scanned(path: Path, table: DeltaTable) -> pads.Dataset:
    """The rows of an open table as Arrow reads them.

    By Arrow's own files: Delta's are objects of Python, which threads of Arrow may still hold when the process ends.
    They then ask for an interpreter that is gone, and the process aborts ("terminate called without an active
    exception").
    """
    local = fs.SubTreeFileSystem(str(path), fs.LocalFileSystem())
    return table.to_pyarrow_dataset(filesystem=local)


def read_rows(path: Path, schema: pa.Schema, predicate: Any = None) -> pa.Table:
    """The columns of a schema and the rows of a table that a `pyarrow.dataset` expression chooses; none without one."""
    table = open_table(path)
    if table is None:
        return schema.empty_table()
    with lake_errors(f"{path}: the table cannot be read"):
        rows: pa.Table = scanned(path, table).to_table(schema.names, predicate)
    return rows.cast(schema)


def compact(path: Path) -> None:
    """Joins small files of a ledger once there are many; readers open each of them."""
    table = open_table(path)
    if table is not None and len(table.file_uris()) > FRAGMENTS * max(1, len(table.partitions())):
        _join(path, None)


def join_files(path: Path, column: str, values: Sequence[str]) -> bool:
    """Joins the files of some partitions; whether it could: not if a writer changed one of them meanwhile."""
    return _join(path, [(column, "in", list(values))])


def _join(path: Path, partitions: Any) -> bool:
    from deltalake.exceptions import CommitFailedError

    with lake_errors(f"{path}: its files cannot be joined"), _only_one(path) as alone:
        if not alone:
            return False
        table = existing(path)
        forget(path)
        try:
            table.optimize.compact(partition_filters=partitions)
        except CommitFailedError:
            return False  # another writer changed the table meanwhile; the next caller finds it as it was
    return True


@contextmanager
def _only_one(path: Path) -> Iterator[bool]:
    """Whether nobody else joins files of a table: Delta lets two at once both commit, and then rows are there twice."""
    with (path / "_delta_log" / "joining.lock").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def quote(text: str) -> str:
    """An SQL string literal.

    Example:
        >>> quote("o'clock")
        "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"
