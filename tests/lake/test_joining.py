"""Files of a table are joined while others write and join: every row stays there, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.transaction import RemoveAction

from lowwater.lake.tables import append_rows, commit, create, live_files, read_rows
from lowwater.lake.upkeep import compact, join_files
from lowwater.limits import LEDGER_FRAGMENTS as MOST_FRAGMENTS

SCHEMA = pa.schema([pa.field("part", pa.string(), nullable=False), pa.field("value", pa.int64())])


def row(value: int) -> pa.Table:
    return pa.table({"part": ["a"], "value": [value]}, schema=SCHEMA)


def values(path: Path) -> list[int]:
    found: list[int] = sorted(read_rows(path, SCHEMA)["value"].to_pylist())
    return found


@pytest.mark.slow
def test_threads_that_write_and_join_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "table"
    create(path, SCHEMA, ["part"])

    def add(number: int) -> None:
        append_rows(path, row(number))
        compact(path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(2 * MOST_FRAGMENTS + 10)))
    assert values(path) == list(range(2 * MOST_FRAGMENTS + 10))


def _appended(table: DeltaTable, options: dict[str, Any]) -> None:
    write_deltalake(table, row(100), mode="append", **options)


def _overwritten(table: DeltaTable, options: dict[str, Any]) -> None:
    write_deltalake(table, row(100), mode="overwrite", predicate="part = 'a'", **options)


def _deleted(table: DeltaTable, options: dict[str, Any]) -> None:
    table.delete("value = 1", **options)


def _widened(table: DeltaTable, options: dict[str, Any]) -> None:
    table.alter.add_columns([Field("more", "long")], **options)


def _swapped(table: DeltaTable, options: dict[str, Any]) -> None:
    gone = RemoveAction(live_files(table)[0]["path"], False, 0, 1, {"part": "a"})
    table.create_write_transaction([gone], "append", table.schema(), partition_by=["part"], **options)


@pytest.mark.slow
@pytest.mark.parametrize("change", [_appended, _overwritten, _deleted, _widened, _swapped])
def test_a_change_is_for_the_version_that_it_saw_or_is_made_again(tmp_path: Path, change: Any) -> None:
    """Each method of Delta by which a lake commits refuses another version with the options of `commit`."""
    path = tmp_path / "table"
    create(path, SCHEMA, ["part"])
    for number in range(3):
        append_rows(path, row(number))
    seen: list[int] = []

    def overtaken(table: DeltaTable, options: dict[str, Any]) -> None:
        seen.append(table.version())
        if len(seen) == 1:
            append_rows(path, row(9))
        change(table, options)

    commit(path, overtaken)
    assert seen == [3, 4] and DeltaTable(path).version() == 5


@pytest.mark.parametrize("link", ["plain", "pc/以太网", "50% a+b c", "__null"])
def test_partitions_of_any_name_are_joined(tmp_path: Path, link: str) -> None:
    path = tmp_path / "table"
    create(path, SCHEMA, ["part"])
    for number in range(3):
        append_rows(path, pa.table({"part": [link, "b"], "value": [number, number + 10]}, schema=SCHEMA))
    assert join_files(path, "part", [link])
    assert len(DeltaTable(path).file_uris()) == 4
    found = read_rows(path, SCHEMA, pads.field("part") == link).sort_by("value")
    assert found.to_pylist() == [{"part": link, "value": number} for number in range(3)]
    assert values(path) == [0, 1, 2, 10, 11, 12]
