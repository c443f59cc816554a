"""Files of a table are joined while others write and join: every row stays there, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from lowwater.lake.tables import MOST_FRAGMENTS, append_rows, compact, create, join_files, read_rows

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
