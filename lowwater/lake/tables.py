"""Delta tables of a lake: creation, owners, commits with retries, reads, and what a commit says of each file."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, reduce
from hashlib import sha256
from operator import and_
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from lowwater import instants, limits
from lowwater.documents import stored_texts
from lowwater.errors import LakeError, OwnerError, TakenOverError
from lowwater.lake import open_tables
from lowwater.lake.open_tables import newest
from lowwater.storage import paths
from lowwater.storage.failures import MAY, Door, StoreError, lake_error, store_error
from lowwater.storage.locks import Fence, LostError
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.untrusted import require_names

if TYPE_CHECKING:
    import pyarrow.dataset as pads
    from deltalake import CommitProperties, DeltaTable


# `deltalake` has threads of its own, so it is imported inside functions: a process that forks must not have used it
# before.

OWNER = "lowwater.owner"
_TOKEN = "lowwater.commit"
CHECKPOINTS = 100
"""Commits between two checkpoints, as Delta makes them, and between two clean-ups of the log."""
ROOM_HINT = "check that the lake is writable and its disk has room"
GONE_HINT = (
    "a file that its log names is gone: `lowwater maintain`, then `lowwater backfill` make rows of a published table "
    "again; `lowwater verify` says it of other tables"
)
DAMAGED_HINT = "`lowwater verify` with --data says which files are damaged, and how they are made again"
_PAGE = re.compile("CRC checksum verification failed|Could not open Parquet|[Cc]orrupt|deserialize thrift")
LOG_HINT = "the log of the table is damaged, or another program wrote it: `lowwater verify` says what makes it again"
_LOG = re.compile("[Kk]ernel error|Arrow error|Invalid (JSON|Checkpoint)|log file|schema")
_FRAMES = re.compile(r" (stack backtrace: )?0: (<unknown>|[\w:<>]+( at \S+)?) 1: .*")
"""Frames of a stack, which errors of Delta's library end with."""
_DISK = re.compile("No space left on device|Disk quota exceeded|File too large|Read-only file system|Permission denied")
Options = dict[str, Any]
"""Arguments of a method of Delta that commits: `commit_properties` and `post_commithook_properties`."""
ATTEMPTS = 30
UNKNOWN = 4
"""Tries of a commit of which it is not known whether the store wrote it; the client has sent each several times."""
_CONFLICT = re.compile(r"oncurrent|(Metadata|Protocol) changed|transaction: \d+$")
"""Messages of Delta when other writers were faster; the last one after its own 15 attempts. Delta raises one class
for this and for disk errors, so only the text tells them apart."""
_STORE = re.compile(r"https?://|Generic (S3|GCS|MicrosoftAzure) error|status code: \d\d\d|object store")
"""Errors of Delta that are errors of an object store."""


@dataclass(frozen=True)
class DataFile:
    """A parquet file in the directory of its table, before its commit."""

    path: str  # path relative to the table
    size: int  # size in bytes
    rows: int
    partition: Mapping[str, str | None]
    smallest: Mapping[str, Any]  # lower bound of every column with statistics, as JSON
    largest: Mapping[str, Any]  # upper bound of each of these columns
    nulls: Mapping[str, int] = field(default_factory=dict)  # number of NULLs of every column where it is known


def safe_name(text: str) -> str:
    """Makes a path component of a name of a link, query set or query; two names never have one. Delta percent-encodes
    other characters, some readers even twice.

    Example:
        >>> safe_name("main1/eth0"), safe_name("pc/以太网"), safe_name("my flows")
        ('main1@eth0', 'pc@___.2d4c6e2e5a326b15', 'my_flows.266dad18f4d19c79')
    """
    family, mark, interface = text.partition("/")
    if _stands(family) and (not mark or _stands(interface, _SHOWN)):
        return text.replace("/", "@")
    shown = [_OTHER.sub("_", part[:_SHOWN]) for part in (family, interface)]
    return f"{mark and '@'}".join(shown) + f".{sha256(text.encode(errors='surrogateescape')).hexdigest()[:16]}"


def _stands(name: str, longest: int = 255) -> bool:
    """Whether a name stands in a path as it is: not one that means a folder, or that looks like one with a digest."""
    return not (_OTHER.search(name) or name in ("", ".", "..") or _DIGEST.search(name) or len(name) > longest)


_SHOWN = 64
_OTHER, _DIGEST = re.compile(r"[^A-Za-z0-9_.-]"), re.compile(r"\.[0-9a-f]{16}$")


def interval_label(start: int, end: int) -> str:
    """Makes the value of the partition column `interval` of the bounds (ns), such as
    `1970-01-01T000000Z_1970-01-01T010000Z`; its text order is the order of time."""
    return "_".join(instants.format_instant(bound).replace(":", "") for bound in (start, end))


def interval_page(query_set: str, start: int, end: int) -> str:
    """Address of the page of an interval, ns, relative to the start of the pages."""
    return f"interval/{safe_name(query_set)}/{interval_label(start, end)}.html"


def label_bounds(label: str) -> tuple[int, int] | None:
    """Returns the bounds (ns) of `interval_label`; None for another text.

    Example:
        >>> label_bounds("1970-01-01T000000Z_1970-01-01T010000Z")
        (0, 3600000000000)
    """
    found = _LABEL.fullmatch(label)
    if found is None:
        return None
    start, end = ("{}T{}:{}:{}".format(*found.groups()[at : at + 4]) for at in (0, 4))
    return instants.parse_instant(start), instants.parse_instant(end)


_LABEL = re.compile("_".join([r"([-+0-9]+)T([0-9]{2})([0-9]{2})([0-9.]+Z)"] * 2))


def hours(start: int, end: int) -> tuple[int, int]:
    """Returns the first and the last hour partition that meet [start, end), ns."""
    return start // instants.HOUR, max(start, end - 1) // instants.HOUR


def lake_errors(what: str) -> Door:
    """Turns errors of the disk and of Delta into a LakeError; `what` says what failed."""
    return Door(lambda error: _told(what, error))


def _told(what: str, error: BaseException) -> LakeError | None:
    from deltalake.exceptions import DeltaError

    if isinstance(error, StoreError):
        return lake_error(error, f"{what}: {error.strerror}", error.hint)
    if isinstance(error, LakeError):
        return None  # it says what is wrong
    if isinstance(error, (OSError, DeltaError)) and _STORE.search(str(error)):
        refused = store_error(error)  # of Delta's own request
        return lake_error(refused, f"{what}: {refused.strerror}", refused.hint)
    if type(error).__name__ == "PanicException":  # of Rust, which is no Exception
        return LakeError(f"{what}: Delta's library gave up: {_one_line(error)}", LOG_HINT)
    if not isinstance(error, (OSError, DeltaError, pa.ArrowException)):
        return None
    said, hint = _one_line(error), LOG_HINT
    if _PAGE.search(said):
        return LakeError(f"{what}: {said}", DAMAGED_HINT)
    if isinstance(error, OSError):
        said = error.strerror or said
        hint = GONE_HINT if isinstance(error, FileNotFoundError) else ROOM_HINT
    elif isinstance(error, DeltaError) and not _LOG.search(str(error)):
        hint = ROOM_HINT
    if "Permission denied" in said:
        hint = MAY
    told = lake_error(error, f"{what}: {said}", hint)
    told.__cause__ = error
    return told


def _one_line(error: BaseException) -> str:
    """Returns what Delta says, which may be a tree of lines with colours; of a disk only what is wrong with it."""
    text = " ".join(re.sub("\x1b\\[[0-9;]*m|↳", " ", str(error)).split())
    text = _FRAMES.sub("", text)
    found = _DISK.search(text)
    if found:
        return found[0]
    return text if len(text) <= limits.LIBRARY_MESSAGE_CHARACTERS else f"{text[: limits.LIBRARY_MESSAGE_CHARACTERS]}..."


def require_room(path: PurePath, more: int = 0) -> None:
    """Checks that the disk of a local table has room for a commit, and so many bytes more: Delta's threads panic in the
    middle of one.
    Raises OSError if it has not."""
    if isinstance(path, Path):
        disk = os.statvfs(path)
        if disk.f_bavail * disk.f_frsize < limits.COMMIT_ROOM_BYTES + more:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def create(
    path: PurePath,
    schema: pa.Schema,
    partition: Sequence[str] = (),
    owner: str | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
    about: str = "",
) -> DeltaTable:
    """Opens a table, and creates it if it does not exist; several processes may do so at once.

    `owner` is the query set that claims the table (S3). Without one it is a table of the lake itself, which gets
    missing columns.
    Raises OwnerError if another query set owns the table, and LakeError if the table cannot be created."""
    from deltalake import CommitProperties

    properties: dict[str, str | None] = {"delta.enableDeletionVectors": "false", **more}
    if owner is not None:
        properties[OWNER] = owner
    with lake_errors(f"{path}: the table cannot be opened"):
        table = newest(path, follow=False)
        if table is None:
            paths.make_folders(path)
            require_room(path)
            table = open_tables.make_table(
                path,
                schema=schema,
                mode="error",
                partition_by=list(partition),
                configuration=properties,
                description=about or None,
                raise_if_key_not_exists=False,
                # Delta would create it once more, behind the first commits of the process that was faster.
                commit_properties=CommitProperties(max_commit_retries=0),
            ) or open_tables.existing(path)
            _flush_log(path, 0)
            paths.flush(path / "_delta_log", path)
    if table.metadata().partition_columns != list(partition):
        raise _foreign(path)
    if owner is None:
        return with_columns(path, table, schema)
    _require_owner(path, table, owner)
    return table


def _foreign(path: PurePath) -> LakeError:
    return LakeError(
        f"{path}: another program made this table, and Lowwater does not write to it",
        "choose another folder or prefix for the lake, or move the table elsewhere",
    )


def with_columns(path: PurePath, table: DeltaTable, schema: pa.Schema) -> DeltaTable:
    """Adds missing columns to a table, NULL in its rows, and returns it."""
    from deltalake import Schema

    wanted = Schema.from_arrow(pa.schema([field.with_nullable(True) for field in schema])).fields

    def missing(table: DeltaTable) -> list[Any]:
        names = {field.name for field in table.schema().fields}
        return [field for field in wanted if field.name not in names]

    def widen(newest: DeltaTable, options: Options) -> None:
        if fields := missing(newest):  # else another process was first
            newest.alter.add_columns(fields, **options)

    if not missing(table):
        return table
    commit(path, widen)
    return open_tables.existing(path)


def with_properties(
    path: PurePath, table: DeltaTable, properties: Mapping[str, str], fence: Fence | None = None
) -> DeltaTable:
    """Sets properties of a table that differ, and returns it."""

    def differing(table: DeltaTable) -> dict[str, str]:
        has = table.metadata().configuration
        return {name: value for name, value in properties.items() if has.get(name) != value}

    def note(newest: DeltaTable, options: Options) -> None:
        if values := differing(newest):
            newest.alter.set_table_properties(values, False, **options)

    if not differing(table):
        return table
    commit(path, note, fence)
    return open_tables.existing(path)


CHECK = "delta.constraints."
UNCHECKED = "lowwater.unchecked"
"""Property of a table: constraints that it does not have, since rows that were published before break them."""


def with_constraints(
    path: PurePath, table: DeltaTable, wanted: Mapping[str, str], fence: Fence | None = None
) -> DeltaTable:
    """Gives a table on this machine the CHECK constraints that are wanted (name -> SQL), takes others of ours from it,
    and returns it. Delta reads the table for each that is new. The names of ours begin with `lowwater_`, and a name is
    always of the same SQL."""
    from deltalake.exceptions import DeltaError

    has = table.metadata().configuration
    ours = {name.removeprefix(CHECK) for name in has if name.startswith(f"{CHECK}lowwater_")}
    broken = set(stored_texts(has.get(UNCHECKED) or "[]")) & wanted.keys()
    if not isinstance(path, Path) or (ours | broken == wanted.keys() and not broken & ours):
        return table
    for name in sorted(ours - wanted.keys()):
        commit(path, lambda newest, options, name=name: newest.alter.drop_constraint(name, False, **options), fence)  # type: ignore[misc]
    for name in sorted(wanted.keys() - ours - broken):
        check = {name: wanted[name]}
        try:
            commit(path, lambda newest, options, check=check: newest.alter.add_constraint(check, **options), fence)  # type: ignore[misc]
        except LakeError as error:
            if not isinstance(error.__cause__, DeltaError):
                raise
            broken.add(name)
    return with_properties(
        path, open_tables.existing(path), {UNCHECKED: json.dumps(sorted(broken)) if broken else ""}, fence
    )


def check_owner(path: PurePath, owner: str, follow: bool = True) -> None:
    """Checks that a table, if it exists, belongs to a query set (S3); `follow` as of `open_tables.newest`.
    Raises OwnerError if it belongs to another query set."""
    if (table := open_table(path, follow)) is not None:
        _require_owner(path, table, owner)


def _require_owner(path: PurePath, table: DeltaTable, owner: str) -> None:
    holder = table.metadata().configuration.get(OWNER)
    if holder is None:
        raise _foreign(path)
    if holder != owner:
        raise OwnerError(
            f"table {path.name!r} belongs to query set {holder!r}, and {owner!r} claims it too",
            f"`lowwater move query` {path.name} with --to {owner} if it is a query of that set now; "
            f"`lowwater rename set` {holder} {owner} if the set is called so now; else give the query another name",
        )


def open_table(path: PurePath, follow: bool = True) -> DeltaTable | None:
    """Returns a table at its newest version; None if there is none. The next call in this thread may update it.
    `follow` as of `open_tables.newest`."""
    with lake_errors(f"{path}: the table cannot be read"):
        return newest(path, follow)


def commit(path: PurePath, change: Callable[[DeltaTable, Options], object], fence: Fence | None = None) -> None:
    """Commits a change of the newest version, and computes it again for a newer one while other writers are faster.

    Every commit of a lake comes through here, and is for exactly the version that `change` was given (docs/adr/0151):
    Delta's own tries on newer versions let two commits remove the same file. It has a token by which it is found in the
    log. Where it is unknown whether the store wrote it, the same version is written again, until it is known.
    `change` makes the change, with the options for the method of Delta that commits it, and may run often. A former
    holder of the lease `fence` cannot commit any more; there is none where the kernel has the lock.
    Raises LakeError if the lease is lost, or the commit fails for another reason than other writers, or every time."""
    doubts: list[Exception] = []
    try:
        with lake_errors(f"{path}: cannot be written"):
            require_room(path)
            _commit(path, change, fence, doubts)
    except BaseException as error:
        if fence is not None and (doubts or not isinstance(error, Exception)):
            fence.doubt()
        raise


def _commit(
    path: PurePath, change: Callable[[DeltaTable, Options], object], fence: Fence | None, doubts: list[Exception]
) -> None:
    """Commits as `commit`; `doubts` gets the errors after which it was not known whether the commit is there."""
    from deltalake.exceptions import CommitFailedError, DeltaError

    token, first, owner = uuid.uuid4().hex, -1, ""
    for attempt in range(ATTEMPTS):
        table = open_tables.existing(path, follow=attempt > 0)
        open_tables.forget(path)  # until the commit has succeeded
        holder = table.metadata().configuration.get(OWNER) or ""
        first, owner = (table.version(), holder) if first < 0 else (first, owner)
        try:
            if doubts and _in_log(path, first, token):
                return  # it came late: what is computed now would be on top of it
            if holder != owner:
                raise LakeError(f"{path}: its query set has changed meanwhile", "run the command again")
            made, version = _options(path, table, token, fence), table.version() + 1
            open_tables.change(path, table, partial(change, table, made))
            _flush_log(path, version)
            break
        except (DeltaError, OSError) as error:
            conflict = isinstance(error, CommitFailedError) and _CONFLICT.search(str(error))
            of_store = not isinstance(path, Path) and _STORE.search(str(error))
            # The store may have done, or may still do, what failed.
            doubtful = not conflict and bool(of_store) and not store_error(error).lasting
            doubts += [error] * doubtful
            try:
                if _in_log(path, first, token):
                    return
            except OSError:
                doubts.append(error)
                raise error from None
            if attempt + 1 == ATTEMPTS or not (conflict or (doubtful and len(doubts) < UNKNOWN)):
                raise
            time.sleep(random.uniform(0, min(0.01 * 2**attempt, 1.0)))
    with suppress(OSError):  # it is committed; the next one opens it again
        open_tables.keep(path, table)


def _flush_log(path: PurePath, version: int) -> None:
    """Lets the disk write a commit, if it was made, and the checkpoint of it, before anybody is told of it."""
    if isinstance(path, Path):
        checkpoint = [path / "_delta_log" / name for name in (f"{version:020d}.checkpoint.parquet", "_last_checkpoint")]
        files = [Path(open_tables.commit_file(path, version)), *(checkpoint if checkpoint[0].exists() else [])]
        paths.flush(*(file for file in files if file.exists()))


def _options(path: PurePath, table: DeltaTable, token: str, fence: Fence | None) -> Options:
    """Returns what a commit carries, and whether it cleans the log: as often as Delta makes a checkpoint. By itself
    Delta looks for old entries at each commit, for which a store lists the whole log."""
    from deltalake import PostCommitHookProperties

    if isinstance(path, ObjectPath):  # its mirror does both
        hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
    else:
        cleans = (table.version() + 1) % CHECKPOINTS == 0 and _clock_agrees(path)
        hooks = PostCommitHookProperties(cleanup_expired_logs=None if cleans else False)
    return {"commit_properties": _properties(path, table, token, fence), "post_commithook_properties": hooks}


def _clock_agrees(path: PurePath) -> bool:
    """Whether the clock of this machine is that of the store: Delta judges by it which entries of a log are old."""
    try:
        return abs(time.time_ns() - paths.clock(path)) < instants.HOUR
    except OSError:
        return False


def _properties(path: PurePath, table: DeltaTable, token: str, fence: Fence | None) -> CommitProperties:
    """Returns the token and the fence of a commit. With them it is a commit after the version that was looked at, or
    none: Delta itself does not try again on a newer one.
    Raises LakeError if the lease was lost."""
    from deltalake import CommitProperties, Transaction

    fences = []
    if fence is not None:
        require_held(path, fence)
        for name in fence.names:
            if (table.transaction_version(name) or 0) > fence.number:
                raise lost(path, f"a later run has written to {path.name}")
            fences.append(Transaction(name, fence.number))
    return CommitProperties(custom_metadata={_TOKEN: token}, max_commit_retries=0, app_transactions=fences)


def require_held(path: PurePath, fence: Fence) -> None:
    """Checks that a lease under which a table is changed is still held, as far as its holder knows.
    Raises TakenOverError if it is not."""
    try:
        fence.require()
    except LostError as error:
        raise lost(path, str(error)) from None


def lost(path: PurePath, reason: str) -> TakenOverError:
    """Makes the error of a process that may not write any more."""
    return TakenOverError(
        f"{path}: not written, since this process is no longer the one at work on it: {reason}",
        "nothing is lost: the other run does the work; look at `lowwater status`, and run what is still missing",
    )


def _in_log(path: PurePath, before: int, token: str) -> bool:
    """Whether the log of a table has the commit with a token after a version."""
    version = before + 1
    while True:
        try:
            if token.encode() in paths.read(open_tables.commit_file(path, version)):
                return True
        except FileNotFoundError:
            return False
        version += 1


def fence_off(tables: Iterable[PurePath], fence: Fence | None) -> None:
    """Writes the number of a lease that was taken over into tables, before anything else is looked at.

    What the former holder still sends, or a store still does for it, then comes too late. A holder that fails before
    the end of this does not give its lease up, so that the next one does it.
    """
    if fence is not None and fence.taken:
        for path in tables:
            claim(path, fence)
        fence.written()


def claim(path: PurePath, fence: Fence) -> None:
    """Commits nothing but the fence, so that the former holder of a lease cannot commit to the table any more."""

    def fenced(table: DeltaTable, options: Options) -> None:
        names = table.metadata().partition_columns
        table.create_write_transaction([], "append", table.schema(), partition_by=names, **options)

    if open_table(path) is not None:
        commit(path, fenced, fence)


def replace_rows(path: PurePath, rows: pa.Table, replaced: pads.Expression | None, fence: Fence | None = None) -> None:
    """Replaces the rows of a ledger that an expression selects, or all rows without one, in one commit. Small files of
    a store become one with the new rows, as those of `append_rows`."""
    if isinstance(path, ObjectPath) and replaced is not None:
        _write_with_small(path, rows, replaced, fence)
        return
    kept: dict[str, pa.Table] = {}  # file -> the rows that stay of it

    def meeting(table: DeltaTable) -> list[dict[str, Any]]:
        kept.clear()
        return live_files(table) if replaced is None else _selected(path, table, replaced, kept)

    def rest(_: list[dict[str, Any]]) -> list[DataFile]:
        return [file for staying in kept.values() if len(staying) for file in _write_rows(path, staying)]

    with lake_errors(f"{path}: cannot be written"):
        added = _write_rows(path, rows)
    swap_files(path, added, meeting, rest, fence)


def _selected(
    path: PurePath, table: DeltaTable, replaced: pads.Expression, kept: dict[str, pa.Table]
) -> list[dict[str, Any]]:
    """Returns the rows of `live_files` of files with rows that an expression selects; `kept` gets the other rows."""
    schema = pa.schema(table.schema().to_arrow())
    for row in (rows := live_files(table)):
        if (staying := _rest_of(path, schema, row, replaced)) is not None:
            kept[row["path"]] = staying
    return [row for row in rows if row["path"] in kept]


def _rest_of(path: PurePath, schema: pa.Schema, row: Mapping[str, Any], replaced: pads.Expression) -> pa.Table | None:
    """Returns the rows of a file that an expression does not select; None if it selects none."""
    dataset = files_dataset(path, [(row["path"], _partition_filter(row))], schema)
    if not any(dataset.get_fragments(replaced)) or not chosen_rows(dataset, schema.names[:1], replaced).num_rows:
        return None
    paths.local(path / unquote(row["path"]))  # what is damaged gets no new digest
    return chosen_rows(dataset, schema.names, ~replaced | replaced.is_null())


def append_rows(
    path: PurePath, rows: pa.Table, fence: Fence | None = None, grouped: int = limits.LEDGER_GROUP_ROWS
) -> None:
    """Appends rows in one commit. `grouped`: most rows of a row group, which readers decode as a whole. In a store the
    files with rows of the same parts that are small, and on this machine already, become one with them: each file of a
    ledger is a request of whoever reads it."""
    if isinstance(path, ObjectPath):
        _write_with_small(path, rows, None, fence, grouped)
        return
    with lake_errors(f"{path}: cannot be written"):
        added = _write_rows(path, rows, grouped)
    swap_files(path, added, lambda _: [], fence=fence)


def _write_with_small(
    path: ObjectPath,
    rows: pa.Table,
    replaced: pads.Expression | None,
    fence: Fence | None,
    grouped: int = limits.LEDGER_GROUP_ROWS,
) -> None:
    """Puts rows into the place of those that an expression selects, and of small files of their parts, whose other rows
    stay."""
    newest: list[DeltaTable] = []  # the version that is changed
    kept: dict[str, pa.Table] = {}

    def old(table: DeltaTable) -> list[dict[str, Any]]:
        newest[:] = [table]
        kept.clear()
        chosen = [] if replaced is None else _selected(path, table, replaced, kept)
        here = open_tables.mirror_of(path).here(table, limits.PACKED_FILE_BYTES) if len(rows) else {}
        if not here:
            return chosen
        names, schema = table.metadata().partition_columns, pa.schema(table.schema().to_arrow())
        parts = {tuple(map(str, part.values())) for part in _parts(rows, names)}
        for row in live_files(table):
            part = tuple(partition_of(row)[name] for name in names)
            if unquote(row["path"]) in here and row["path"] not in kept and part in parts:
                kept[row["path"]] = files_dataset(path, [(row["path"], _partition_filter(row))], schema).to_table()
                chosen.append(row)
        return chosen

    def together(_: list[dict[str, Any]]) -> list[DataFile]:
        with lake_errors(f"{path}: cannot be written"):
            return _write_rows(path, _together([*kept.values(), rows]), grouped, newest[0])

    swap_files(path, [], old, together, fence)


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="permissive")


def _parts(rows: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the values of the partition columns that rows have; of a table without such columns nothing, once."""
    return rows.select(names).group_by(names).aggregate([]).to_pylist() if names else [{}]


def _partition_filter(row: Mapping[str, Any]) -> pads.Expression | None:
    """Returns what holds of all rows of a file, by the columns that divide its table."""
    prefix = "partition."
    return all_of(
        pc.field(name.removeprefix(prefix)) == value for name, value in row.items() if name.startswith(prefix)
    )


def _write_rows(
    path: PurePath, rows: pa.Table, grouped: int = limits.LEDGER_GROUP_ROWS, table: DeltaTable | None = None
) -> list[DataFile]:
    """Writes rows of a table, with any of its columns, into a new file for each partition, and describes the files."""
    if not rows.num_rows:
        return []
    table = table or open_tables.existing(path, follow=False)
    require_room(path, rows.nbytes)
    names = table.metadata().partition_columns
    schema = pa.schema([(column.name, plain_type(column.type)) for column in pa.schema(table.schema().to_arrow())])
    if more := sorted({*rows.column_names} - {*schema.names}):
        raise LakeError(f"{path}: the table has no column {', '.join(more)}", LOG_HINT)
    empty = {column.name: pa.nulls(rows.num_rows, column.type) for column in schema}
    whole = pa.table({**empty, **dict(zip(rows.column_names, rows.columns, strict=True))}).cast(schema)
    files = []
    for values in _parts(whole, names):
        part = whole.filter(all_of(pc.field(name) == value for name, value in values.items())) if values else whole
        place = PurePath(*(f"{name}={safe_name(str(value))}" for name, value in values.items()))
        target = path / place / f"part-{uuid.uuid4().hex[:12]}.parquet"
        pq.write_table(
            part.drop_columns(names),
            paths.draft(target),
            row_group_size=grouped,
            compression="snappy",
            write_page_checksum=True,
        )
        files.append(describe(path, paths.seal(target), {name: str(value) for name, value in values.items()}))
    return files


def swap_files(
    path: PurePath,
    files: Iterable[DataFile],
    old: Callable[[DeltaTable], list[dict[str, Any]]],
    rest: Callable[[list[dict[str, Any]]], Iterable[DataFile]] = lambda _: (),
    fence: Fence | None = None,
    note: Callable[[DeltaTable], Mapping[str, str | int]] | None = None,
    rows_change: bool = True,
    predicate: str = "",
    moved: bool = False,
) -> None:
    """Replaces files by others, in one atomic commit; commits nothing without files and without a note. The history of
    the table says so with the metrics that Spark's writer gives: as Overwrite where files that went were all of their
    partitions, which is all that Delta's library calls so, otherwise as Append.

    Args:
        files: to add; they are in the directory already.
        old: returns the rows of `live_files` to remove from the version that is changed.
        rest: gets these rows; writes and returns files for the part of their content that stays.
        note: returns what the commit says of itself, for the version that is changed; Delta keeps numbers until another
            commit has the key.
        rows_change: False if the new files have the same rows, which subscribers then are not told.
        predicate: which rows are replaced, as SQL, for the history of the table.
        moved: whether the new files are the old ones under other names. Then one that was damaged may be gone.
    """
    from deltalake.transaction import AddAction, RemoveAction

    now = int(time.time() * 1000)
    new_files = list(files)

    def change(table: DeltaTable, options: Options) -> None:
        old_files = old(table)
        files = [*new_files, *rest(old_files)]
        written = [path / file.path for file in files]
        folders = {file.parent for file in written}
        if moved:
            paths.flush(*(folder for folder in folders if isinstance(folder, Path) and folder.exists()))
        else:
            paths.flush(*written, *folders)
        added = [
            AddAction(file.path, file.size, dict(file.partition), now, rows_change, _statistics(file)) for file in files
        ]
        removed = [
            RemoveAction(unquote(row["path"]), rows_change, now, row["size_bytes"], partition_of(row))
            for row in old_files
        ]
        if added or removed or note is not None:
            notes: dict[str, Any] = dict(note(table)) if note is not None else {}
            if added or removed:
                notes |= _history(files, old_files, predicate)
            options = {**options, "commit_properties": _noted(options["commit_properties"], notes)}
            names = table.metadata().partition_columns
            whole = _whole_partitions(table, names, old_files) if rows_change else None
            actions: list[AddAction | RemoveAction] = [*added] if whole else [*added, *removed]
            if whole:
                options |= {"partition_filters": whole}
            table.create_write_transaction(
                actions, "overwrite" if whole else "append", table.schema(), partition_by=names, **options
            )

    commit(path, change, fence)


def _whole_partitions(
    table: DeltaTable, names: Sequence[str], old_files: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, list[str]]] | None:
    """Returns the filter of partitions that have these files and no others; None where there is none, or no file."""
    if len(names) != 1 or not old_files:
        return None
    key = f"partition.{names[0]}"
    values = {str(row[key]) for row in old_files}
    live = sum(str(row[key]) in values for row in live_files(table))
    return [(names[0], "in", sorted(values))] if live == len(old_files) else None


def _history(added: Sequence[DataFile], removed: Sequence[Mapping[str, Any]], predicate: str) -> dict[str, Any]:
    """Returns what a commit says for the history of its table, by the names of Spark's writer."""
    metrics = {
        "numFiles": len(added),
        "numOutputRows": sum(file.rows for file in added),
        "numOutputBytes": sum(file.size for file in added),
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(row["size_bytes"] for row in removed),
    }
    said = {name: str(number) for name, number in metrics.items()}
    return {"operationMetrics": said, **({"operationParameters": {"predicate": predicate}} if predicate else {})}


def _noted(properties: CommitProperties, note: Mapping[str, Any]) -> CommitProperties:
    """Returns properties with a note, which holds for one version: its whole numbers become those of the table."""
    from deltalake import CommitProperties, Transaction

    said = {key: value for key, value in note.items() if not isinstance(value, int)}
    numbers = [Transaction(key, value) for key, value in note.items() if isinstance(value, int)]
    return CommitProperties(
        custom_metadata={**(properties.custom_metadata or {}), **said},
        max_commit_retries=0,
        app_transactions=[*(properties.app_transactions or ()), *numbers],
    )


def live_files(table: DeltaTable) -> list[dict[str, Any]]:
    """Lists the files of a version: path, size_bytes, num_records, and `partition.X`, `min.X`, `max.X` of columns X."""
    try:
        rows: list[dict[str, Any]] = files_of(table).to_pylist()
    except (OverflowError, ValueError):  # an instant that Python's calendar does not have
        raise LakeError(
            f"{open_tables.table_address(table)}: its log says bounds of a file that no value has", LOG_HINT
        ) from None
    return rows


def interval_files(table: DeltaTable | None, label: str) -> list[dict[str, Any]]:
    """Lists the files of an interval of a stream, as `live_files`; none without a table."""
    return [] if table is None else files_by_interval(table).get(label, [])


def files_by_interval(table: DeltaTable) -> dict[str, list[dict[str, Any]]]:
    """Lists the files of a stream by interval, as `live_files`."""
    return grouped((row["partition.interval"], row) for row in live_files(table))


def files_of(table: DeltaTable) -> pa.Table:
    """Returns what `live_files` lists as a table.
    Raises LakeError if the log names a file outside of the folder of the table, or does not say what a file holds."""
    files, folder = pa.table(table.get_add_actions(flatten=True)), open_tables.table_address(table)
    require_names(folder, files.column("path").to_pylist())
    if files.num_rows:
        _require_counts(folder, files)
    return files


def _require_counts(folder: str, files: pa.Table) -> None:
    """Checks what every version of Lowwater, and of Delta's writers, says of a file: its size and its rows."""
    if pc.count_distinct(files.column("path")).as_py() != files.num_rows:
        raise LakeError(f"{folder}: its log names a file twice, whose rows would count twice", LOG_HINT)
    for name in ("num_records", "size_bytes"):
        values = files.column(name) if name in files.column_names else pa.nulls(files.num_rows, pa.int64())
        wrong = pc.or_kleene(pc.is_null(values), pc.or_(pc.less(values, 0), pc.greater(values, limits.FILE_COUNT)))
        found = pc.index(pc.fill_null(wrong, True), True).as_py()
        if found >= 0:
            raise LakeError(
                f"{folder}: its log says nothing that can be true of {files.column('path')[found].as_py()[:200]!a}: "
                f"{name} is {values[found].as_py()}",
                LOG_HINT,
            )
    for name in files.column_names:
        if name.startswith("partition.") and files.column(name).null_count:
            at = pc.index(pc.is_null(files.column(name)), True).as_py()
            raise LakeError(
                f"{folder}: its log names no {name} of {files.column('path')[at].as_py()[:200]!a}", LOG_HINT
            )


def partition_of(row: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns the values of the partition columns of a row of `live_files`, none of which is NULL."""
    prefix = "partition."
    return {name.removeprefix(prefix): str(value) for name, value in row.items() if name.startswith(prefix)}


def _statistics(file: DataFile) -> str:
    bounds = {"minValues": dict(file.smallest), "maxValues": dict(file.largest), "nullCount": dict(file.nulls)}
    return json.dumps({"numRecords": file.rows, **bounds})


def table_dataset(path: PurePath, table: DeltaTable) -> pads.Dataset:
    """Returns an open table as an Arrow dataset, which reads by Arrow's own files. Delta's files are Python objects,
    which Arrow's threads may still hold when the interpreter is gone: the process would abort."""
    files = files_of(table)  # none lies elsewhere
    if isinstance(path, ObjectPath):  # `fetch_rows` looks at the bounds of files, of which each takes a millisecond
        dataset = table.to_pyarrow_dataset(
            filesystem=fs.SubTreeFileSystem(str(paths.local_table(path, [])), fs.LocalFileSystem())
        )
        dataset.format.default_fragment_scan_options = _checked()
        return dataset
    keys = [name for name in files.column_names if name.startswith("partition.")]
    columns = [(pc.field(key.removeprefix("partition.")), files.column(key).to_pylist()) for key in keys]
    names = enumerate(files.column("path").to_pylist())
    parts = [(name, all_of(key == values[at] for key, values in columns)) for at, name in names]
    return files_dataset(path, parts, pa.schema(table.schema().to_arrow()))


def files_dataset(path: PurePath, files: Iterable[tuple[str, Any]], schema: pa.Schema) -> pads.Dataset:
    """Returns some files of a table as an Arrow dataset: path of each in the log, and expression of the values of
    its partition."""
    import pyarrow.dataset as pads

    parts = [(unquote(name), partition) for name, partition in files]  # the log writes paths as URLs
    folder = fs.SubTreeFileSystem(str(paths.local_table(path, [name for name, _ in parts])), fs.LocalFileSystem())
    form = pads.ParquetFileFormat(default_fragment_scan_options=_checked())
    fragments = [form.make_fragment(name, folder, partition) for name, partition in parts]
    return pads.FileSystemDataset(fragments, schema, form, folder)


def _checked() -> pads.ParquetFragmentScanOptions:
    """Returns how pages are read: those that have a checksum are compared with it."""
    import pyarrow.dataset as pads

    return pads.ParquetFragmentScanOptions(page_checksum_verification=True)


def with_fields(dataset: pads.Dataset, schema: pa.Schema) -> pads.Dataset:
    """Returns a dataset with the columns that a table of an older version lacks, NULL in its rows."""
    names = set(dataset.schema.names)
    lacking = [field.with_nullable(True) for field in schema if field.name not in names]
    return dataset.replace_schema(pa.schema([*dataset.schema, *lacking])) if lacking else dataset


def fetch_rows(path: PurePath, dataset: pads.Dataset, predicate: Any = None) -> pads.Dataset:
    """Brings the files of an object store, in which a predicate may find rows, to the disk; returns the dataset."""
    if not isinstance(path, Path):
        paths.local_table(path, (fragment.path for fragment in dataset.get_fragments(predicate)))
    return dataset


def read_rows(path: PurePath, schema: pa.Schema, predicate: Any = None) -> pa.Table:
    """Reads the columns of a schema, and the rows that a `pyarrow.dataset` expression selects; none without a table."""
    table = open_table(path)
    if table is None:
        return schema.empty_table()
    with lake_errors(f"{path}: the table cannot be read"):
        dataset = fetch_rows(path, with_fields(table_dataset(path, table), schema), predicate)
        return chosen_rows(dataset, schema.names, predicate).cast(schema)


def chosen_rows(dataset: pads.Dataset, names: Sequence[str], predicate: Any = None) -> pa.Table:
    """Reads columns of the rows that a predicate selects.

    A DELETE of another program rewrites texts in a form whose bounds Arrow does not compare: then all rows are read.
    """
    sizes = {"batch_readahead": 2, "fragment_readahead": 1}
    try:
        return dataset.to_table(list(names), predicate, **sizes)
    except pa.ArrowNotImplementedError:
        if predicate is None:
            raise
        return dataset.to_table(**sizes).filter(predicate).select(list(names))


def column_values(column: pa.ChunkedArray | pa.Array, pool: dict[int, int]) -> list[Any]:
    """Returns the values of a column; equal texts, such as states, and equal whole numbers, which the `pool` keeps also
    of other columns, are one object."""
    if not pa.types.is_string(column.type):
        return [pool.setdefault(value, value) if type(value) is int else value for value in column.to_pylist()]
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = whole.dictionary_encode()
    texts = [*coded.dictionary.to_pylist(), None]
    return [texts[at] for at in coded.indices.fill_null(len(texts) - 1).to_pylist()]


def table_of(rows: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """Returns dataclass objects as a table: their attributes by the names of the columns."""
    objects = list(rows)
    columns = [pa.array([getattr(row, column.name) for row in objects], column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)


K = TypeVar("K")
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Returns key -> its values, in order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def within(column: str, start: int, end: int) -> pads.Expression:
    """Returns the condition that a column of instants is in [start, end), ns."""
    import pyarrow.dataset as pads

    return (pads.field(column) >= start) & (pads.field(column) < end)


def all_of(conditions: Iterable[Any]) -> Any:
    """Returns the condition that all of some hold; None without any."""
    some = list(conditions)
    return reduce(and_, some) if some else None


def quote(text: str) -> str:
    """Quotes a text as an SQL string literal.

    Example:
        >>> quote("o'clock")
        "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"


# What a commit says of a file of a table, from the footer of the file.


def describe(table: PurePath, file: PurePath, partition: Mapping[str, str | None] = MappingProxyType({})) -> DataFile:
    """Describes a file in the folder of its table, for a commit. Every column has its bounds: Delta's reader for Arrow
    takes a column without them as one without a value, and a filter of it finds no row."""
    content = paths.local(file)
    metadata = pq.read_metadata(content)
    bounds: dict[str, tuple[Any, Any]] = {}
    nulls: Counter[str] = Counter()
    unknown: set[str] = set()
    for name, statistics in columns_of(metadata):
        if statistics is not None and statistics.has_null_count:
            nulls[name] += statistics.null_count
        if statistics is not None and not statistics.num_values:
            continue  # NULL in all rows of this part
        if statistics is None or not statistics.has_min_max or isinstance(statistics.min, bytes):
            unknown.add(name)
            continue
        low, high = bounds.get(name, (statistics.min, statistics.max))
        bounds[name] = (min(low, statistics.min), max(high, statistics.max))
    known = bounds.keys() - unknown
    return DataFile(
        file.relative_to(table).as_posix(),
        content.stat().st_size,
        metadata.num_rows,
        dict(partition),
        {name: _bound(bounds[name][0]) for name in known},
        {name: _bound(bounds[name][1], "\U0010ffff") for name in known},
        dict(nulls),
    )


def columns_of(metadata: pq.FileMetaData) -> Iterator[tuple[str, Any]]:
    """Yields the path and the statistics, or None, of each column of each row group of a file."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            yield column.path_in_schema, column.statistics


def _bound(value: Any, behind: str = "") -> Any:
    """Returns a bound as JSON has it: of a long text its beginning, with what comes behind all that begin so."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, str) and len(value) > limits.BOUND_CHARACTERS:
        return value[: limits.BOUND_CHARACTERS] + behind
    return value


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type without the width of offsets, which Delta does not store."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) else kind
