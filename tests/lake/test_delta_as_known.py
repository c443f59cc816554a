"""What people do to published Delta tables, by delta-rs while Lowwater publishes: nothing is lost or damaged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lowwater.lake.layout import open_lake
from lowwater.lake.results.published import damage_of
from tests.lake.support import BASE
from tests.quality.test_project import HOUR, hour


@pytest.mark.slow
def test_optimize_vacuum_time_travel_and_changes_work_between_publications(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    path = str(lake.table("q"))
    hour(lake, 0, [1, 2, 3])
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    since = DeltaTable(path).version() + 1
    hour(lake, 1, [4, 5])
    hour(lake, 0, [1, 2])
    versions = [DeltaTable(path, version=at).to_pyarrow_table().column("n").to_pylist() for at in (since, since + 1)]
    assert [sorted(rows) for rows in versions] == [[1, 2, 3, 4, 5], [1, 2, 4, 5]], "time travel"
    changes = pa.table(DeltaTable(path).load_cdf(since)).to_pylist()
    balance: dict[int, int] = {}
    for row in changes:
        balance[row["n"]] = balance.get(row["n"], 0) + (1 if row["_change_type"] == "insert" else -1)
    assert balance == {1: 0, 2: 0, 3: -1, 4: 1, 5: 1}, "what a reader adds up is what was published"
    table = DeltaTable(path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    hour(lake, 2, [6])
    assert sorted(DeltaTable(path).to_pyarrow_table().column("n").to_pylist()) == [1, 2, 4, 5, 6]
    assert [damage_of(lake, "set", "q", BASE + n * HOUR, BASE + (n + 1) * HOUR) for n in range(3)] == [""] * 3
