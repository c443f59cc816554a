"""The parts of `bench_end`: the peers answer what Lowwater answers, and commands are measured from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import bench_end, ours
from benchmarks.peers import duck
from benchmarks.subjects import SUBJECTS
from benchmarks.watch import watch

LINKS = "main1,main2"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of two links, about 2,000 packets."""
    return bench_end.generated(tmp_path_factory.mktemp("bench") / "captures", 0.3, LINKS, lambda _: None)


@pytest.fixture(scope="module")
def packets(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The decoded packets of them."""
    lake = tmp_path_factory.mktemp("lake") / "lake"
    watch([ours.COMMAND, "init", source, "--lake", lake])
    watch([ours.COMMAND, "ingest", "--lake", lake])
    return lake / "packets"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_sql_asks_what_gsql_asks(name: str, source: Path, packets: Path, tmp_path: Path) -> None:
    found = duck.answer(name, packets, tmp_path / "peer")
    subject, out = SUBJECTS[name], tmp_path / "ours"
    words = [ours.COMMAND, "run", subject.file, "--engine", "reference", "--format", "parquet", "--out", out]
    for link in LINKS.split(","):
        words += ["--skew", f"{link}=10s"]
        words += [part for file in sorted((source / link).iterdir()) for part in ("--capture", f"{link}={file}")]
    watch([*words, "--query", subject.output])
    mine = duck.counted(name, out)
    assert found == mine
    assert found["rows"] > 100


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.spark
def test_whole_query_beside_its_peers(source: Path, tmp_path: Path) -> None:
    found = bench_end.one_query("ports", source, tmp_path / "work", lambda _: None, empty=False)
    warm = found["lowwater"]["warm"]
    assert sum(warm["stages_seconds"].values()) == pytest.approx(warm["seconds"], abs=0.1)
    assert all(warm["stages_seconds"][stage] > 0 for stage in ("init", "ingest", *ours.STAGES))
    assert warm["lfta_rows"] >= warm["rows"] == warm["rows_published"] > 100
    assert warm["lake_bytes"] > warm["packets_table_bytes"] > 0
    assert found["duckdb"]["same_answer"]
    assert found["pyspark_batch"]["same_answer"]
    assert found["pyspark_stream"]["same_up_to_last_epoch"]
    assert not (tmp_path / "work").exists()
