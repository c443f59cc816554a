"""Takes doubled rows out of the tables of a lake, as their logs say; see `commits.doubled`.

Called by `lowwater maintain --mend`. Rows are doubled by another program that joins the files of a table beside others.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from lowwater.errors import LakeError
from lowwater.lake.commits import Doubled, changes, doubled, mended_note
from lowwater.lake.layout import Lake
from lowwater.lake.tables import (
    DataFile,
    fetch_rows,
    lake_errors,
    live_files,
    open_table,
    replace_rows,
    swap_files,
    table_dataset,
)
from lowwater.storage import paths

if TYPE_CHECKING:
    from deltalake import DeltaTable


def doubled_tables(lake: Lake) -> Iterator[tuple[PurePath, Doubled]]:
    """Yields the tables of a lake whose logs say that they have rows twice.

    Raises:
        LakeError: a log cannot be read.
    """
    for path in lake.all_tables():
        found = doubled(changes(path)) if open_table(path) is not None else None
        if found is not None:
            yield path, found


def mend(lake: Lake, path: PurePath, found: Doubled) -> None:
    """Takes doubled rows out of a table, in one commit.

    Args:
        lake: the lake, with the fence of the maintenance.
        path: directory of the table.
        found: what doubled them.

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
        swap_files(path, [], lambda _: [], fence=lake.fence, note=lambda _: mended_note(found), rows_change=False)
        return
    with lake_errors(f"{path}: files cannot be put back"):
        back = [_again(path, name, action) for name, action in found.lacking.items()]

    def void(newest: DeltaTable) -> list[dict[str, Any]]:
        return [row for row in live_files(newest) if unquote(row["path"]) in found.void]

    swap_files(path, back, void, fence=lake.fence, note=lambda _: mended_note(found), rows_change=False)


def _again(path: PurePath, name: str, action: dict[str, Any]) -> DataFile:
    """Copies a file that the table no longer names: its own name may be on a list of files to remove."""
    target = path / PurePath(name).parent / f"mended-{uuid.uuid4().hex[:12]}.parquet"
    try:
        paths.copy(path / name, target)
    except FileNotFoundError:
        hint = f"remove {path}, and make its rows again with `lowwater backfill`"
        raise LakeError(f"{path / name}: the only file with some rows is gone", hint) from None
    stored = json.loads(action.get("stats") or "{}")
    return DataFile(
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
    table = open_table(path)
    assert table is not None
    with lake_errors(f"{path}: the table cannot be read"):
        rows: pa.Table = fetch_rows(path, table_dataset(path, table)).to_table()
    seen: set[str] = set()
    kept = []
    for at, row in enumerate(rows.to_pylist()):
        text = repr(row)
        if text not in seen:
            seen.add(text)
            kept.append(at)
    replace_rows(path, rows.take(pa.array(kept, pa.int64())), None, lake.fence)
