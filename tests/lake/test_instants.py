"""Published tables have the instants of temporal columns as timestamps, and old tables get them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from deltalake import DeltaTable

from lowwater.catalog.expr import Type
from lowwater.catalog.schemas import CONTROL
from lowwater.instants import HOUR
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.results.exploring import Filter, RowQuery, result_table
from lowwater.lake.results.publish import fill_instants, publish
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.lake.results.subscription import subscribe
from lowwater.lake.results.visible import rows_between
from lowwater.plan.operators import Field
from lowwater.plan.properties import instant_columns, published_schema
from lowwater.plan.temporal import CLOCK, Step
from tests.lake.support import BASE, put_stream
from tests.storage.servers import PACKAGES

MINUTES = CLOCK.then(Step("div", 60_000_000_000))
FIELDS = (Field("tb", Type.INT, MINUTES), Field("n", Type.INT))


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
    begin, end = BASE + hour * HOUR, BASE + (hour + 1) * HOUR
    put_stream(lake.stream("q"), FIELDS, begin, end, rows_of(hour), "set")
    publish(lake, "set", "q", FIELDS, begin, end, digest, fingerprint(stream_files(lake.stream("q"), begin, end)))


def as_of_an_older_version(lake: Lake, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """Publishes hours as a version did that knew no instants."""
    with monkeypatch.context() as old:
        old.setattr("lowwater.plan.properties.instant_schema", lambda fields: pa.schema([]))
        old.setattr("lowwater.lake.results.publish.TAKEN_OVER", {})
        for hour in range(hours):
            begin, end = BASE + hour * HOUR, BASE + (hour + 1) * HOUR
            put_stream(lake.stream("q"), FIELDS, begin, end, rows_of(hour), "set")
            files = stream_files(lake.stream("q"), begin, end)
            publish(lake, "set", "q", FIELDS, begin, end, "d", fingerprint(files))


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
@pytest.mark.parametrize("first", ["publication", "maintenance"])
def test_an_old_table_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    lake = open_lake(tmp_path / "lake")
    as_of_an_older_version(lake, monkeypatch, 70)
    assert "tb_start" not in DeltaTable(str(lake.table("q"))).to_pyarrow_dataset().schema.names
    with subscribe(lake.root, "q", after="", history=False) as changes:
        if first == "publication":
            put(lake, 70)
            assert wrong(lake) == 70 * 2, "rows of the older version have no instant yet"
            DeltaTable(str(lake.table("q"))).optimize.compact()
        counted = fill_instants(lake, "q", FIELDS, dry_run=True)
        assert fill_instants(lake, "q", FIELDS) == counted and counted[0] in (70, 71)
        assert wrong(lake) == 0
        assert fill_instants(lake, "q", FIELDS) == (0, 0)
        told = [change.start for change in iter(changes.poll, None)]
        assert told == ([BASE + 70 * HOUR] if first == "publication" else []), "no row changed"
    put(lake, 3, "another digest")
    assert wrong(lake) == 0


def test_an_hour_published_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of an old table are written again; one of them is replaced before the commit."""
    import lowwater.lake.tables as module

    lake = open_lake(tmp_path / "lake")
    as_of_an_older_version(lake, monkeypatch, 2)
    whole, seen = module.swap_files, []

    def late(*arguments: object, **named: object) -> None:
        if not seen:
            seen.append(True)
            put(lake, 1, "another digest")
        whole(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "swap_files", late)
    fill_instants(lake, "q", FIELDS)
    assert wrong(lake) == 0
    assert len(DeltaTable(str(lake.table("q"))).to_pyarrow_table()) == 6
    assert [column.name for column in instant_columns(FIELDS)] == ["tb_start"]


SCAN = """
import sys
from pathlib import Path
import duckdb, duckdb_extension_delta
(extension,) = Path(duckdb_extension_delta.__path__[0]).rglob("*.duckdb_extension")
with duckdb.connect() as connection:
    connection.execute(f"LOAD '{extension}'")
    off = "epoch(tb_start)::BIGINT - tb * 60"
    asked = f"SELECT typeof(tb_start), {off}, count(*) FROM delta_scan(?) GROUP BY ALL ORDER BY 2"
    print(connection.execute(asked, [sys.argv[1]]).fetchall())
"""


@pytest.mark.slow
@pytest.mark.skipif(not PACKAGES.is_dir(), reason="`make .venv/.s3` fetches DuckDB's reader of Delta")
def test_duckdb_reads_timestamps_by_its_own_reader(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake")
    put(lake, 0)
    command = [sys.executable, "-c", SCAN, str(lake.table("q"))]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    last = said.stdout.splitlines()[-1]  # behind a bar that DuckDB draws where it takes long
    assert last == "[('TIMESTAMP WITH TIME ZONE', 0, 2), ('TIMESTAMP WITH TIME ZONE', None, 1)]"


def test_arrow_readers_find_rows_by_any_column(tmp_path: Path) -> None:
    """Delta's dataset takes a file without bounds of a column as one without values: filters would find nothing."""
    lake = open_lake(tmp_path / "lake")
    put(lake, 0)
    table = DeltaTable(str(lake.table("q"))).to_pyarrow_dataset()
    counted = {
        "all": table.count_rows(),
        "n": table.count_rows(filter=pads.field("n") == 2),
        "NULL": table.count_rows(filter=pads.field("tb").is_null()),
        "time": table.count_rows(filter=pads.field("tb_start") > datetime(2027, 1, 15, 8, 1, tzinfo=UTC)),
    }
    assert counted == {"all": 3, "n": 1, "NULL": 1, "time": 1}
    found = result_table(lake, "q")
    assert found.count(RowQuery(0, 1 << 62, (Filter("n", ">", "0"),))) == 2
    assert found.count(RowQuery(0, 1 << 62, (Filter("tb", "is null", ""),))) == 1
