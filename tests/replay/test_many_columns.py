"""Aggregations of more columns than a group table of the low level has: their rows are those of any other."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from lowwater.plan.operators import MOST_COLUMNS
from tests import capturemaker as maker
from tests.replay.support import lowwater

START = 1_767_225_600_000_000_000
SECOND = 1_000_000_000


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["reference", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("count", [MOST_COLUMNS, MOST_COLUMNS + 1])
def test_many_sums(tmp_path: Path, count: int, engine: str) -> None:
    capture, query = tmp_path / "a.pcap", tmp_path / "q.gsql"
    frames = [(START + n * SECOND, maker.udp("10.0.0.1", "10.0.0.2", n, 53, b"x")) for n in range(1, 101)]
    capture.write_bytes(maker.pcap_bytes(frames))
    sums = ", ".join(f"sum(srcPort+{n}) AS s{n}" for n in range(count))
    query.write_text(f"DEFINE {{ query_name 'q'; }} SELECT tb, {sums} FROM a.UDP GROUP BY time/50 AS tb")
    said = lowwater("run", query, "--capture", f"a={capture}", "--out", tmp_path / "out", "--engine", engine)
    assert said.code == 0, said.err
    with (tmp_path / "out" / "q.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    epochs = [range(1, 50), range(50, 100), range(100, 101)]
    assert [[int(row[f"s{n}"]) for n in range(count)] for row in rows] == [
        [sum(ports) + n * len(ports) for n in range(count)] for ports in epochs
    ]
