"""Published tables have the instants of temporal columns as timestamps, and old tables get them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lowwater.catalog.schemas import CONTROL
from lowwater.catalog.values import Type
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results.publish import fill_instants
from lowwater.lake.results.published_rows import rows_between
from lowwater.lake.results.subscription import subscribe
from lowwater.plan.operators import Field
from lowwater.plan.properties import published_schema
from lowwater.plan.temporal import CLOCK, Step
from tests.breadth import each_push
from tests.lake.support import BASE, publish_rows

MINUTES = CLOCK.then(Step("div", 60_000_000_000))
FIELDS = (Field("tb", Type.INT, MINUTES), Field("n", Type.INT))
HOURS = 10
"""More than one commit of COMMIT_FILES of the test takes."""


def rows_of(hour: int, count: int = 3) -> pa.Table:
    """Rows of an hour, a minute apart, one of them without a time; and the punctuation of their stream."""
    made = []
    for at in range(count):
        last = BASE + hour * HOUR + at * 60_000_000_000
        made.append({"tb": None if at == 1 else last // 60_000_000_000, "n": at, "_last": last, "_kind": "row"})
    made.append({"tb": None, "n": None, "_last": BASE + 99 * HOUR, "_kind": "punctuation"})
    for row in made:
        row |= {"_tick": row["_last"], "_until": row["_last"], "_period": 0}
    return pa.Table.from_pylist(made, schema=pa.schema([*published_schema(FIELDS), *CONTROL]))


def put(lake: Lake, hour: int, digest: str = "d") -> None:
    publish_rows(lake, BASE + hour * HOUR, BASE + (hour + 1) * HOUR, rows_of(hour), digest, fields=FIELDS)


def as_of_an_older_version(lake: Lake, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """Publishes hours as a version did that knew no instants."""
    with monkeypatch.context() as old:
        old.setattr("lowwater.plan.properties.instant_schema", lambda fields: pa.schema([]))
        old.setattr("lowwater.lake.results.publish.WITH_INSTANTS", {})
        for hour in range(hours):
            put(lake, hour)


def wrong(lake: Lake) -> int:
    """Number of rows whose instant is not the begin of their minute, by DuckDB's arithmetic."""
    table = DeltaTable(str(lake.table("q"))).to_pyarrow_dataset()
    assert table.schema.field("tb_start").type == pa.timestamp("us", tz="UTC")
    with duckdb.connect() as connection:
        connection.register("q", table)
        asked = "SELECT count(*) FROM q WHERE tb_start IS DISTINCT FROM to_timestamp(tb * 60)"
        return int(connection.execute(asked).fetchall()[0][0])


def test_published_rows_have_their_instants(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    put(lake, 0)
    assert wrong(lake) == 0 and fill_instants(lake, "q", FIELDS) == (0, 0)
    plain = rows_between(lake, "q", BASE, BASE + HOUR)
    timed = rows_between(lake, "q", BASE, BASE + HOUR, instants=True)
    assert plain is not None and timed is not None
    assert plain.columns == timed.columns == ("tb", "n") and timed.instants == ("tb_start",)
    assert [batch.schema.names for batch in plain.batches()] == [["tb", "n"]]
    assert [batch.schema.names for batch in timed.batches()] == [["tb", "n", "tb_start"]]
    with subscribe(lake.root, "q", after="") as changes:
        assert changes.columns == ("tb", "n")
        change = changes.poll()
        assert change is not None and set(next(change.rows())) == {"tb", "n", "_last"}


@pytest.mark.slow
@pytest.mark.parametrize("first", each_push(["publication", "maintenance"], 2))
def test_an_old_table_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    monkeypatch.setattr("lowwater.limits.COMMIT_FILES", 8)
    lake = open_lake(tmp_path / "lake")
    as_of_an_older_version(lake, monkeypatch, HOURS)
    assert "tb_start" not in DeltaTable(str(lake.table("q"))).to_pyarrow_dataset().schema.names
    with subscribe(lake.root, "q", after="", history=False) as changes:
        if first == "publication":
            put(lake, HOURS)
            assert wrong(lake) == HOURS * 2, "rows of the older version have no instant yet"
            DeltaTable(str(lake.table("q"))).optimize.compact()
        counted = fill_instants(lake, "q", FIELDS, dry_run=True)
        assert fill_instants(lake, "q", FIELDS) == counted and counted[0] in (HOURS, HOURS + 1)
        assert wrong(lake) == 0
        assert fill_instants(lake, "q", FIELDS) == (0, 0)
        told = [change.start for change in iter(changes.poll, None)]
        assert told == ([BASE + HOURS * HOUR] if first == "publication" else []), "no row changed"
    put(lake, 3, "another digest")
    assert wrong(lake) == 0
