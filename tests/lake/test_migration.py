"""A lake of 0.1 is opened, says what to do, and gives the rows of 0.1 again."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from lowwater_review.ledgers import Ledgers

from lowwater.config import load_config
from lowwater.errors import LowwaterError
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_heartbeats
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from tests.replay.support import START, Rows, lowwater, table_rows

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

QUERIES = ("talkers", "loud")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).with_name("lake-0.1.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def published(lake: Path) -> dict[str, Rows]:
    return {query: table_rows(lake, query) for query in QUERIES}


@pytest.mark.slow
def test_a_lake_of_0_1_is_read_and_says_what_to_do(old: Path) -> None:
    lake = old / "lake"
    assert {query: len(rows) for query, rows in published(lake).items()} == {"talkers": 50, "loud": 22}
    said = lowwater("status", "--lake", lake, "--queries", old / "queries")
    assert said.code == 0 and "cannot start" in said.out and "ingest it again" in " ".join(said.out.split())
    said = lowwater("rows", "talkers", "--lake", lake, "--format", "csv", "--limit", 100)
    assert said.code == 0 and len(said.out.splitlines()) == 51
    job = Job.open(lake, "talkers", old / "queries")
    with pytest.raises(LowwaterError, match="decoded by version 1") as refused:
        replay(job, START, START + HOUR, None, Progress(quiet=True))
    assert "ingest" in str(refused.value)
    counts = read_heartbeats(open_lake(lake), "talkers", START, START + 2 * HOUR).to_pylist()
    assert counts and {row["shed"] for row in counts} == {0}


READERS = (
    ("plan",), ("status",), ("report",), ("rows", "talkers"), ("history", "talkers"), ("streams",), ("metrics",),
    ("diff", "talkers", "--from", "previous"), ("tail", "talkers"), ("skew",), ("try",), ("expect", "--suggest"),
    ("export", "--link", "main1", "--out", "out.pcap", "--force"), ("check", "queries/talkers.gsql"),
    ("explain", "queries/talkers.gsql", "--with-stats"), ("why", "talkers", "2026-01-01"), ("log",),
    ("rollback", "talkers", "--dry-run", "--at", "2026-01-01", "--to", "previous", "--because", "why"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["of 0.1", "of today", "that only has settings"])
def test_reading_a_lake_writes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """No lock, no folder, no ledger, and no column that this version has and 0.1 had not: others may read it too."""
    lake = old / "lake"
    monkeypatch.chdir(old)
    if kind == "of today":
        open_lake(lake)
    elif kind == "that only has settings":
        shutil.rmtree(lake)
        lake.mkdir()
        (lake / "lowwater.toml").write_text("")

    def files() -> list[tuple[str, int, int]]:
        found = [(path, path.lstat()) for path in sorted(lake.rglob("*"))]
        return [(str(path), status.st_size, status.st_ctime_ns) for path, status in found]

    before = files()
    for command in READERS:
        said = lowwater(*command, "--lake", lake)
        assert said.code in (0, 1, 3) and not re.search("cannot be (written|locked|made)", said.err), (command, said)
        assert files() == before, command
    assert Ledgers(lake, Path("queries")).now() is not None and files() == before


@pytest.mark.slow
def test_a_lake_of_0_1_gives_its_rows_again(old: Path, runner: Runner) -> None:
    lake = old / "lake"
    before = published(lake)
    opened, config = open_lake(lake), load_config(lake)
    for hour, capture in enumerate(sorted((old / "captures" / "main1").iterdir())):
        covers = (START + hour * HOUR, START + (hour + 1) * HOUR)
        (result,) = ingest(opened, "main1", [capture], config, covers)
        assert result.state == "replaced"
    job = Job.open(lake, "talkers", old / "queries")
    outcomes = replay(job, START, START + 2 * HOUR, None, Progress(quiet=True), runner)
    assert [outcome.state for outcome in outcomes] == ["done", "provisional"]
    assert published(lake) == before


@pytest.mark.slow
def test_a_lake_of_0_1_gets_timestamps_and_nothing_becomes_stale(old: Path) -> None:
    lake = old / "lake"
    before = lowwater("status", "--lake", lake, "--queries", old / "queries").out
    rows = published(lake)
    said = lowwater("maintain", "--lake", lake, "--queries", old / "queries")
    assert said.code == 0 and said.out.count("filled instants") == len(QUERIES), said
    for query, column, unit in (("talkers", "tb", 60), ("loud", "time", 1)):
        stored = DeltaTable(str(lake / "tables" / query)).to_pyarrow_table().to_pylist()
        assert all(row[f"{column}_start"].timestamp() == row[column] * unit for row in stored)
    assert lowwater("maintain", "--lake", lake, "--queries", old / "queries").out == "nothing to do\n"
    assert published(lake) == rows
    assert lowwater("status", "--lake", lake, "--queries", old / "queries").out == before
