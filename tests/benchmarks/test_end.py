"""The parts of `bench_end`: the peers answer what Lowwater answers, and commands are measured from outside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import bench_end, ours
from benchmarks import watch as measuring
from benchmarks.peers import duck
from benchmarks.subjects import SUBJECTS
from benchmarks.watch import folder_bytes, watch

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
def test_whole_query_beside_its_peers(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Few packets: a JVM that compiles all it can takes twice the processor time.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
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


@pytest.fixture
def until_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a program says to go on once the sampler has looked at it: no time is long enough on a busy machine."""
    ready, seen, tree_bytes, looks = tmp_path / "ready", tmp_path / "seen", measuring.tree_bytes, [False]

    def look(pid: int) -> int:
        if looks[-1]:
            seen.touch()
        looks.append(ready.exists())
        return tree_bytes(pid)

    monkeypatch.setattr(measuring, "tree_bytes", look)
    return f"import os, time\nopen({str(ready)!r}, 'w')\nwhile not os.path.exists({str(seen)!r}): time.sleep(0.01)\n"


@pytest.mark.slow
def test_memory_of_all_processes_counts(until_seen: str) -> None:
    child = f"held = bytearray(60 << 20); held[::4096] = bytes([1]) * len(held[::4096])\n{until_seen}"
    parent = f"import subprocess, sys; held = bytes(1) * (60 << 20); subprocess.run([sys.executable, '-c', {child!r}])"
    done = watch([sys.executable, "-c", parent])
    assert 100 << 20 < done.peak_bytes < 400 << 20
    assert done.seconds > measuring.PERIOD


@pytest.mark.slow
def test_disk_of_a_file_that_is_removed_again_counts(tmp_path: Path, until_seen: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = str(folder / "staged")
    text = f"open({file!r}, 'wb').write(bytes(1000))\n{until_seen}os.remove({file!r})"
    assert watch([sys.executable, "-c", text], folders=[folder]).disk_bytes == 1000
    assert folder_bytes(folder) == 0


def test_a_command_that_fails_ends_the_run_with_its_error() -> None:
    with pytest.raises(SystemExit, match="no such thing"):
        watch([sys.executable, "-c", "import sys; sys.exit('no such thing')"])


@pytest.mark.slow
def test_command_has_ended_when_its_last_process_has(tmp_path: Path) -> None:
    """Spark's JVM deletes its files after its driver has ended; who deletes the folder meanwhile fails."""
    child = f"import time; time.sleep(1); open({str(tmp_path / 'late')!r}, 'w')"
    watch([sys.executable, "-c", f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])"])
    assert (tmp_path / "late").exists()
