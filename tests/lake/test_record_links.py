"""Links of records that are no packets in a lake: what is kept of their files, and the rows of queries over them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lowwater import limits
from lowwater.capture.tables import blocks, columnar
from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.arrivals import SETTLED, arrivals
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import read_packets
from lowwater.low import Policy
from lowwater.plan.context import Links
from lowwater.plan.definitions import make_context
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.job import Job
from lowwater.replay.names import lake_links
from lowwater.replay.stages.engines import reference_stage
from tests.capture.tablemaker import BEGIN, BY_NAME, NAMES, Row, as_csv, as_json, as_parquet, flows, write
from tests.replay.support import lowwater

SETTINGS = """
[interval]
length = "1h"
[links.log]
kind = "{kind}"
schemas = "flow.schema"
captures = ["log_*", "more_*"]
skew = "3s"
gap_tolerance = "2h"
since = "2025-12-31T00:00:00Z"
until = "2026-01-02T00:00:00Z"
[query_sets.q]
files = "q.gsql"
"""
QUERY = """DEFINE {{ query_name 'q'; }}
SELECT tb, src, count(*) AS n, sum(bytes) AS s FROM log.FLOW GROUP BY time/{length} AS tb, src
"""
WRITERS = {"csv": lambda rows: as_csv(rows, header=True), "json": as_json, "parquet": as_parquet}


def _lake(folder: Path, kind: str = "csv") -> Lake:
    (folder / "flow.schema").write_text(BY_NAME)
    (folder / "q.gsql").write_text(QUERY.format(length=60))
    (folder / "lowwater.toml").write_text(SETTINGS.format(kind=kind))
    return open_lake(folder)


def _take(lake: Lake, *names: str) -> list[Any]:
    return ingest(lake, "log", [lake.root / name for name in names], load_config(lake.root))


def _kept(lake: Lake) -> list[Row]:
    """The records of the lake, as the maker of the rows wrote them."""
    link = load_config(lake.root).link("log")
    columns = ["int:time", "ip.low:src", "int:bytes", "string:host", "float:rtt", "bool:up"]
    batches = read_packets(lake, "log", read_captures(lake, ["log"])["log"], link, 0, 0, END_OF_TIME, columns)
    table = pa.Table.from_batches([*batches])
    values = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return [dict(zip(NAMES, row, strict=True)) for row in values]


def _without_sources(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(value for name, value in row.items() if name != "src") for row in rows]


FORMS = [(kind, compression) for kind in ("csv", "json") for compression in ("", "gzip", "zstd")]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "compression"), [*FORMS, ("parquet", "")])
def test_a_lake_keeps_every_record(kind: str, compression: str, tmp_path: Path) -> None:
    lake, rows = _lake(tmp_path, kind), flows(1, 3000, disorder=2)
    write(tmp_path / "log_0", WRITERS[kind](rows), compression)
    (result,) = _take(lake, "log_0")
    assert (result.state, result.capture.packets, result.capture.malformed) == ("added", len(rows), 0)
    assert _without_sources(_kept(lake)) == _without_sources(rows)
    assert [each.state for each in _take(lake, "log_0")] == ["known"]


@pytest.mark.slow
def test_a_file_that_was_written_shortly_before_its_ingest_is_read_again(tmp_path: Path) -> None:
    """Its clock is coarse: a write in the same tick leaves size and time as they were."""
    lake, path = _lake(tmp_path), tmp_path / "log_0"
    write(path, as_csv(flows(1, 50), header=True))
    for before, again in ((SETTLED // 2, True), (10 * SETTLED, False)):
        os.utime(path, ns=(0, time.time_ns() - before))
        _take(lake, "log_0")
        found = arrivals(lake, load_config(tmp_path))["log"]
        assert (found.new, found.unchanged) == (((path,), ()) if again else ((), (path,)))


@pytest.mark.slow
def test_a_file_that_grew_replaces_what_was_read(tmp_path: Path) -> None:
    lake, rows = _lake(tmp_path), flows(2, 4000, disorder=2)
    write(tmp_path / "log_0", as_csv(rows[:1500], header=True))
    write(tmp_path / "more_1", as_csv([{**row, "time": row["time"] + 7200} for row in rows], header=True))
    assert [each.state for each in _take(lake, "log_0", "more_1")] == ["added", "added"]
    write(tmp_path / "log_0", as_csv(rows, header=True))
    (result,) = _take(lake, "log_0")
    assert result.state == "replaced" and "it has grown" in result.note
    assert len(_kept(lake)) == 2 * len(rows)
    stored = [path for path in lake.records("log").rglob("*.parquet") if "_delta_log" not in path.parts]
    assert len(stored) == len({path.parent for path in stored}) == 2  # nothing is left of the first version


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_records_are_divided_into_files_and_pages_by_their_bytes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECORD_PAGE_BYTES", 20_000)
    monkeypatch.setattr(limits, "FILE_BYTES", 60_000)
    monkeypatch.setattr(columnar, "BATCH_ROWS", 300)
    monkeypatch.setattr(blocks, "RECORD_BLOCK_BYTES", 20_000)
    lake, rows = _lake(tmp_path, kind), flows(8, 6000, disorder=2)
    write(tmp_path / "log_0", WRITERS[kind](rows))
    _take(lake, "log_0")
    stored = [path for path in lake.records("log").rglob("*.parquet") if "_delta_log" not in path.parts]
    assert len(stored) > 5
    assert _without_sources(_kept(lake)) == _without_sources(rows)


@pytest.mark.slow
def test_another_protocol_makes_intervals_wait_for_a_new_ingest(tmp_path: Path) -> None:
    lake, rows = _lake(tmp_path), flows(5, 50)
    write(tmp_path / "log_0", as_csv(rows, header=True))
    _take(lake, "log_0")
    job = Job.open(tmp_path, "q", tmp_path)
    start = BEGIN * 1_000_000_000
    assert job.inputs(start, start + HOUR, job.captures()).outdated() == []
    text = BY_NAME.replace("bool up get_csv_bool", "string up get_csv_string")
    (tmp_path / "flow.schema").write_text(text)
    job = Job.open(tmp_path, "q", tmp_path)
    (reason,) = job.inputs(start, start + HOUR, job.captures()).outdated()
    assert "read by another kind, protocol or form of text: ingest it again" in reason
    assert [each.state for each in _take(lake, "log_0")] == ["replaced"]
    assert job.inputs(start, start + HOUR, job.captures()).outdated() == []


@pytest.mark.slow
def test_intervals_of_a_lake_have_the_rows_of_duckdb(tmp_path: Path) -> None:
    lake, rows = _lake(tmp_path), flows(6, 9000, disorder=2)
    rows = [row for row in rows if BEGIN <= row["time"] < BEGIN + 2700]
    for number in range(3):
        part = [row for row in rows if row["time"] // 900 % 3 == number]
        write(tmp_path / f"log_{number}", as_csv(part, header=True), "zstd" if number == 1 else "")
    _take(lake, "log_0", "log_1", "log_2")
    job = Job.open(tmp_path, "q", tmp_path)
    found: list[tuple[Any, ...]] = []
    length = 600 * 1_000_000_000
    for start in range(BEGIN * 1_000_000_000, BEGIN * 1_000_000_000 + HOUR, length):
        outcome = reference_stage(job.inputs(start, start + length, job.captures()), 1_000_000_000, Policy.PERIODIC)
        table = outcome.rows["q"]
        found += zip(*(table[name].to_pylist() for name in ("tb", "n", "s")), strict=True)
    written = pa.Table.from_pylist(rows)
    query = "SELECT time // 60, count(*), sum(bytes)::BIGINT FROM written GROUP BY time // 60, src"
    assert sorted(found, key=repr) == sorted(duckdb.sql(query).fetchall(), key=repr)
    assert written.num_rows > 8000


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_export_gives_back_the_records(form: str, tmp_path: Path) -> None:
    lake, rows = _lake(tmp_path), flows(9, 500, disorder=2)
    write(tmp_path / "log_0", as_csv(rows, header=True))
    _take(lake, "log_0")
    out = tmp_path / f"out.{form}"
    given = ("--lake", tmp_path, "--out", out, "--from", "2026-01-01T00:00:10Z", "--to", "2026-01-01T00:01:00Z")
    said = lowwater("export", *given, "--where", "bytes > 5 AND src = '10.0.0.1'")
    chosen = [
        row
        for row in rows
        if BEGIN + 10 <= row["time"] < BEGIN + 60 and (row["bytes"] or 0) > 5 and row["src"] == "10.0.0.1"
    ]
    assert said.code == 0 and f"{len(chosen)} records to {out}" in said.err and chosen, said
    reader = {"csv": f"read_csv('{out}', allow_quoted_nulls=false)", "jsonl": f"read_json('{out}')"}
    source = reader.get(form, f"read_parquet('{out}')")
    columns = "time::BIGINT, src, bytes::BIGINT, host, rtt::DOUBLE, up::BOOLEAN"
    read = duckdb.sql(f"SELECT {columns} FROM {source}").fetchall()
    assert read == [tuple(row[name] for name in NAMES) for row in chosen]
    (tmp_path / "again").mkdir()
    again = _lake(tmp_path / "again", "json" if form == "jsonl" else form)
    (result,) = ingest(again, "log", [out], load_config(again.root))
    assert (result.capture.packets, result.capture.malformed) == (len(chosen), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "links"),
    [
        ("FLOW", ("a",)),
        ("LOG", ("b", "c")),
        ("[both].LOG", ("b", "c")),
        ("ZEEK_DNS", ("lookups",)),
        ("[default].ZEEK_CONN", ("conns",)),
        ("TCP", ("wire",)),
        ("a.LOG", ("a",)),  # named, so ingest's protocol is compared when the set is opened
    ],
)
def test_a_protocol_without_a_link_reads_the_links_of_this_protocol(
    source: str, links: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "flow.schema").write_text(BY_NAME)
    (tmp_path / "log.schema").write_text("PROTOCOL LOG { uint time get_csv_uint (increasing); }")
    (tmp_path / "lowwater.toml").write_text(
        '[links.a]\nkind = "csv"\nschemas = "flow.schema"\n[links.b]\nkind = "json"\nschemas = "log.schema"\n'
        '[links.c]\nkind = "csv"\nprotocol = "LOG"\nschemas = ["flow.schema", "log.schema"]\n[links.wire]\n'
        '[links.lookups]\nkind = "zeek"\nprotocol = "ZEEK_DNS"\n[links.conns]\nkind = "zeek"\nprotocol = "ZEEK_CONN"\n'
        '[sets]\nboth = ["b", "c"]\n'
    )
    config = load_config(tmp_path)
    context = make_context(Links(), config.link_schemas)
    plan = plan_texts(
        [("q.gsql", f"SELECT time FROM {source}")], lake_links(config, open_lake(tmp_path)), None, context
    )
    assert tuple(plan.links) == links
