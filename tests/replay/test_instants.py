"""`run --instants` and `rows --instants` show temporal columns as ISO 8601; without the option nothing changes."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lowwater_generator import generate

from tests.replay.support import START, lowwater

TEXT = """DEFINE { query_name 'talkers'; }
SELECT tb, srcIP, count(*) AS packets FROM main1.TCP GROUP BY time/60 AS tb, srcIP;
DEFINE { query_name 'plain'; }
SELECT srcIP, count(*) AS packets FROM main1.TCP GROUP BY time/60 AS tb, srcIP
"""


@pytest.mark.slow
def test_run_writes_instants_where_asked(tmp_path: Path) -> None:
    (made, *_) = generate(tmp_path, START, 1, ["main1"], rate=0.2, seed=5)
    capture, query = made.path, tmp_path / "q.gsql"
    query.write_text(TEXT, encoding="utf-8")

    def run(name: str, *more: str) -> Path:
        given = ("--capture", f"main1={capture}", "--out", tmp_path / name, "--engine", "reference")
        said = lowwater("run", query, *given, *more)
        assert said.code == 0, said
        return tmp_path / name

    plain, timed = run("plain"), run("timed", "--instants")
    rows = list(csv.reader((plain / "talkers.csv").read_text().splitlines()))
    shown = list(csv.reader((timed / "talkers.csv").read_text().splitlines()))
    assert rows[0] == ["tb", "srcIP", "packets"] and shown[0] == [*rows[0], "tb_start"]
    assert [row[:3] for row in shown] == rows and len(rows) > 10
    for row in shown[1:]:
        assert row[3] == datetime.fromtimestamp(int(row[0]) * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (plain / "plain.csv").read_bytes() == (timed / "plain.csv").read_bytes(), "no column has a time"
    text = (run("json", "--instants", "--format", "json") / "talkers.json").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["tb_start"] for line in lines] == [row[3] for row in shown[1:]]
    table = pq.read_table(run("parquet", "--instants", "--format", "parquet") / "talkers.parquet")
    assert str(table.schema.field("tb_start").type) == "timestamp[us, tz=UTC]"
    assert [at.timestamp() for at in table["tb_start"].to_pylist()] == [int(row[0]) * 60 for row in rows[1:]]
