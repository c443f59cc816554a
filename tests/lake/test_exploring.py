"""Pages, filters, plots and versions of published tables: as DuckDB has them, and the same with sums of their files."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lowwater.config import Retention
from lowwater.errors import LakeError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.maintain import maintain
from lowwater.lake.results.exploring import Filter, RowQuery, compare, curves, make_sums, result_table
from lowwater.lake.tables import append_rows, create, replace_rows

ROWS = 5_000
HOSTILE = "<b>'; DROP TABLE rows"


def fill(lake: Lake, *commits: pa.Table, name: str = "flows") -> None:
    """Makes a published table of so many commits."""
    create(lake.table(name), commits[0].schema, ["_hour"], "q")
    for rows in commits:
        append_rows(lake.table(name), rows)


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
    fill(lake, rows.slice(0, 3_000), rows.slice(3_000))
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


@pytest.mark.slow
@pytest.mark.parametrize("asked", CASES)
def test_pages_are_those_of_duckdb(published: tuple[Lake, pa.Table], asked: RowQuery) -> None:
    lake, rows = published
    table, wanted = result_table(lake, "flows"), expected(rows, asked)
    assert len(wanted) > 20 and table.count(asked) == len(wanted)
    for offset in (0, 10, len(wanted) - 5):
        page = table.page(asked, offset, 10)
        assert [tuple(row.values()) for row in page.to_pylist()] == wanted[offset : offset + 10]


def test_a_page_in_an_order_opens_the_files_that_can_have_its_rows(lake: Lake) -> None:
    """The files of the other hours are gone, and nobody misses them: not for the page, and not for the count."""
    hours = np.arange(100) // 10
    rows = pa.table({"cnt": np.arange(100), "_last": hours * HOUR + np.arange(100) % 10, "_hour": hours})
    fill(lake, rows, name="numbers")
    table = result_table(lake, "numbers")
    for hour in range(9):
        for file in Path(lake.table("numbers") / f"_hour={hour}").glob("*.parquet"):
            file.unlink()
    largest = table.page(RowQuery(0, 10 * HOUR, sort="cnt", descending=True), 0, 10)
    assert largest.column("cnt").to_pylist() == list(range(99, 89, -1))
    assert table.count(RowQuery(0, 10 * HOUR)) == 100
    with pytest.raises(LakeError, match="cannot be read"):
        table.page(RowQuery(0, 10 * HOUR, sort="cnt"), 0, 10)


def keyed_rows(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    keys = np.sort(chance.choice(600, 400, replace=False))
    lasts = keys.astype(np.int64) * (HOUR // 150)
    counts = chance.integers(0, 3, 400)
    columns = {"tb": keys, "cnt": pa.array([None if count == 2 else int(count) for count in counts]), "_last": lasts}
    return pa.table({**columns, "_hour": lasts // HOUR})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_rows_added_gone_and_changed_are_those_of_duckdb(lake: Lake, seed: int) -> None:
    old, new = keyed_rows(seed), keyed_rows(seed + 100)
    fill(lake, old)
    replace_rows(lake.table("flows"), new, None)
    before, after = result_table(lake, "flows", 1), result_table(lake, "flows", 2)
    start, end = HOUR // 2, 3 * HOUR
    found = compare(before, after, ["tb"], start, end, 1_000)
    both = (
        "SELECT count(*) FILTER (o.tb IS NULL), count(*) FILTER (n.tb IS NULL), "
        "count(*) FILTER (o.tb = n.tb AND o.cnt IS DISTINCT FROM n.cnt), "
        "count(*) FILTER (o.tb = n.tb AND o.cnt IS NOT DISTINCT FROM n.cnt) "
        f"FROM (FROM old WHERE _last >= {start} AND _last < {end}) o "
        f"FULL JOIN (FROM new WHERE _last >= {start} AND _last < {end}) n ON o.tb = n.tb"
    )
    with duckdb.connect() as oracle:
        wanted = oracle.execute(both).fetchone()
    assert wanted is not None and min(wanted) > 10
    assert (found.added, found.gone, found.changed, found.same) == wanted
    assert len(found.examples) == sum(wanted[:3]) and not found.equal
    whole = compare(before, after, [], start, end)
    assert (whole.added, whole.gone, whole.changed) == (wanted[0] + wanted[2], wanted[1] + wanted[2], 0)
    assert compare(before, before, ["tb"], start, end).equal


def test_a_row_with_nan_is_the_same_in_both_versions(lake: Lake) -> None:
    rows = pa.table({"tb": [1, 2], "share": [math.nan, 0.5], "_last": [0, 1], "_hour": [0, 0]})
    fill(lake, rows)
    table = result_table(lake, "flows")
    for key in (["tb"], []):
        found = compare(table, table, key, 0, HOUR)
        assert found.equal and found.same == 2


HOURS = 130
WHOLE = RowQuery(0, HOURS * HOUR)


def make_rows(seed: int) -> pa.Table:
    """Rows with NULLs, negative numbers, few and many values."""
    chance = np.random.default_rng(seed)
    lasts = np.sort(chance.integers(0, HOURS * HOUR, 3_000))
    names = np.array(["10.0.0.1", "10.0.0.2", "<b>", "'", None], object)
    columns = {
        "tb": lasts // (60 * SECOND),
        "source": pa.array(chance.choice(names, 3_000), pa.string()),
        "port": pa.array(
            [None if value % 7 == 0 else int(value) for value in chance.integers(-2, 9, 3_000)], pa.int64()
        ),
        "flow": pa.array([f"f{value}" for value in chance.integers(0, 1_500, 3_000)]),
        "cnt": pa.array([None if value % 17 == 0 else int(value) for value in chance.integers(-100, 900, 3_000)]),
        "share": chance.integers(0, 50, 3_000) / 8,
        "_last": lasts,
        "_hour": lasts // HOUR,
    }
    return pa.table(columns)


@pytest.fixture
def summed(lake: Lake) -> Lake:
    fill(lake, make_rows(3))
    return lake


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


@pytest.mark.slow
def test_plots_counts_and_pages_are_the_same_with_and_without_sums(summed: Lake) -> None:
    def everything() -> list[Any]:
        table = result_table(summed, "flows")
        return [(shown(summed, *each), table.count(each[0]), table.page(each[0], 0, 50).to_pylist()) for each in ASKED]

    before = everything()
    assert make_sums(summed.table("flows"))[0] == HOURS
    for asked, was, found in zip(ASKED, before, everything(), strict=True):
        assert found == was and found[1] > 0 and not found[0][1], asked


@pytest.mark.slow
def test_no_file_of_the_table_is_opened_where_its_sums_are_known(summed: Lake) -> None:
    """The files are gone, and nobody misses them; a plot that sums cannot answer does."""
    wanted = [shown(summed, *each)[0] for each in ASKED[:6]]
    maintain(summed, Retention())
    for file in summed.table("flows").rglob("*.parquet"):  # type: ignore[attr-defined]
        file.unlink()
    assert [shown(summed, *each)[0] for each in ASKED[:6]] == wanted
    assert result_table(summed, "flows").count(ASKED[7][0]) > 0
    with pytest.raises(LakeError, match="cannot be read"):
        shown(summed, replace(WHOLE, filters=(Filter("cnt", ">", "5"),)), "cnt", "source")
