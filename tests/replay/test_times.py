"""Instants of queries (V6) from captures to what people read: rows of runs, tables, streams, notebooks and exports."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lowwater import Lake
from lowwater.instants import HOUR, format_instant
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow
BEGIN = 480_000 * HOUR
NEW_YEAR = 1_767_225_600 * 10**9
CASE = (NEW_YEAR + 10 * HOUR - 1, NEW_YEAR + 10 * HOUR, NEW_YEAR + 10 * HOUR + 599 * 10**9)
"""The packets of the case of rule V6."""
TEXT = """DEFINE { query_name 'tens'; }
SELECT tb, count(*) AS packets, max(CAST(timestamp AS TIMESTAMP)) AS latest FROM p.UDP
GROUP BY time_bucket(INTERVAL '10 minutes', timestamp) AS tb;
DEFINE { query_name 'sevens'; }
SELECT tb, count(*) AS packets FROM p.UDP GROUP BY time_bucket(timestamp, INTERVAL '7 minutes') AS tb;
DEFINE { query_name 'above'; }
SELECT day, extract(hour FROM tb) AS hour, sum(packets) AS packets FROM tens
GROUP BY date_trunc('day', tb) AS day, extract(hour FROM tb) AS hour
"""
MORE = """;
DEFINE { query_name 'slots'; }
SELECT tb, count(*) AS packets FROM p.UDP GROUP BY time_bucket(INTERVAL '3 minutes', timestamp) AS tb FILL;
DEFINE { query_name 'apart'; }
SELECT tb, tb - lag(tb) OVER (ORDER BY tb) AS apart FROM slots WHERE packets > 0
"""


def written(folder: Path, stamps: tuple[int, ...] = CASE) -> tuple[Path, Path]:
    capture, query = folder / "a.pcap", folder / "q.gsql"
    frame = udp("10.0.0.1", "10.0.0.2", 1, 2)
    capture.write_bytes(pcap_bytes([(stamp, frame) for stamp in stamps], nanoseconds=True))
    query.write_text(TEXT, encoding="utf-8")
    return capture, query


@pytest.mark.parametrize(
    "more", [pytest.param(("--interval", "1m"), marks=pytest.mark.nightly), ("--engine", "reference")]
)
def test_the_case_of_the_rule(tmp_path: Path, more: tuple[str, str]) -> None:
    capture, query = written(tmp_path)
    query.write_text(TEXT + MORE, encoding="utf-8")
    said = lowwater("run", query, "--capture", f"p={capture}", "--out", tmp_path / "out", *more)
    assert said.code == 0, said
    assert (tmp_path / "out" / "tens.csv").read_text() == (
        "tb,packets,latest\n2026-01-01T09:50:00Z,1,2026-01-01T09:59:59.999999Z\n"
        "2026-01-01T10:00:00Z,2,2026-01-01T10:09:59Z\n"
    )
    assert (tmp_path / "out" / "sevens.csv").read_text() == (
        "tb,packets\n2026-01-01T09:54:00Z,2\n2026-01-01T10:08:00Z,1\n"
    )
    assert (tmp_path / "out" / "above.csv").read_text() == (
        "day,hour,packets\n2026-01-01T00:00:00Z,9,1\n2026-01-01T00:00:00Z,10,2\n"
    )
    slots = (("09:57", 1), ("10:00", 1), ("10:03", 0), ("10:06", 0), ("10:09", 1))
    rows = "".join(f"2026-01-01T{begin}:00Z,{packets}\n" for begin, packets in slots)
    assert (tmp_path / "out" / "slots.csv").read_text() == f"tb,packets\n{rows}"
    assert (tmp_path / "out" / "apart.csv").read_text() == (
        "tb,apart\n2026-01-01T09:57:00Z,\n2026-01-01T10:00:00Z,180000000\n2026-01-01T10:09:00Z,540000000\n"
    )


def test_instants_are_timestamps_wherever_rows_are_read(tmp_path: Path) -> None:
    capture, query = written(tmp_path, tuple(BEGIN + minute * 60 * 10**9 for minute in (1, 12, 13, 59)))
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "lowwater.toml").write_text(
        f'[query_sets.q]\nfiles = ["{query}"]\n[links.p]\nsince = "{format_instant(BEGIN)}"\n', encoding="utf-8"
    )
    span = f"{format_instant(BEGIN)}/{format_instant(BEGIN + HOUR)}"
    for words in (("ingest", "--link", "p", capture, "--covers", span), ("backfill", "--through-end")):
        said = lowwater(*words, "--lake", lake)
        assert said.code == 0, said
    stored = DeltaTable(str(lake / "tables" / "tens")).to_pyarrow_table()
    assert [stored.schema.field(name).type for name in ("tb", "latest")] == [pa.timestamp("us", "UTC")] * 2
    assert "tb_start" not in stored.schema.names
    begin = datetime.fromtimestamp(BEGIN // 10**9, UTC)
    wanted = [(begin + timedelta(minutes=10 * at), n) for at, n in ((0, 1), (1, 2), (5, 1))]
    found = Lake(lake).table("tens").arrow().sort_by("tb")
    assert list(zip(found["tb"].to_pylist(), found["packets"].to_pylist(), strict=True)) == wanted
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT epoch_us(tb), packets FROM found").fetchall()
    assert rows == [(round(at.timestamp() * 1e6), n) for at, n in wanted]

    texts = [at.strftime("%Y-%m-%dT%H:%M:%SZ") for at, _ in wanted]
    for words in (("rows", "tens", "--format", "json"), ("tail", "tens", "--format", "json", "--from", texts[0])):
        said = lowwater(*words, "--lake", lake)
        assert said.code == 0, said
        lines = [json.loads(line) for line in said.out.splitlines()]
        assert [line["tb"] for line in lines if line.get("_kind", "row") == "row"] == texts
        told = [line["tb"] for line in lines if line.get("_kind") == "punctuation"]
        assert told == ([format_instant(BEGIN + HOUR)] if words[0] == "tail" else [])
    said = lowwater(
        "sql", "SELECT tb, packets FROM tens WHERE tb >= TIMESTAMP '2000-01-01' ORDER BY tb", "--lake", lake
    )
    assert said.code == 0 and all(text in said.out for text in texts), said
    said = lowwater("streams", "--lake", lake, "--json")
    columns = json.loads(said.out)["streams"][-1]["columns"]
    assert {each["name"]: each["promise"] for each in columns}["tb"] == format_instant(BEGIN + HOUR)
