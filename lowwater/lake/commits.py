"""The commits of a table as its log has them, and what `maintain` and `doctor` check by them: doubled rows, bounds
that are wrong.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from lowwater.documents import json_value
from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake import tables
from lowwater.lake.layout import Lake
from lowwater.storage import paths
from lowwater.storage.untrusted import require_names

if TYPE_CHECKING:
    from deltalake import DeltaTable


# What is old is judged by the store's own times: no clock of a machine that writes plays a part (docs/adr/0152). A
# commit that removes a file which was gone already has doubled rows: another program joined files beside others, and
# Delta let both commit (docs/adr/0151).

MENDED = "lowwater.mended"
"""Key of what a commit says that took doubled rows out: the versions that had doubled them, JSON."""

LOG = "_delta_log"

MEND = "run `lowwater maintain` with --mend: it takes out what is there twice, as the log of the table says"


@dataclass(frozen=True)
class Change:
    """A commit.

    Attributes:
        version: number of the commit.
        at: when its entry was written, ns since the epoch by the clock of its store.
        added: path of each file that it added -> its add action.
        removed: paths of the files that it removed.
        rows: whether it changed rows, and not only their files.
        info: what it says of itself.
    """

    version: int
    at: int
    added: dict[str, dict[str, Any]]
    removed: tuple[str, ...]
    rows: bool
    info: dict[str, Any]

    @property
    def writer(self) -> str:
        """The program that made it, in words."""
        return str(self.info.get("engineInfo") or self.info.get("clientVersion") or "a program that gives no name")


def changes(path: PurePath, since: int = 0) -> list[Change]:
    """Reads the commits whose entries were written at an instant or later, in order.

    Args:
        since: the instant, ns since the epoch by the clock of the store.

    Raises:
        LakeError: the log cannot be read, or names a file outside of the table.
    """
    with tables.lake_errors(f"{path}: its log cannot be read"):
        found = sorted((entry.path, entry.at) for entry in paths.listed(path / LOG) if _is_commit(entry.path))
        chosen = [(file, at) for file, at in found if at >= since]
        contents = paths.read_all([file for file, _ in chosen])
    return [_change(file, at, data) for (file, at), data in zip(chosen, contents, strict=True)]


def _is_commit(file: PurePath) -> bool:
    return file.suffix == ".json" and file.stem.isdigit() and file.parent.name == LOG


def _change(file: PurePath, at: int, data: bytes) -> Change:
    added: dict[str, dict[str, Any]] = {}
    removed: list[str] = []
    rows, info, named = False, {}, list[str]()
    try:
        for line in data.splitlines():
            action = json_value(line) if line.strip() else {}
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
        raise LakeError(f"{file}: is no commit of a Delta table", hint) from error
    require_names(file.parent.parent, named)
    return Change(int(file.stem), at, added, tuple(removed), rows, info)


@dataclass(frozen=True)
class Doubled:
    """What doubled rows of a table, and what takes them out.

    Attributes:
        causes: commits that removed files which were gone already.
        void: files whose rows are there in others.
        lacking: files that are to come back: only void ones have their rows.
        unclear: a commit that changed rows on top of doubled ones; None if the log alone says what is right.
    """

    causes: tuple[Change, ...]
    void: frozenset[str]
    lacking: dict[str, dict[str, Any]]
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


def mended_note(found: Doubled) -> dict[str, str]:
    """What the commit says that takes doubled rows out."""
    return {MENDED: json.dumps([each.version for each in found.causes])}


# Doubled rows, taken out by `maintain --mend`.


def doubled_tables(lake: Lake) -> Iterator[tuple[PurePath, Doubled]]:
    """Yields the tables of a lake whose logs say that they have rows twice.

    Raises:
        LakeError: a log cannot be read.
    """
    for path in lake.all_tables():
        found = doubled(changes(path)) if tables.open_table(path) is not None else None
        if found is not None:
            yield path, found


def mend(lake: Lake, path: PurePath, found: Doubled) -> None:
    """Takes doubled rows out of a table, in one commit.

    Raises:
        LakeError: the log does not say what is right, files are gone, or the table cannot be written.
    """
    if found.unclear is not None and path not in lake.ledgers():
        raise LakeError(
            f"{path}: version {found.unclear.version} changed rows that were there twice since version "
            f"{found.causes[0].version}, so its log does not say any more which are right",
            f"remove {path}, and make its rows again with `lowwater backfill`",
        )
    if found.unclear is not None:
        _keep_one_of_each(lake, path)
        tables.swap_files(
            path, [], lambda _: [], fence=lake.fence, note=lambda _: mended_note(found), rows_change=False
        )
        return
    with tables.lake_errors(f"{path}: files cannot be put back"):
        back = [_again(path, name, action) for name, action in found.lacking.items()]

    def void(newest: DeltaTable) -> list[dict[str, Any]]:
        return [row for row in tables.live_files(newest) if unquote(row["path"]) in found.void]

    tables.swap_files(path, back, void, fence=lake.fence, note=lambda _: mended_note(found), rows_change=False)


def _again(path: PurePath, name: str, action: dict[str, Any]) -> tables.DataFile:
    """Copies a file that the table no longer names: its own name may be on a list of files to remove."""
    target = path / PurePath(name).parent / f"mended-{uuid.uuid4().hex[:12]}.parquet"
    try:
        paths.copy(path / name, target)
    except FileNotFoundError:
        hint = f"remove {path}, and make its rows again with `lowwater backfill`"
        raise LakeError(f"{path / name}: the only file with some rows is gone", hint) from None
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


def _keep_one_of_each(lake: Lake, path: PurePath) -> None:
    """Writes a ledger again with one of equal rows: no two entries of a ledger are equal."""
    table = tables.open_table(path)
    assert table is not None
    with tables.lake_errors(f"{path}: the table cannot be read"):
        rows: pa.Table = tables.fetch_rows(path, tables.table_dataset(path, table)).to_table()
    seen: set[str] = set()
    kept = []
    for at, row in enumerate(rows.to_pylist()):
        text = repr(row)
        if text not in seen:
            seen.add(text)
            kept.append(at)
    tables.replace_rows(path, rows.take(pa.array(kept, pa.int64())), None, lake.fence)


# Bounds that the log says of a file. Commands choose files by them, so a bound that is wrong hides rows in silence.
# No command of every day looks at each file; `maintain --verify` does.

HOURS = {"_hour": "_last", "hour": "arrival"}
"""Partition -> the column whose hour it is."""


def wrong_claims(lake: Lake) -> Iterator[str]:
    """Yields, for every file of which a log says something wrong, the file and what is wrong."""
    for folder in _tables(lake):
        try:
            with tables.lake_errors(f"{folder}: the table cannot be read"):
                table = tables.open_table(folder)
                rows = tables.live_files(table) if table is not None else []
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
