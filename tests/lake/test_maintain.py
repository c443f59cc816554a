"""Upkeep changes no row that anybody can see, and removes only what nobody needs: compared before and after."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lowwater.config import Retention
from lowwater.errors import BusyError
from lowwater.instants import HOUR, SECOND
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.runs import read_replays, record_replays
from lowwater.lake.locks import hold, hold_range, run_attempt
from lowwater.lake.maintain import UpkeepStep, maintain
from lowwater.lake.tables import live_files, open_table
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due
from tests.replay.support import (
    DEMO,
    QUERIES,
    START,
    all_tables,
    copy_lake,
    leftovers,
    replay_range,
    states,
    write_settings,
)

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = pytest.mark.slow
FOREVER = Retention(streams=None)


def later(seconds: float) -> int:
    return time.time_ns() + round(seconds * SECOND)


def kinds(found: list[UpkeepStep]) -> set[str]:
    return {each.what for each in found}


def stream_rows(lake: Path) -> dict[str, int]:
    tables = [*lake.glob("streams/*"), *lake.glob("lfta/*/*")]
    opened = {path.name: open_table(path) for path in tables}
    return {name: sum(row["num_records"] for row in live_files(t)) for name, t in opened.items() if t is not None}


@pytest.fixture(scope="module")
def first_hour(packets: Path, tmp_path_factory: pytest.TempPathFactory, runner: Runner) -> Path:
    """A lake with its first hour published in two halves: several files in one hour."""
    lake = copy_lake(packets, tmp_path_factory.mktemp("halves") / "lake")
    write_settings(lake, length="30min")
    replay_range(lake, runner, START, START + HOUR)
    return lake


@pytest.fixture
def halves(first_hour: Path, tmp_path: Path) -> Path:
    """Such a lake of the test's own."""
    return copy_lake(first_hour, tmp_path / "lake")


def test_joined_hours_hold_the_same_rows(halves: Path) -> None:
    before, held = all_tables(halves), states(halves)
    assert {len(rows) > 100 for rows in before.values()} == {True}
    readers = [open_table(halves / "tables" / query) for query in DEMO]
    opened = open_lake(halves)
    dry = maintain(opened, FOREVER, dry_run=True)
    assert [(each.what, each.where, each.files) for each in dry] == [("joined", f"tables/{name}", 2) for name in DEMO]
    assert [len(live_files(reader)) for reader in readers if reader is not None] == [2, 2]
    assert maintain(opened, FOREVER) == dry
    assert all_tables(halves) == before and states(halves) == held
    for query, reader in zip(DEMO, readers, strict=True):
        table = open_table(halves / "tables" / query)
        assert table is not None and reader is not None
        assert len(live_files(table)) == 1
        # Opened before: the files that it names are still there.
        assert reader.to_pyarrow_table().num_rows == table.to_pyarrow_table().num_rows
    assert maintain(opened, FOREVER) == []


def test_an_open_hour_is_left_alone(halves: Path) -> None:
    opened = open_lake(halves)
    last = read_replays(opened, "demo")[-1]
    record_replays(opened, [replace(last, state="provisional", finished_at=time.time_ns())])
    assert {each.where for each in maintain(opened, FOREVER)} == {"tables/flows", "tables/full_flow"} - {
        f"tables/{last.query}"
    }


def test_files_stay_for_readers_and_go_when_their_time_is_over(halves: Path) -> None:
    before = all_tables(halves)
    opened = open_lake(halves)
    table = halves / "tables" / "flows"
    hour = next(table.glob("_hour=*"))
    for name, age in (("fresh", 60), ("old", 2 * 3600)):
        path = hour / f"part-{name}.parquet"
        path.write_bytes(b"PAR1")
        os.utime(path, (time.time() - age, time.time() - age))
    maintain(opened, Retention(versions="1h"))
    assert [path.name for path in sorted(hour.glob("part-[fo]*"))] == ["part-fresh.parquet"]
    assert all_tables(halves) == before


def test_streams_go_once_they_were_published_long_enough(halves: Path, runner: Runner) -> None:
    before, held, rows = all_tables(halves), states(halves), stream_rows(halves)
    opened = open_lake(halves)
    week = Retention(streams="7d")
    assert "removed streams" not in kinds(maintain(opened, week))
    # A run is at work on an interval of another length, which overlaps the first half hour.
    with hold_range(opened, "demo", START - HOUR, START + HOUR // 2):
        found = maintain(opened, week, clock=lambda: later(8 * 24 * 3600))
    assert "removed streams" in kinds(found)
    kept = stream_rows(halves)
    assert {name: 0 < kept[name] < count for name, count in rows.items()} == dict.fromkeys(rows, True)
    maintain(opened, week, clock=lambda: later(8 * 24 * 3600))
    assert stream_rows(halves) == dict.fromkeys(rows, 0)
    assert all_tables(halves) == before and states(halves) == held
    assert due(Job.open(halves, "demo", QUERIES), DueSelection(START, START + HOUR)) == []
    (outcome,) = replay_range(halves, runner, START, START + HOUR // 2, "high")
    assert outcome.rows["flows"], "a stage makes again what it reads"
    write_settings(halves, skews={"control": "2s"}, length="30min")
    (outcome,) = replay_range(halves, runner, START, START + HOUR // 2)
    assert outcome.committed, "what was removed is made again where it is needed"


def test_the_audit_of_a_query_that_was_taken_out_keeps_no_streams(
    packets: Path, tmp_path: Path, runner: Runner
) -> None:
    """Counterexample: a set was audited, one of its queries was taken out, and the rest was published: the streams of
    the interval stayed for ever, since the newest row of that query was its audit."""
    lake = copy_lake(packets, tmp_path / "lake")
    for stage in ("low", "high", "audit"):
        replay_range(lake, runner, START, START + HOUR, stage)
    demo = (QUERIES / "demo.gsql").read_text(encoding="utf-8")
    (tmp_path / "demo.gsql").write_text(demo.partition("DEFINE { query_name 'flow1'")[0], encoding="utf-8")
    write_settings(lake, sets={"demo": tmp_path / "demo.gsql"})
    (outcome,) = replay_range(lake, runner, START, START + HOUR)
    assert outcome.committed and len(outcome.rows) < len(DEMO)
    before = all_tables(lake, [*outcome.rows])
    found = maintain(open_lake(lake), Retention(streams=0), clock=lambda: later(60))
    assert "removed streams" in kinds(found) and set(stream_rows(lake).values()) == {0}
    assert all_tables(lake, [*outcome.rows]) == before


def test_what_is_audited_and_not_published_stays(packets: Path, tmp_path: Path, runner: Runner) -> None:
    lake = copy_lake(packets, tmp_path / "lake")
    for stage in ("low", "high", "audit"):
        replay_range(lake, runner, START, START + HOUR, stage)
    rows = stream_rows(lake)
    found = maintain(open_lake(lake), Retention(streams=0), clock=lambda: later(60))
    assert "removed streams" not in kinds(found) and stream_rows(lake) == rows
    (outcome,) = replay_range(lake, runner, START, START + HOUR, "publish")
    assert outcome.committed


def test_staging_of_dead_runs_goes_and_that_of_living_ones_stays(published: Path, tmp_path: Path) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    opened = open_lake(lake)
    older = "demo_2026-01-01T00_00_00Z"  # as lakes had it whose runs were named by their start
    dead = "demo_2026-01-01T01_00_00Z_to_2026-01-01T02_00_00Z"
    with run_attempt(opened, "demo", START, START + HOUR) as (living, _):
        for folder in (opened.work / older / "attempt", opened.work / dead / "attempt", living):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "rows.parquet").write_bytes(bytes(100))
        (lake / "_drivers").mkdir()  # of versions whose drivers outlived the tasks of Airflow
        (lake / "_drivers" / "demo.json").write_bytes(bytes(10))
        expected = [UpkeepStep("removed staging", f"_work/{name}", 1, 100, "its run ended") for name in (older, dead)]
        drivers = UpkeepStep("removed staging", "_drivers", 1, 10, "no version writes or reads it any more")
        assert maintain(opened, FOREVER, dry_run=True)[:3] == [*expected, drivers]
        assert maintain(opened, FOREVER) == [*expected, drivers]
        assert leftovers(lake) == [living.parent] and not (lake / "_drivers").exists()
    assert leftovers(lake) == []
    with hold(opened, "maintenance"), pytest.raises(BusyError):
        maintain(opened, FOREVER)
