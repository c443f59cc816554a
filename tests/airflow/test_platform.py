"""The pipeline through Airflow itself: backfills, kills, retries, audits that stop a run, captures that come late."""

from __future__ import annotations

import random
import re
import shutil
import stat
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

from lowwater.instants import HOUR, format_instant, parse_instant, spoken_span
from lowwater.lake.tables import open_table
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses
from tests.airflow.chromium import browser, frame
from tests.airflow.conftest import CANARIES, LATE_HOURS, PATIENCE, Platform, asset_events, script, wait
from tests.replay.support import END, HOURS, LINKS, START, copy_lake, leftovers, lowwater, table_rows

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
PAIR = ("flows", "right", "joined")
BOTH, BOTH_END = 2, START + 2 * HOUR
"""Hours of the backfill that is killed, and their end."""


def test_reverse_and_parallel_with_kills(platform: Platform, runner: Runner, tmp_path: Path) -> None:
    """Backfill backwards, two runs at once, one process of each run killed at random: the tables of a clean run."""
    assert ingested(platform) == dict.fromkeys((*LINKS, "log"), HOURS) | {"late": 1}
    untouched = copy_lake(platform.lake, tmp_path / "clean")
    seed = random.randrange(1 << 30)
    print(f"seed of the kills: {seed}")
    with script("kills").Killer(platform.lake, random.Random(seed)) as killer:
        platform.backfill("replay_pair", START, BOTH_END - HOUR, parallel=2, backwards=True)
        assert set(platform.finish("replay_pair", BOTH).values()) == {"success"}
    assert len(killer.killed) == BOTH, killer.killed
    tries = [platform.task("replay_pair", START + hour * HOUR, "interval")["try_number"] for hour in range(BOTH)]
    assert min(tries) >= 2
    replay(Job.open(untouched, "pair", platform.home.queries), START, BOTH_END, None, Progress(quiet=True), runner)
    for query in (*PAIR, "logged"):
        assert table_rows(platform.lake, query) == table_rows(untouched, query) != []
    assert logged(platform.lake) == records(platform.captures / "log", BOTH_END)
    assert leftovers(platform.lake) == []
    found = states(platform, "pair")
    assert [found[START + hour * HOUR, "joined"] for hour in range(BOTH)] == ["done", "incomplete"]


def test_assets_carry_metadata(platform: Platform) -> None:
    """Each publication is an event of its table's asset, with rows, digest and verdict."""
    for query in PAIR:
        hours = {extra["from"]: extra for extra in told(platform, query)}
        assert len(hours) == BOTH
        for hour, extra in hours.items():
            start = parse_instant(hour)
            assert extra["rows"] == len(table_rows(platform.lake, query, start, start + HOUR))
            assert len(extra["digest"]) == 64
            assert extra["verdict"] == ("warned" if extra["state"] == "incomplete" else "passed")


def test_a_broken_audit_is_never_visible(platform: Platform) -> None:
    """Rows altered in `streams/` fail the audit when it is run again; the tables stay, and the run fails."""
    platform.backfill("replay_late", START, START)
    assert platform.finish("replay_late", 1) == {"2026-01-01T00:00:00Z": "success"}
    before = table_rows(platform.lake, "late_flows")
    version = open_table(platform.lake / "tables" / "late_flows").version()  # type: ignore[union-attr]
    files = (platform.lake / "streams" / "late_flows").glob("interval=*/*.parquet")
    path = max(files, key=lambda each: pq.read_metadata(each).num_rows)
    rows = pq.ParquetFile(path).read()
    cnt = rows.schema.get_field_index("cnt")
    pq.write_table(rows.set_column(cnt, "cnt", rows.column("cnt").take([0] * len(rows))), path)
    run = platform.task("replay_late", START, "audit")["dag_run_id"]
    body = {
        "dry_run": False,
        "dag_run_id": run,
        "task_ids": ["audit"],
        "include_downstream": True,
        "only_failed": False,
    }
    platform.home.ask("POST", "dags/replay_late/clearTaskInstances", body)
    assert platform.finish("replay_late", 1) == {"2026-01-01T00:00:00Z": "failed"}
    assert platform.task("replay_late", START, "publish")["state"] == "upstream_failed"
    audit = platform.task("replay_late", START, "audit")
    assert audit["try_number"] == 2, "the same rows would fail again, so it is not retried"
    said = platform.home.why(audit)
    assert "late_flows" in said and "2026-01-01T00:00:00Z" in said and "reports" in said
    assert table_rows(platform.lake, "late_flows") == before
    assert open_table(platform.lake / "tables" / "late_flows").version() == version  # type: ignore[union-attr]
    assert states(platform, "late")[START, "late_flows"] == "failed"
    report = lowwater("report", "--lake", platform.lake, "--interval", "2026-01-01T00:00:00Z")
    assert report.code == 0 and "late_flows" in report.out and "failed" in report.out


def test_the_page_of_a_run(platform: Platform) -> None:
    """The tab of a DAG is made in the same way, and so is that of the navigation (tests/airflow/test_views.py)."""
    run = platform.task("replay_late", START, "audit")["dag_run_id"]
    with browser(platform.home) as page:
        page.goto(f"{platform.home.address}/dags/replay_late/runs/{run}/plugin/lowwater_interval")
        frame(page).get_by_role("heading", name=spoken_span(START, START + HOUR)).wait_for()


def test_what_an_airflow_of_the_demo_writes_is_for_its_user_only(platform: Platform) -> None:
    """Logs of its parts and of tasks, database, token and settings."""
    folder, modes = platform.home.folder, {}
    for path in [folder, *folder.rglob("*")]:
        with suppress(FileNotFoundError):  # SQLite's journal comes and goes
            found = path.lstat().st_mode
            modes[path.relative_to(folder.parent).as_posix()] = 0 if stat.S_ISLNK(found) else stat.S_IMODE(found)
    for name in ("airflow", "airflow/airflow.db", "airflow/airflow.log", "airflow/airflow.cfg", "airflow/token"):
        assert modes[name]
    assert any("/dag_id=replay_late/" in name for name in modes), "the log of a task"
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_missing_capture_waits_then_fails(platform: Platform) -> None:
    """A run of an hour waits for its link, and fails naming it."""
    hour = START + HOUR
    platform.backfill("replay_late", hour, hour)
    begun = time.monotonic()
    assert wait(lambda: "deferred" in platform.states("replay_late", hour), 300, 1.0)
    found = platform.finish("replay_late", LATE_HOURS)
    assert time.monotonic() - begun >= PATIENCE - 5
    assert found["2026-01-01T01:00:00Z"] == "failed"
    said = platform.home.why(platform.task("replay_late", hour, "wait"))
    assert "link 'late': no capture covers 2026-01-01T01:00:00Z" in said
    assert platform.task("replay_late", hour, "low")["state"] == "upstream_failed"


def test_looks_take_the_late_capture_and_run_its_hour(platform: Platform) -> None:
    """What nobody asks for: the file that comes late is ingested, and its event lets its hour run; no run is cleared.

    The hour whose audit failed was red in its own run; looks name it, and do not try it again.
    """
    platform.home.ready("keep_late")

    def looks(dag: str) -> list[str]:
        found = [run["state"] for run in platform.home.runs(dag)]
        return found if found and set(found) <= {"success", "failed"} else []

    assert wait(lambda: looks("keep_late"), 300, 1.0) == ["failed"]
    (first,) = platform.home.runs("keep_late")
    assert (
        first["note"].startswith("Look: ") and "1 cannot start, 1 failed, as before (2026-01-01T00" in first["note"]
    ), first["note"]
    assert "no capture covers 2026-01-01T01:00:00Z" in first["note"] and "late_flows" in first["note"]
    for path in (platform.captures / "missing").glob("*T01*"):
        shutil.move(path, platform.captures / "late" / path.name)
    platform.home.ready("lowwater_ingest")
    assert wait(lambda: looks("lowwater_ingest"), 300, 1.0) == ["success"]
    files = dict.fromkeys(LINKS, HOURS + 1) | {"log": HOURS, "late": LATE_HOURS}
    assert ingested(platform) == files, (
        "each file of the folders, also of an hour that nobody asked for, and none twice"
    )
    (packets,) = told(platform, "packets")
    assert set(packets["packets"]) == {*LINKS, "late"} and len(packets["captures"]) == len(LINKS) + 1
    assert wait(lambda: len(looks("keep_late")) == 2, 300, 1.0)
    second = max(platform.home.runs("keep_late"), key=lambda run: str(run["queued_at"]))
    assert second["run_type"] == "asset_triggered" and second["state"] == "success", second
    assert second["note"].startswith("Look: 1 done, 1 failed, as before (2026-01-01T00:00:00Z: failed: audit: ")
    kept = platform.home.ask("GET", f"dags/keep_late/dagRuns/{second['dag_run_id']}/taskInstances")["task_instances"]
    names = {each["task_id"]: each["rendered_map_index"] for each in kept if each["map_index"] >= 0}
    assert names == {"interval": "2026-01-01T01:00:00Z done"}
    assert states(platform, "late")[START + HOUR, "late_flows"] == "done"
    assert table_rows(platform.lake, "late_flows", START + HOUR, END) != []


def test_a_warning_waits_for_a_human(platform: Platform) -> None:
    """With `approval` an interval whose audit warns is not published before somebody says so; others do not ask."""
    cut = START + HOUR
    platform.backfill("replay_careful", START, cut)

    def asked() -> bool:
        return "awaiting_input" in platform.states("replay_careful", cut)

    assert wait(lambda: platform.states("replay_careful", START) == ["success"] * 4, 400, 1.0), (
        "nothing to approve there"
    )
    assert table_rows(platform.lake, "careful_flows", START, cut) != []
    assert wait(asked, 400, 1.0)
    approve = platform.task("replay_careful", cut, "approve")
    path = f"dags/replay_careful/dagRuns/{approve['dag_run_id']}/taskInstances/approve/-1/hitlDetails"
    detail = platform.home.ask("GET", path)
    assert "careful_flows" in detail["body"] and "2026-01-01T01:00:00Z" in detail["body"]
    assert table_rows(platform.lake, "careful_flows", cut, cut + HOUR) == []
    answer(platform, path, "Reject")
    assert platform.finish("replay_careful", 2)["2026-01-01T01:00:00Z"] == "failed"
    assert platform.task("replay_careful", cut, "approve")["try_number"] == 1, "a rejection is not tried again"
    assert table_rows(platform.lake, "careful_flows", cut, cut + HOUR) == []
    clear(platform, "replay_careful", approve["dag_run_id"], True)
    assert wait(asked, 400, 1.0)
    await_parked(platform)
    said = platform.act(f"approve/careful?start={format_instant(cut)}&end={format_instant(cut + HOUR)}")
    assert said == f"The run {approve['dag_run_id']} goes on and publishes the interval."
    assert set(platform.finish("replay_careful", 2).values()) == {"success"}
    assert table_rows(platform.lake, "careful_flows", cut, cut + HOUR) != []
    assert states(platform, "careful")[cut, "careful_flows"] == "incomplete"


def test_the_webhook_is_told_of_deadlines_and_failures(platform: Platform) -> None:
    def told(kind: str) -> list[dict[str, str]]:
        return [each for each in platform.told if each["kind"] == kind and each["dag"] == "replay_careful"]

    assert wait(lambda: told("deadline") and told("failed"), 300), platform.told
    assert "has missed its deadline" in told("deadline")[0]["text"] and told("deadline")[0]["run"]
    assert told("failed")[0]["run"].startswith("backfill")
    (warning,) = told("warning")
    assert warning["text"].startswith("careful 2026-01-01 01:00:00") and "incomplete" in warning["text"]


def test_the_webhook_is_told_a_digest(platform: Platform) -> None:
    platform.home.ask("POST", "dags/lowwater_digest/dagRuns", {"logical_date": None})
    assert wait(lambda: [each for each in platform.told if each["kind"] == "digest"], 120, 1.0), platform.told
    (digest,) = [each["text"] for each in platform.told if each["kind"] == "digest"]
    assert "careful: 1 done, 1 incomplete" in digest.splitlines()


def test_maintenance(platform: Platform) -> None:
    before = table_rows(platform.lake, "careful_flows")
    (platform.lake / "_work" / "dead").mkdir()
    platform.home.ask("POST", "dags/lowwater_maintain/dagRuns", {"logical_date": None})
    assert wait(lambda: [each["state"] for each in platform.home.runs("lowwater_maintain")] == ["success"], 400, 1.0)
    assert table_rows(platform.lake, "careful_flows") == before != []
    assert leftovers(platform.lake) == []


def told(platform: Platform, asset: str) -> list[dict[str, Any]]:
    """What the events of an asset tell beside its name."""
    return [event["extra"] for event in asset_events(platform.home, asset)]


def logged(lake: Path) -> list[tuple[Any, ...]]:
    """The published rows over the link of records."""
    table = open_table(lake / "tables" / "logged")
    assert table is not None
    rows = table.to_pyarrow_table().to_pylist()
    return sorted((row["tb"], row["src"], row["cnt"], row["bytes"]) for row in rows)


def records(folder: Path, end: int) -> list[tuple[Any, ...]]:
    """The same rows up to an instant, ns, by DuckDB, from the files."""
    columns = "time // 10, src, count(*), sum(bytes)::BIGINT"
    query = f"SELECT {columns} FROM read_csv('{folder}/*.csv') WHERE time < {end // 10**9} GROUP BY ALL"
    return sorted(duckdb.sql(query).fetchall())


def answer(platform: Platform, path: str, option: str) -> None:
    """Answers for a human."""
    await_parked(platform)
    platform.home.ask("PATCH", path, {"chosen_options": [option], "params_input": {}})


def await_parked(platform: Platform) -> None:
    """Waits until the scheduler has heard that the task was parked: one that goes on before, it takes for dead."""
    task = platform.task("replay_careful", START + HOUR, "approve")
    words = [f"run_id='{task['dag_run_id']}'", "task_id='approve'", f"try_number={task['try_number']},"]

    def heard() -> bool:
        lines = platform.home.log.read_text(errors="replace").splitlines()
        events = [line for line in lines if "Received executor event with state success" in line]
        return any(all(word in line for word in words) for line in events)

    wait(heard, 60)  # if its log says it in other words, a minute is enough


def clear(platform: Platform, dag: str, run: str, only_failed: bool) -> None:
    """Has Airflow run a run's tasks again."""
    body = {"dry_run": False, "dag_run_id": run, "only_failed": only_failed}
    platform.home.ask("POST", f"dags/{dag}/clearTaskInstances", body)
    time.sleep(1.0)


def ingested(platform: Platform) -> dict[str, int]:
    """Captures in the ledger, per link."""
    table = open_table(platform.lake / "captures")
    assert table is not None
    return dict(Counter(table.to_pyarrow_table().column("link").to_pylist()))


def states(platform: Platform, query_set: str) -> dict[tuple[int, str], str]:
    """What `lowwater status` says."""
    rows = statuses(platform.lake, platform.home.queries)
    return {(row.start, row.query): row.state for row in rows if row.query_set == query_set}


def test_no_secret_is_in_what_airflow_keeps(platform: Platform) -> None:
    """Logs of tasks; and in the database rendered templates, XComs, serialized DAGs and the log of what people did."""
    kept = [path for path in platform.home.folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in kept) and sum(path.suffix == ".log" for path in kept) > 1
    held = [str(path) for path in kept if re.search(b"(?i)canary", path.read_bytes())]
    assert not held
    assert not [path for path in platform.lake.rglob("*") if path.is_file() and b"canary" in path.read_bytes()]
    entries = platform.home.ask("GET", "eventLogs?limit=100")["event_logs"]
    assert entries and "canary" not in str(entries).lower()
    assert "canary" in CANARIES["PGPASSWORD"] and "canary" in platform.home.environment()["PGPASSWORD"]
