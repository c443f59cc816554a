"""Files of a table are joined while others write and join: every row stays there, once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.transaction import RemoveAction

from lowwater import limits
from lowwater.lake import compaction
from lowwater.lake.compaction import compact, join_files, tidy_ledgers
from lowwater.lake.tables import append_rows, commit, create, live_files, read_rows
from lowwater.limits import LEDGER_FRAGMENTS

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
        list(pool.map(add, range(2 * LEDGER_FRAGMENTS + 10)))
    assert values(path) == list(range(2 * LEDGER_FRAGMENTS + 10))


def test_the_fullest_ledgers_are_joined_and_of_them_the_fullest_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEDGER_FRAGMENTS", 2)
    files = {"few": "abab", "more": "abaab", "most": "abaaabb", "many": "abaabba"}
    for name, parts in files.items():
        create(tmp_path / name, SCHEMA, ["part"])
        for number, part in enumerate(parts):
            append_rows(tmp_path / name, pa.table({"part": [part], "value": [number]}, schema=SCHEMA))

    def counts() -> list[str]:
        found = [[row["partition.part"] for row in live_files(DeltaTable(tmp_path / name))] for name in files]
        return ["".join(sorted(parts)) for parts in found]

    seen = []
    for _ in range(4):
        tidy_ledgers(tmp_path, [tmp_path / name for name in files])
        seen.append(counts())
    assert seen == [
        ["aabb", "aaabb", "abbb", "abbb"],
        ["aabb", "abb", "ab", "abbb"],
        ["aabb", "abb", "ab", "ab"],
        ["aabb", "abb", "ab", "ab"],
    ]
    assert values(tmp_path / "most") == list(range(7))


def test_of_two_that_join_the_same_files_one_does(tmp_path: Path) -> None:
    path, ready = tmp_path / "table", Barrier(2)
    create(path, SCHEMA, ["part"])
    for number in range(20):
        append_rows(path, row(number))

    def join(_: int) -> bool:
        read_rows(path, SCHEMA)  # so that both know the same version
        ready.wait()
        return join_files(path, "part", ["a"])

    with ThreadPoolExecutor(2) as pool:
        assert any(pool.map(join, range(2)))
    assert values(path) == list(range(20))


def stop_before_the_commit(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Stops the next join between the joined file and its commit."""
    commit_joins = compaction.commit_joins

    def stopped(*arguments: Any) -> bool:
        monkeypatch.setattr(compaction, "commit_joins", commit_joins)
        meanwhile()
        return commit_joins(*arguments)

    monkeypatch.setattr(compaction, "commit_joins", stopped)


def table_of_four(path: Path) -> Path:
    create(path, SCHEMA, ["part"])
    for number in range(4):
        append_rows(path, row(number))
    return path


def test_a_join_that_was_overtaken_commits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a `maintain` that was stopped for longer than its lease."""
    path = table_of_four(tmp_path / "table")

    def overtaken() -> None:
        assert join_files(path, "part", ["a"])
        append_rows(path, row(9))

    stop_before_the_commit(monkeypatch, overtaken)
    assert not join_files(path, "part", ["a"])
    assert values(path) == [0, 1, 2, 3, 9]


def test_what_is_appended_meanwhile_does_not_undo_a_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table_of_four(tmp_path / "table")
    stop_before_the_commit(monkeypatch, lambda: append_rows(path, row(9)))
    assert join_files(path, "part", ["a"])
    assert values(path) == [0, 1, 2, 3, 9] and len(DeltaTable(path).file_uris()) == 2


def test_rows_are_chosen_by_texts_that_another_program_rewrote(tmp_path: Path) -> None:
    """Delta's own DELETE writes texts whose bounds Arrow does not compare."""
    path, schema = tmp_path / "table", pa.schema([("name", pa.string()), ("value", pa.int64())])
    create(path, schema)
    append_rows(path, pa.table({"name": ["w", "x", "y", "z"], "value": [1, 2, 3, 4]}, schema=schema))
    DeltaTable(path).delete("name = 'w'")
    chosen = read_rows(path, pa.schema([schema.field("value")]), pads.field("name").isin(pa.array(["w", "x", "z"])))
    assert sorted(chosen["value"].to_pylist()) == [2, 4]


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
