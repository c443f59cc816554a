"""Pins, versions that come back, and the instants of older tables, in an object store."""

from __future__ import annotations

import pytest

from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.results.exploring import RowQuery, result_table
from lowwater.lake.results.pins import pinned
from lowwater.lake.results.publish import fill_instants, restore
from lowwater.lake.results.published_rows import rows_between
from lowwater.storage.object_paths import ObjectPath
from tests.lake.pinning import QUERIES, put
from tests.lake.support import BASE, FIELDS
from tests.lake.test_instants import FIELDS as TIMED, as_of_an_older_version


@pytest.mark.slow
def test_pins_and_versions_are_those_of_a_folder(root: ObjectPath) -> None:
    lake = open_lake(root)
    put(lake, 0, 1)
    first = pinned(lake, "set")
    put(lake, 0, 2)
    second = pinned(lake, "set")
    assert first is not None and second is not None and not second.unfinished
    later = {query: version - first.tables[query] for query, version in second.tables.items()}
    assert later == dict.fromkeys(QUERIES, 1)
    assert restore(lake, "set", "one", FIELDS, BASE, BASE + HOUR, first.tables["one"], {"by": "ann"}).rows == 20
    table = result_table(lake, "one")
    numbers = {number for batch in table.batches(RowQuery(0, 1 << 62)) for number in batch.column("n").to_pylist()}
    assert (numbers, table.version) == ({1}, second.tables["one"] + 1)


@pytest.mark.slow
def test_an_older_table_gets_its_instants(root: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = open_lake(root)
    as_of_an_older_version(lake, monkeypatch, 2)
    assert fill_instants(lake, "q", TIMED)[0] == 2
    rows = rows_between(lake, "q", BASE, BASE + 2 * HOUR, instants=True)
    assert rows is not None
    found = [row for batch in rows.batches() for row in batch.to_pylist()]
    assert len(found) == 6
    assert all((row["tb"] and row["tb"] * 60) == (row["tb_start"] and row["tb_start"].timestamp()) for row in found)
