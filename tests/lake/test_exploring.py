"""Pages, filters and plots of published tables, compared with DuckDB over the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results.exploring import Filter, RowQuery, result_table
from lowwater.lake.tables import append_rows, create

ROWS = 5_000
HOSTILE = "<b>'; DROP TABLE rows"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, pa.Table]:
    """A table of two commits over five hours, with NULLs, equal values and a hostile text."""
    lake = open_lake(tmp_path_factory.mktemp("exploring"))
    chance = np.random.default_rng(3)
    lasts = np.sort(chance.integers(0, 5 * HOUR, ROWS))
    names = np.array(["10.0.0.1", "10.0.0.2", "2001:db8::1", HOSTILE, None], object)
    rows = pa.table(
        {
            "tb": lasts // (60 * 10**9),
            "source": pa.array(chance.choice(names, ROWS), pa.string()),
            "cnt": pa.array([None if value % 17 == 0 else int(value) for value in chance.integers(0, 900, ROWS)]),
            "share": chance.integers(0, 50, ROWS) / 8,
            "_last": lasts,
            "_hour": lasts // HOUR,
        }
    )
    create(lake.table("flows"), rows.schema, ["_hour"], "q")
    append_rows(lake.table("flows"), rows.slice(0, 3_000))
    append_rows(lake.table("flows"), rows.slice(3_000))
    return lake, rows


CASES = [
    RowQuery(0, 5 * HOUR),
    RowQuery(0, 5 * HOUR, descending=True),
    RowQuery(HOUR // 3, 3 * HOUR, sort="cnt", descending=True),
    RowQuery(0, 5 * HOUR, sort="source"),
    RowQuery(0, 5 * HOUR, (Filter("cnt", ">=", "500"), Filter("source", "=", HOSTILE)), "share"),
    RowQuery(0, 5 * HOUR, (Filter("source", "contains", "DB8"),), "cnt"),
    RowQuery(0, 5 * HOUR, (Filter("source", "is null", ""),), "share", True),
    RowQuery(2 * HOUR, 4 * HOUR, (Filter("share", "<", "1.5"), Filter("cnt", "!=", "7"))),
]


def expected(rows: pa.Table, asked: RowQuery) -> list[tuple[Any, ...]]:
    """The rows of a asked by DuckDB."""
    parts, values = ["_last >= ? AND _last < ?"], [asked.start, asked.end]
    for each in asked.filters:
        if each.operator == "is null":
            parts.append(f"{each.column} IS NULL")
        elif each.operator == "contains":
            parts.append(f"contains(lower({each.column}), lower(?))")
            values.append(each.value)  # type: ignore[arg-type]
        else:
            parts.append(f"{each.column} {each.operator} ?")
            values.append(each.value if each.column == "source" else float(each.value))  # type: ignore[arg-type]
    first = f"{asked.sort or '_last'} {'DESC' if asked.descending else 'ASC'} NULLS LAST"
    order = ", ".join([first, *(f"{name} ASC NULLS LAST" for name in ("_last", "tb", "source", "cnt", "share"))])
    text = f"SELECT tb, source, cnt, share, _last FROM rows WHERE {' AND '.join(parts)} ORDER BY {order}"
    return duckdb.execute(text, values).fetchall()


@pytest.mark.parametrize("asked", CASES)
def test_pages_are_those_of_duckdb(published: tuple[Lake, pa.Table], asked: RowQuery) -> None:
    lake, rows = published
    table, wanted = result_table(lake, "flows"), expected(rows, asked)
    assert len(wanted) > 20 and table.count(asked) == len(wanted)
    for offset in (0, 10, len(wanted) - 5):
        page = table.page(asked, offset, 10)
        assert [tuple(row.values()) for row in page.to_pylist()] == wanted[offset : offset + 10]


def test_a_page_in_an_order_opens_the_files_that_can_have_its_rows(tmp_path: Path) -> None:
    """The files of the other hours are gone, and nobody misses them: not for the page, and not for the count."""
    lake = open_lake(tmp_path / "lake")
    hours = np.arange(100) // 10
    rows = pa.table({"cnt": np.arange(100), "_last": hours * HOUR + np.arange(100) % 10, "_hour": hours})
    create(lake.table("numbers"), rows.schema, ["_hour"], "q")
    append_rows(lake.table("numbers"), rows)
    table = result_table(lake, "numbers")
    for hour in range(9):
        for file in Path(lake.table("numbers") / f"_hour={hour}").glob("*.parquet"):
            file.unlink()
    largest = table.page(RowQuery(0, 10 * HOUR, sort="cnt", descending=True), 0, 10)
    assert largest.column("cnt").to_pylist() == list(range(99, 89, -1))
    assert table.count(RowQuery(0, 10 * HOUR)) == 100
    with pytest.raises(LakeError, match="cannot be read"):
        table.page(RowQuery(0, 10 * HOUR, sort="cnt"), 0, 10)
