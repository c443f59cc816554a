"""Sums of files beside published tables: the same plots, counts and pages, without opening the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lowwater.config import Retention
from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.maintain import maintain
from lowwater.lake.results.exploring import Filter, RowQuery, curves, make_sums, result_table
from lowwater.lake.tables import append_rows, create

pytestmark = pytest.mark.slow
HOURS, ROWS = 130, 3_000
WHOLE = RowQuery(0, HOURS * HOUR)


def make_rows(seed: int, first: int = 0, hours: int = HOURS) -> pa.Table:
    """Rows with NULLs, negative numbers, few and many values."""
    chance = np.random.default_rng(seed)
    lasts = np.sort(chance.integers(first * HOUR, (first + hours) * HOUR, ROWS))
    names = np.array(["10.0.0.1", "10.0.0.2", "<b>", "'", None], object)
    columns = {
        "tb": lasts // (60 * SECOND),
        "source": pa.array(chance.choice(names, ROWS), pa.string()),
        "port": pa.array(
            [None if value % 7 == 0 else int(value) for value in chance.integers(-2, 9, ROWS)], pa.int64()
        ),
        "flow": pa.array([f"f{value}" for value in chance.integers(0, 1_500, ROWS)]),
        "cnt": pa.array([None if value % 17 == 0 else int(value) for value in chance.integers(-100, 900, ROWS)]),
        "share": chance.integers(0, 50, ROWS) / 8,
        "_last": lasts,
        "_hour": lasts // HOUR,
    }
    return pa.table(columns)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made, rows = open_lake(tmp_path / "lake"), make_rows(3)
    create(made.table("flows"), rows.schema, ["_hour"], "q")
    append_rows(made.table("flows"), rows)
    return made


def shown(lake: Lake, question: RowQuery, number: str, key: str) -> Any:
    """Names, sums by part of time, and whether they are exact."""
    found = curves(result_table(lake, "flows"), question, number, key)
    return [(each.name, [round(value, 6) for value in each.values]) for each in found.curves], found.approximate


ASKED = [
    (WHOLE, "cnt", "source"),
    (WHOLE, "", "source"),
    (WHOLE, "share", ""),
    (WHOLE, "", ""),
    (WHOLE, "cnt", "port"),
    (WHOLE, "cnt", "flow"),
    (RowQuery(7 * HOUR // 2, 129 * HOUR - 1), "cnt", "source"),
    (replace(WHOLE, filters=(Filter("source", "=", "10.0.0.1"),)), "cnt", "source"),
    (replace(WHOLE, filters=(Filter("source", "contains", "0.0"), Filter("source", "!=", "10.0.0.2"))), "cnt", ""),
    (replace(WHOLE, filters=(Filter("port", ">", "4"),)), "share", "port"),
    (replace(WHOLE, filters=(Filter("source", "is null", ""),)), "cnt", "source"),
]


def test_plots_counts_and_pages_are_the_same_with_and_without_sums(lake: Lake) -> None:
    def everything() -> list[Any]:
        table = result_table(lake, "flows")
        return [(shown(lake, *each), table.count(each[0]), table.page(each[0], 0, 50).to_pylist()) for each in ASKED]

    before = everything()
    assert make_sums(lake.table("flows"))[0] == HOURS
    for asked, was, found in zip(ASKED, before, everything(), strict=True):
        assert found == was and found[1] > 0 and not found[0][1], asked


def test_no_file_of_the_table_is_opened_where_its_sums_are_known(lake: Lake) -> None:
    """The files are gone, and nobody misses them; a plot that sums cannot answer does."""
    wanted = [shown(lake, *each)[0] for each in ASKED[:6]]
    maintain(lake, Retention())
    for file in lake.table("flows").rglob("*.parquet"):  # type: ignore[attr-defined]
        file.unlink()
    assert [shown(lake, *each)[0] for each in ASKED[:6]] == wanted
    assert result_table(lake, "flows").count(ASKED[7][0]) > 0
    with pytest.raises(LakeError, match="cannot be read"):
        shown(lake, replace(WHOLE, filters=(Filter("cnt", ">", "5"),)), "cnt", "source")
