"""A sum that does not fit 64 bits ends its query in `run`, and no other query of the set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capturemaker import Record, pcap_bytes, udp
from tests.replay.support import Said, lowwater

SECOND = 1_000_000_000
BEGIN = 1_200_000 * SECOND
QUERIES = """DEFINE { query_name 'flows'; }
SELECT tb, destPort, count(*) AS n, sum(len) AS bytes FROM a.UDP GROUP BY time/60 AS tb, destPort;
DEFINE { query_name 'large'; }
SELECT tb,
       sum(len*100000000000000000) AS total
FROM a.UDP GROUP BY time/60 AS tb;
DEFINE { query_name 'running'; }
SELECT tb, count(*) AS n,
  running_sum(len*100000000000000000) AS total FROM a.UDP GROUP BY time/60 AS tb CLOSING_WHEN count(*) = 0;
DEFINE { query_name 'mean'; }
SELECT tb, destPort, avg(len*100000000000000000) AS mean FROM a.UDP GROUP BY time/60 AS tb, CUBE(destPort);
DEFINE { query_name 'sliding'; }
SELECT wid, avg(len*100000000000000000) AS mean FROM a.UDP [RANGE 2 min, SLIDE 1 min, WA time];
DEFINE { query_name 'all'; }
SELECT time, len FROM a.UDP
"""
ENGINES = ["reference", pytest.param("process", marks=pytest.mark.slow)]


def ran(folder: Path, engine: str, text: str, *options: str) -> Said:
    """`lowwater run` over two packets in a minute, and two in the minute after the next."""
    stamps = (0, 60, 185, 190)
    packets: list[Record] = [(BEGIN + at * SECOND, udp("10.0.0.1", "10.0.0.2", 9, 53, data=bytes(20))) for at in stamps]
    (folder / "a.pcap").write_bytes(pcap_bytes(packets))
    (folder / "set.gsql").write_text(text, encoding="utf-8")
    files = ("--capture", f"a={folder / 'a.pcap'}", "--out", folder / "out")
    return lowwater("run", folder / "set.gsql", *files, "--engine", engine, *options)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("options", [(), ("--interval", "1min")])
def test_the_other_queries_of_the_set_are_written(engine: str, options: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert ran(tmp_path, engine, QUERIES.replace("00000000000000000", ""), *options).code == 0
    before = {name: (out / f"{name}.csv").read_text() for name in ("flows", "all")}
    means = {name: (out / f"{name}.csv").read_text().replace(",62\n", ",6.2e+18\n") for name in ("mean", "sliding")}
    assert (out / "large.csv").exists()

    said = ran(tmp_path, engine, QUERIES, *options)
    assert said.code == 1
    assert "query large, at 5:8" in said.err and "query running, at 9:3" in said.err
    assert said.err.count("does not fit 64 bits") == 2
    assert f"the results of the other queries are in {out}" in said.err
    assert {name: (out / f"{name}.csv").read_text() for name in before} == before
    assert {name: (out / f"{name}.csv").read_text() for name in means} == means, "an average has no end at 64 bits"
    assert not (out / "large.csv").exists() and not (out / "running.csv").exists(), "those of an earlier run are gone"
    assert "large    -" in said.out and "flows" in said.out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["queries"]["all"]["rows"] == 4
    assert "query large, at 5:8" in summary["queries"]["large"]["error"]
    assert summary["links"]["a"]["read"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_set_of_which_no_query_has_a_result_writes_none(engine: str, tmp_path: Path) -> None:
    _, large, running, *_ = QUERIES.split(";\nDEFINE")
    said = ran(tmp_path, engine, f"DEFINE{large};\nDEFINE{running}", "--interval", "1min")
    assert said.code == 1 and "query large, at 3:8" in said.err
    assert not (tmp_path / "out" / "summary.json").exists()
