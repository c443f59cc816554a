"""Two versions of a table, compared as DuckDB does it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.results.exploring import compare, result_table
from lowwater.lake.tables import append_rows, create, replace_rows


def rows_of(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    keys = np.sort(chance.choice(600, 400, replace=False))
    lasts = keys.astype(np.int64) * (HOUR // 150)
    counts = chance.integers(0, 3, 400)
    columns = {"tb": keys, "cnt": pa.array([None if count == 2 else int(count) for count in counts]), "_last": lasts}
    return pa.table({**columns, "_hour": lasts // HOUR})


@pytest.mark.parametrize("seed", range(3))
def test_rows_added_gone_and_changed_are_those_of_duckdb(tmp_path: Path, seed: int) -> None:
    lake, old, new = open_lake(tmp_path), rows_of(seed), rows_of(seed + 100)
    path = lake.table("flows")
    create(path, old.schema, ["_hour"], "q")
    append_rows(path, old)
    replace_rows(path, new, "_hour >= 0")
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
