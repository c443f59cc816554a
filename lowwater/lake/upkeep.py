"""Upkeep of a table: its small files are joined; doubled rows and wrong bounds are found, and the rows mended."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater import documents, errors, instants, limits
from lowwater.lake import layout, open_tables, tables
from lowwater.storage import digests, paths, untrusted
from lowwater.storage.locks import Fence
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Joins of small files. Delta's own join commits beside another one that removed the same files, and rows are there
# twice. Here the joined files are written first; the commit takes those whose files are all still there in the version
# that it follows, and leaves the others out. So nobody waits, and a join that was overtaken does nothing
# (docs/adr/0151).


AT_ONCE = 2
"""Ledgers that are joined at the end of a command, those first that need it most: no run has to do it for all."""

SELDOM = 16
"""Small files of a ledger that no run reads, which count as one."""


@dataclass(frozen=True)
class Join:
    """Files of a partition, by name, and the file with their rows."""

    names: frozenset[str]
    file: tables.DataFile


def tidy_ledgers(lake: layout.Lake, ledgers: Iterable[PurePath], unread: Container[PurePath] = ()) -> None:
    """Joins the small files of some ledgers, at the end of a command that wrote to them, and packs the logs of a lake.
    Those that no run reads, `unread`, wait for others. Ledgers that cannot be joined stay as they are: who reads them
    says what is wrong."""

    def need(path: PurePath) -> float:
        return max(_fragments(path).values(), default=0) / (SELDOM if path in unread else 1)

    with suppress(errors.LakeError):
        # What this process never looked at it did not write to, and a look at a store takes requests.
        for path in sorted(filter(open_tables.was_opened, ledgers), key=need, reverse=True)[:AT_ONCE]:
            compact(path)
    open_tables.pack_logs(lake.root, lake.packed_ledgers())


def compact(path: PurePath, grouped: int = limits.LEDGER_GROUP_ROWS) -> None:
    """Joins the small files of those partitions of a ledger that have the most, once these are many, into row groups of
    so many rows, which readers decode as a whole."""
    fragments = _fragments(path)
    most = max(fragments.values(), default=0)
    if most > (limits.LEDGER_FRAGMENTS_OF_STORE if isinstance(path, ObjectPath) else limits.LEDGER_FRAGMENTS):
        join(path, lambda row: _is_small(path, row) and fragments[_part(row)] == most, grouped)


def _fragments(path: PurePath) -> Counter[Hashable]:
    table = tables.open_table(path)
    files = [] if table is None else tables.live_files(table)
    return Counter(_part(row) for row in files if _is_small(path, row))


def _is_small(path: PurePath, row: Mapping[str, Any]) -> bool:
    whole = limits.JOINED_LEDGER_BYTES if isinstance(path, ObjectPath) else limits.JOINED_FILE_BYTES
    return int(row["size_bytes"]) < whole // 2


def join_files(path: PurePath, column: str, values: Collection[str]) -> bool:
    """Joins the files of some partitions. Returns False if a writer changed one of them meanwhile."""
    return join(path, lambda row: str(row[f"partition.{column}"]) in values)


def join(path: PurePath, chosen: Callable[[Mapping[str, Any]], bool], grouped: int = limits.JOINED_GROUP_ROWS) -> bool:
    """Joins the files of each partition whose row of `live_files` is chosen, into row groups of so many rows. Returns
    whether all were joined; a file that a writer has removed meanwhile is not there to be joined.
    Raises LakeError if the table cannot be read or written."""
    with tables.lake_errors(f"{path}: its files cannot be joined"):
        table = open_tables.existing(path)
        groups = list(_groups(row for row in tables.live_files(table) if chosen(row)))
        tables.require_room(path, sum(row["size_bytes"] for rows in groups for row in rows))
        schema = pa.schema(table.schema().to_arrow())
        joins = [
            Join(frozenset(row["path"] for row in rows), write_joined(path, schema, rows, grouped)) for rows in groups
        ]
    return not joins or commit_joins(path, joins)


def commit_joins(path: PurePath, joins: Sequence[Join], fence: Fence | None = None) -> bool:
    """Commits the joins whose files are all there; returns whether these were all."""
    done: list[Join] = []

    def present(newest: DeltaTable) -> list[dict[str, Any]]:
        live = {row["path"]: row for row in tables.live_files(newest)}
        done[:] = [each for each in joins if each.names <= live.keys()]
        return [live[name] for each in done for name in sorted(each.names)]

    tables.swap_files(path, [], present, lambda _: [each.file for each in done], fence, rows_change=False)
    return len(done) == len(joins)


def _groups(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yields files of one partition, several together, that fit one file; in the order of their rows' `_last`."""
    for part in tables.grouped((_part(row), row) for row in rows).values():
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
    """Writes the rows of files of one partition into a new file beside the first of them, and describes it."""
    partition = tables.partition_of(rows[0])
    columns = pa.schema(
        [pa.field(each.name, tables.plain_type(each.type)) for each in schema if each.name not in partition]
    )
    place = PurePath(unquote(rows[0]["path"])).parent
    target = path / place / f"joined-{uuid.uuid4().hex[:12]}.parquet"
    for row in rows:
        if isinstance(path, Path):
            paths.local(path / unquote(row["path"]))  # what is damaged gets no new digest
    dataset = tables.files_dataset(path, [(row["path"], None) for row in rows], columns)
    with pq.ParquetWriter(paths.draft(target), columns, compression="snappy", write_page_checksum=True) as writer:
        for rows_together in _gathered(dataset.to_batches(batch_readahead=2, fragment_readahead=1), columns):
            writer.write_table(rows_together, row_group_size=grouped)
    return tables.describe(path, paths.seal(target), partition)


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
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


# Commits in the log. What is old is judged by the store's own times: no clock of a machine that writes plays a part
# (docs/adr/0152). A commit that removes a file which was gone already has doubled rows: another program joined files
# beside others, and Delta let both commit (docs/adr/0151).

MENDED = "lowwater.mended"
"""Key of what a commit says that took doubled rows out: the versions that had doubled them, JSON."""

LOG = "_delta_log"

MEND = "run `lowwater maintain` with --mend: it takes out what is there twice, as the log of the table says"


@dataclass(frozen=True)
class Change:
    """A commit."""

    version: int
    at: int  # when its entry was written, ns since the epoch by the clock of its store
    added: dict[str, dict[str, Any]]  # path of each file that it added -> its add action
    removed: tuple[str, ...]
    rows: bool  # whether it changed rows, and not only their files
    info: dict[str, Any]

    @property
    def writer(self) -> str:
        return str(self.info.get("engineInfo") or self.info.get("clientVersion") or "a program that gives no name")


def changes(path: PurePath, since: int = 0) -> list[Change]:
    """Reads the commits whose entries were written at an instant or later (ns, by the clock of the store), in order.
    Raises LakeError if the log cannot be read, or names a file outside of the table."""
    with tables.lake_errors(f"{path}: its log cannot be read"):
        recent = ((entry.path, entry.at) for entry in paths.listed(path / LOG) if entry.at >= since)
        commits = sorted((file, at) for file, at in recent if is_commit(file))
        contents = paths.read_all([file for file, _ in commits])
    return [_change(file, at, data) for (file, at), data in zip(commits, contents, strict=True)]


def is_commit(file: PurePath) -> bool:
    """Whether a file is an entry of a log with a commit."""
    return file.suffix == ".json" and file.stem.isdigit() and file.parent.name == LOG


def _change(file: PurePath, at: int, data: bytes) -> Change:
    added: dict[str, dict[str, Any]] = {}
    removed: list[str] = []
    rows, info, named = False, {}, list[str]()
    try:
        for line in data.splitlines():
            action = documents.json_value(line) if line.strip() else {}
            if "add" in action:
                added[unquote(action["add"]["path"])] = action["add"]
                named.append(action["add"]["path"])
                rows = rows or bool(action["add"].get("dataChange"))
            elif "remove" in action:
                removed.append(unquote(action["remove"]["path"]))
                named.append(action["remove"]["path"])
                rows = rows or bool(action["remove"].get("dataChange"))
            elif "commitInfo" in action:
                info = action["commitInfo"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "check that the lake can be read and is whole"
        raise errors.LakeError(f"{file}: is no commit of a Delta table", hint) from error
    untrusted.require_names(file.parent.parent, named)
    return Change(int(file.stem), at, added, tuple(removed), rows, info)


@dataclass(frozen=True)
class Doubled:
    """What doubled rows of a table, and what takes them out."""

    causes: tuple[Change, ...]  # commits that removed files which were gone already
    void: frozenset[str]  # files whose rows are there in others
    lacking: dict[str, dict[str, Any]]  # files that are to come back: only void ones have their rows
    # a commit that changed rows on top of doubled ones; None if the log alone says what is right
    unclear: Change | None

    def words(self, verb: str = "holds") -> str:
        """Describes it; `verb` is what the table does with the rows."""
        named = ", ".join(f"version {each.version} by {each.writer}" for each in self.causes)
        return f"{verb} rows twice since {named}, which joined files that another commit had joined already"


def doubled(commits: Iterable[Change]) -> Doubled | None:
    """Finds what doubled rows, in commits in order; None if nothing did.

    A commit that only joins, and removes a file that is gone, or joins files of such a commit, counts as not made.
    """
    gone: set[str] = set()
    void: set[str] = set()
    known: dict[str, dict[str, Any]] = {}
    lacking: dict[str, dict[str, Any]] = {}
    causes: list[Change] = []
    unclear: Change | None = None
    for each in commits:
        if MENDED in each.info:
            void, lacking, causes, unclear = set(), {}, [], None
        stale = [name for name in each.removed if name in gone]
        fruit = [name for name in each.removed if name in void]
        if (stale or fruit) and MENDED not in each.info:
            if each.rows:
                unclear = unclear or (each if fruit else None)
            else:
                causes += [each] if stale else []
                lacking |= {name: known.get(name, {}) for name in each.removed if name not in gone and name not in void}
                void |= each.added.keys()
        known |= each.added
        gone |= set(each.removed)
        gone -= each.added.keys()
    return Doubled(tuple(causes), frozenset(void), lacking, unclear) if causes else None


def doubled_tables(lake: layout.Lake) -> Iterator[tuple[PurePath, Doubled]]:
    """Yields the tables of a lake whose logs say that they have rows twice.
    Raises LakeError if a log cannot be read."""
    for path in lake.all_tables():
        found = doubled(changes(path)) if tables.open_table(path) is not None else None
        if found is not None:
            yield path, found


def mend(lake: layout.Lake, path: PurePath, found: Doubled) -> None:
    """Takes doubled rows out of a table, in one commit.
    Raises LakeError if the log does not say what is right, files are gone, or the table cannot be written."""
    if found.unclear is not None and path not in lake.ledgers():
        raise errors.LakeError(
            f"{path}: version {found.unclear.version} changed rows that were there twice since version "
            f"{found.causes[0].version}, so its log does not say any more which are right",
            f"remove {path}, and make its rows again with `lowwater backfill`",
        )
    back, void = list[tables.DataFile](), found.void
    if found.unclear is not None:
        _keep_one_of_each(lake, path)
        void = frozenset()
    else:
        with tables.lake_errors(f"{path}: files cannot be put back"):
            back = [_again(path, name, action) for name, action in found.lacking.items()]

    def doubled_files(newest: DeltaTable) -> list[dict[str, Any]]:
        return [row for row in tables.live_files(newest) if unquote(row["path"]) in void]

    note = {MENDED: json.dumps([each.version for each in found.causes])}
    tables.swap_files(path, back, doubled_files, fence=lake.fence, note=lambda _: note, rows_change=False)


def _again(path: PurePath, name: str, action: dict[str, Any]) -> tables.DataFile:
    """Copies a file that the table no longer names: its own name may be on a list of files to remove."""
    try:
        digest = digests.said(name) or digests.compute(paths.local(path / name))
        target = digests.named(path / PurePath(name).parent / f"mended-{uuid.uuid4().hex[:12]}.parquet", digest)
        paths.copy(path / name, target)
    except FileNotFoundError:
        hint = f"remove {path}, and make its rows again with `lowwater backfill`"
        raise errors.LakeError(f"{path / name}: the only file with some rows is gone", hint) from None
    stored = json.loads(action.get("stats") or "{}")
    return tables.DataFile(
        target.relative_to(path).as_posix(),
        int(action["size"]),
        int(stored.get("numRecords", 0)),
        action.get("partitionValues") or {},
        stored.get("minValues", {}),
        stored.get("maxValues", {}),
        stored.get("nullCount", {}),
    )


def _keep_one_of_each(lake: layout.Lake, path: PurePath) -> None:
    """Writes a ledger again with one of equal rows: no two entries of a ledger are equal."""
    table = tables.open_table(path)
    assert table is not None
    with tables.lake_errors(f"{path}: the table cannot be read"):
        rows: pa.Table = tables.fetch_rows(path, tables.table_dataset(path, table)).to_table()
    first: dict[str, int] = {}
    for at, row in enumerate(rows.to_pylist()):
        first.setdefault(repr(row), at)
    tables.replace_rows(path, rows.take(pa.array(first.values(), pa.int64())), None, lake.fence)


# Bounds that the log says of a file. Commands choose files by them, so a bound that is wrong hides rows in silence.
# No command of every day looks at each file; `verify --data` does.

HOURS = {"_hour": "_last", "hour": "arrival"}
"""Partition -> the column whose hour it is."""


def wrong_of(folder: PurePath, row: Mapping[str, Any]) -> Iterator[str]:
    """Yields what the log of a table says wrongly of a file, a row of `live_files`."""
    place = folder / unquote(row["path"])
    try:
        metadata = pq.read_metadata(paths.local(place))
    except FileNotFoundError:
        yield f"{place}: the log names it, and it is not there"
        return
    except (errors.LakeError, OSError, pa.ArrowException) as error:
        yield error.message if isinstance(error, errors.LakeError) else f"{place}: {str(error).splitlines()[0][:200]}"
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
        if hour is not None and name in bounds and {int(hour)} != {bound // instants.HOUR for bound in bounds[name]}:
            yield f"{place}: the log puts it into hour {hour}, and its {name} is in {bounds[name][0] // instants.HOUR}"


def _bounds(metadata: Any) -> dict[str, tuple[int, int]]:
    """Returns the smallest and the largest value of each column of whole numbers, where every row group says them."""
    found: dict[str, tuple[int, int]] = {}
    unknown: set[str] = set()
    for name, statistics in tables.columns_of(metadata):
        is_number = statistics is not None and statistics.logical_type.type in ("NONE", "INT")
        if not is_number or not statistics.has_min_max or type(statistics.min) is not int:
            if statistics is None or statistics.num_values:  # else all are NULL
                unknown.add(name)
            continue
        least, most = found.get(name, (statistics.min, statistics.max))
        found[name] = min(least, statistics.min), max(most, statistics.max)
    return {name: bounds for name, bounds in found.items() if name not in unknown}
