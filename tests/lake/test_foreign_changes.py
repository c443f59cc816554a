"""What another program does to any table of a lake is healed, or named with the command that heals it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks import bench_store as bench
from lowwater.instants import HOUR
from lowwater.lake.layout import MEASURES, open_lake
from lowwater.storage import paths
from tests.breadth import each_push
from tests.replay.support import lowwater

pytestmark = pytest.mark.slow
TABLES = {
    "contents": ("contents",),
    "replays": ("replays",),
    "published": ("tables/flows", "tables/bytes"),
    "between stages": ("streams/flows", "streams/bytes", "lfta/flows", "lfta/bytes"),
    "measures": (
        "heartbeats",
        "quality",
        "metrics",
        "lateness",
        *(f"measures/{name}" for name in MEASURES if name != "rows"),
    ),
    "accounts": ("sightings", "malformed", "quarantine", "skew_violations"),
}
HOURS = 2
END = bench.BEGIN + HOURS * HOUR


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    bench.write_captures(folder, HOURS)
    lake = folder / "lake"
    lake.mkdir()
    paths.write(lake / "lowwater.toml", bench.settings(folder))
    bench.ingest(lake)
    bench.publish(lake, bench.BEGIN, END)
    return lake


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


def places(lake: Path) -> dict[str, Path]:
    """Name of each table -> its folder; those of LFTAs without their digests."""
    found = [Path(path) for path in open_lake(lake).all_tables() if (path / "_delta_log").exists()]
    names = [path.relative_to(lake).as_posix() for path in found]
    return {
        f"lfta/{path.name.partition('-')[0]}" if name.startswith("lfta/") else name: path
        for name, path in zip(names, found, strict=True)
    }


def rows(lake: Path) -> dict[str, list[str]]:
    tables = {name: DeltaTable(lake / "tables" / name).to_pyarrow_table() for name in ("flows", "bytes")}
    return {name: sorted(map(str, table.to_pylist())) for name, table in tables.items()}


def healed(lake: Path) -> str:
    """Does what an operator does: ingest, and what is due; returns what `status` said before."""
    said = lowwater("ingest", "--lake", lake)
    assert said.code == 0, said
    told = lowwater("status", "--lake", lake)
    assert told.code == 0, told
    bench.publish(lake, bench.BEGIN, END)
    return told.out


def test_each_table_of_a_lake_is_tried(lake: Path) -> None:
    assert set(places(lake)) == {"packets", *(name for names in TABLES.values() for name in names)}


def test_joins_and_clean_ups_of_every_table_change_nothing(lake: Path) -> None:
    before = rows(lake)
    for name, path in places(lake).items():
        if name != "packets":  # its files are known by their names; see `test_ingest`
            table = DeltaTable(path)
            table.optimize.compact()
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert "damaged" not in healed(lake) and rows(lake) == before
    assert lowwater("plan", "--lake", lake).out == "nothing is due\n"


@pytest.mark.parametrize(
    ("kind", "act"),
    each_push([*((kind, "delete") for kind in TABLES), ("contents", "restore"), ("replays", "restore")], 3),
)
def test_rows_that_are_taken_away_come_back_or_are_not_needed(lake: Path, kind: str, act: str) -> None:
    before, found = rows(lake), places(lake)
    for table in (DeltaTable(found[name]) for name in TABLES[kind]):
        table.delete() if act == "delete" else table.restore(0)
    said = healed(lake)
    assert ("damaged" in said) == (kind == "published")
    assert rows(lake) == before
    assert lowwater("plan", "--lake", lake).out == "nothing is due\n"
