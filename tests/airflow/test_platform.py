"""The pipeline through Airflow itself: backfills, kills, retries, audits that stop a run, captures that come late."""

from __future__ import annotations

import random
import re
import shutil
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psutil
import pyarrow.parquet as pq
import pytest

from lowwater.high.process import InProcess
from lowwater.instants import HOUR, format_instant, parse_instant, spoken_span
from lowwater.lake.open_tables import existing
from lowwater.lake.tables import open_table
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses
from tests.airflow.chromium import browser, frame
from tests.airflow.conftest import CANARIES, LATE_HOURS, PATIENCE, Platform, asset_events, beat, script, words_of
from tests.docs.book import ROOT, blocks
from tests.replay.support import END, HOURS, LINKS, START, copy_lake, leftovers, lowwater, table_rows, wait

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
PAIR = ("flows", "right", "joined")
BOTH, BOTH_END = 2, START + 2 * HOUR
"""Hours of the backfill that is killed, and their end."""
NAMES = [f"Interval {format_instant(START + at * HOUR)} to {format_instant(START + (at + 1) * HOUR)}" for at in (0, 1)]


def test_the_resident_spark_has_its_workers_before_a_task_asks(platform: Platform) -> None:
    """Its token is one that an address cannot have as it is. tests/spark has the same of a server by itself."""

    def words() -> Iterator[str]:
        for each in platform.home._processes():
            with suppress(psutil.Error):
                yield from each.cmdline()

    assert wait(lambda: "lowwater.spark.workers" in words(), 300, 0.5)
    assert platform.home.runs("replay_pair") == []


def test_reverse_and_parallel(platform: Platform, runner: Runner, tmp_path: Path) -> None:
    """Backfill backwards, two runs at once: the tables of a run in one process."""
    assert ingested(platform) == dict.fromkeys((*LINKS, "log"), HOURS) | {"late": 1, "beat": 1}
    untouched = copy_lake(platform.lake, tmp_path / "clean")
    platform.backfill("replay_pair", START, BOTH_END - HOUR, parallel=2, backwards=True)
    assert set(platform.finish("replay_pair", BOTH).values()) == {"success"}
    replay(Job.open(untouched, "pair", platform.home.queries), START, BOTH_END, None, Progress(quiet=True), runner)
    for query in (*PAIR, "logged"):
        assert table_rows(platform.lake, query) == table_rows(untouched, query) != []
    assert logged(platform.lake) == records(platform.captures / "log", BOTH_END)
    assert leftovers(platform.lake) == []
    assert joined(platform) == ["done", "incomplete"]


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


def test_a_note_says_the_interval_and_its_state(platform: Platform) -> None:
    """Both runs were green; one is of an interval that is incomplete."""
    first, second = notes(platform)
    assert first == f"{NAMES[0]}: done"
    assert second.startswith(f"{NAMES[1]}: incomplete: ") and "control" in second
    keys = [event["partition_key"] for event in asset_events(platform.home, "whole intervals of pair")]
    assert keys == ["2026-01-01T00:00:00"], "only what is done is an event of a whole interval"


@pytest.mark.nightly
def test_the_command_of_the_documents_runs_what_is_stale_though_a_process_is_killed(
    platform: Platform, runner: Runner, tmp_path: Path
) -> None:
    """The interval that has changed is published again, after a kill at random: the tables of a clean run."""
    settings = platform.lake / "lowwater.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("[links.main1]\n", '[links.main1]\nskew = "5s"\n'), encoding="utf-8")
    assert joined(platform) == ["stale", "stale"]
    untouched = copy_lake(platform.lake, tmp_path / "clean")
    before = platform.task("replay_pair", START, "interval")
    platform.home.ask("PATCH", f"dags/replay_pair/dagRuns/{before['dag_run_id']}", {"note": "seen by the operator"})
    seed = random.randrange(1 << 30)
    print(f"seed of the kills: {seed}")
    with script("kills").Killer(platform.lake, random.Random(seed)) as killer:
        create(platform, START, *documented())
        assert set(platform.finish("replay_pair", BOTH).values()) == {"success"}
    assert [*killer.killed] == ["2026-01-01T00:00:00Z"]
    assert platform.task("replay_pair", START, "interval")["try_number"] >= before["try_number"] + 2
    replay(Job.open(untouched, "pair", platform.home.queries), START, START + HOUR, None, Progress(quiet=True), runner)
    for query in (*PAIR, "logged"):
        assert table_rows(platform.lake, query) == table_rows(untouched, query) != []
    assert leftovers(platform.lake) == []
    assert joined(platform) == ["done", "stale"]
    assert notes(platform)[0].splitlines() == [f"{NAMES[0]}: done", "seen by the operator"], "what people write stays"


def test_a_page_would_run_a_set_that_hands_state_over_one_at_a_time(platform: Platform) -> None:
    """Without `chain_start`. `test_postgres` runs such a set, in order though two runs may be at work."""
    span = f"start={format_instant(START)}&end={format_instant(BOTH_END)}"
    page = platform._page(f"{platform.home.address}/lowwater/act/backfill/chain?{span}")
    assert "Airflow makes a backfill of 2 runs of replay_chain, 1 at a time." in page
    platform.home.ask("PATCH", "dags/backfill_chain", {"is_paused": False})
    page = platform._page(f"{platform.home.address}/lowwater/act/backfill/chain?{span}")
    assert "Airflow makes a backfill of 1 runs of backfill_chain, 1 at a time; a run is a day of intervals." in page
    platform.home.ask("PATCH", "dags/backfill_chain", {"is_paused": True})


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


@pytest.mark.nightly
def test_the_page_of_a_run(platform: Platform) -> None:
    """The tab of a DAG is made in the same way, and so is that of the navigation: what Airflow is told of the three,
    and what stands behind their addresses, each push sees (tests/airflow/test_views.py)."""
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
    note = words_of(first["note"])
    assert note.startswith("Look: ") and "1 cannot start, 1 failed, as before (2026-01-01T00" in note, note
    assert "no capture covers 2026-01-01T01:00:00Z" in note and "late_flows" in note
    for path in (platform.captures / "missing").glob("*T01*"):
        shutil.move(path, platform.captures / "late" / path.name)
    platform.home.ready("lowwater_ingest")
    assert wait(lambda: looks("lowwater_ingest"), 300, 1.0) == ["success"]
    files = dict.fromkeys(LINKS, HOURS + 1) | {"log": HOURS, "late": LATE_HOURS, "beat": 1}
    assert ingested(platform) == files, (
        "each file of the folders, also of an hour that nobody asked for, and none twice"
    )
    (packets,) = told(platform, "packets")
    assert set(packets["packets"]) == {*LINKS, "late"} and len(packets["captures"]) == len(LINKS) + 1
    assert wait(lambda: len(looks("keep_late")) == 2, 300, 1.0)
    second = max(platform.home.runs("keep_late"), key=lambda run: str(run["queued_at"]))
    assert second["run_type"] == "asset_triggered" and second["state"] == "success", second
    assert words_of(second["note"]).startswith(
        "Look: 1 done, 1 failed, as before (2026-01-01T00:00:00Z: failed: audit: "
    )
    kept = platform.home.ask("GET", f"dags/keep_late/dagRuns/{second['dag_run_id']}/taskInstances")["task_instances"]
    names = {each["task_id"]: each["rendered_map_index"] for each in kept if each["map_index"] >= 0}
    assert names == {"interval": "2026-01-01T01:00:00Z done"}
    # Clear repairs: the red task of the first look asks again, and its hour is done by now.
    again = {"dry_run": False, "dag_run_id": first["dag_run_id"], "task_ids": [["interval", 0]], "only_failed": True}
    again["include_downstream"] = True  # as the button proposes
    platform.home.ask("POST", "dags/keep_late/clearTaskInstances", again)
    assert wait(lambda: looks("keep_late") == ["success"] * 2, 300, 1.0)
    path = f"dags/keep_late/dagRuns/{first['dag_run_id']}"
    (task,) = (
        each
        for each in platform.home.ask("GET", f"{path}/taskInstances")["task_instances"]
        if each["task_id"] == "interval"
    )
    assert task["rendered_map_index"] == "2026-01-01T01:00:00Z done" and task["try_number"] == 2
    assert "Look: 1 done, 1 failed, as before" in words_of(platform.home.ask("GET", path)["note"])
    assert states(platform, "late")[START + HOUR, "late_flows"] == "done"
    assert table_rows(platform.lake, "late_flows", START + HOUR, END) != []


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_the_webhook_is_told_of_deadlines_and_failures(platform: Platform) -> None:
    def told(kind: str) -> list[dict[str, str]]:
        return [each for each in platform.told if each["kind"] == kind and each["dag"] == "replay_careful"]

    assert wait(lambda: told("deadline") and told("failed"), 300), platform.told
    assert "has missed its deadline" in told("deadline")[0]["text"] and told("deadline")[0]["run"]
    assert told("failed")[0]["run"].startswith("backfill")
    (warning,) = told("warning")
    assert warning["text"].startswith("careful 2026-01-01 01:00:00") and "incomplete" in warning["text"]


@pytest.mark.nightly
def test_the_webhook_is_told_a_digest(platform: Platform) -> None:
    platform.home.ask("POST", "dags/lowwater_digest/dagRuns", {"logical_date": None})
    assert wait(lambda: [each for each in platform.told if each["kind"] == "digest"], 120, 1.0), platform.told
    (digest,) = [each["text"] for each in platform.told if each["kind"] == "digest"]
    assert "careful: 1 done, 1 incomplete" in digest.splitlines()


@pytest.mark.nightly
def test_maintenance(platform: Platform) -> None:
    before = table_rows(platform.lake, "careful_flows")
    (platform.lake / "_work" / "dead").mkdir()
    platform.home.ask("POST", "dags/lowwater_maintain/dagRuns", {"logical_date": None})
    assert wait(lambda: [each["state"] for each in platform.home.runs("lowwater_maintain")] == ["success"], 400, 1.0)
    assert table_rows(platform.lake, "careful_flows") == before != []
    assert leftovers(platform.lake) == []


@pytest.mark.nightly
def test_a_daily_dag_waits_for_the_whole_day_and_runs_again_when_a_part_is_published_again(platform: Platform) -> None:
    """An interval that was published incomplete does not count; a second publication of one starts the day again."""
    noon = START + 12 * HOUR

    def publish(start: int) -> str:
        """Publishes half a day in this process, and tells of it as `publish` does."""
        job = Job.open(platform.lake, "beat", platform.home.queries)
        (outcome,) = replay(job, start, start + 12 * HOUR, None, Progress(quiet=True), InProcess())
        if outcome.state == "done":
            tell(platform, "beat", format_instant(start)[:19])
        return outcome.state

    assert (publish(START), publish(noon)) == ("done", "incomplete")
    assert wait(lambda: consumed(platform) == [("2026-01-01", "skipped")], 400, 1.0), consumed(platform)
    beat(platform.lake, platform.captures, 1)
    assert publish(noon) == "done"
    day = [("2026-01-01", "skipped"), ("2026-01-01", "success")]
    assert wait(lambda: consumed(platform) == day, 400, 1.0), consumed(platform)
    tell(platform, "beat", format_instant(START)[:19])
    assert wait(lambda: consumed(platform) == [*day, day[1]], 400, 1.0), consumed(platform)


@pytest.mark.nightly
def test_a_backfill_that_was_cancelled_is_no_trap(platform: Platform) -> None:
    """Airflow calls runs that never began failed, and never starts them again; the pages know both."""
    noon = START + 12 * HOUR
    made = platform.backfill("replay_beat", START, noon, parallel=1, again="completed")
    platform.home.ask("PUT", f"backfills/{made}/cancel")
    assert wait(lambda: {run["state"] for run in platform.home.runs("replay_beat")} <= {"success", "failed"}, 400, 1.0)
    run = next(
        run for run in platform.home.runs("replay_beat") if run["logical_date"][:19] == format_instant(noon)[:19]
    )
    assert run["state"] == "failed" and platform.states("replay_beat", noon).count("success") == 0
    rows = [row for row in statuses(platform.lake, platform.home.queries) if row.query_set == "beat"]
    assert {row.state for row in rows} == {"done"}, "nothing of the lake has failed"
    body = {"dry_run": False, "dag_run_id": run["dag_run_id"], "only_failed": False}
    platform.home.ask("POST", "dags/replay_beat/clearTaskInstances", body)

    def state() -> str:
        return str(platform.home.ask("GET", f"dags/replay_beat/dagRuns/{run['dag_run_id']}")["state"])

    said = platform.act(f"run/beat?start={format_instant(noon)}&end={format_instant(noon + 12 * HOUR)}")
    assert said.startswith("Airflow made backfill"), said
    assert wait(lambda: state() == "success", 400, 1.0), state()
    platform.home.ask("DELETE", f"dags/replay_beat/dagRuns/{run['dag_run_id']}")
    platform.backfill("replay_beat", noon, noon)
    ended = platform.finish("replay_beat", 2)  # the run of the first interval may never have begun
    assert ended[format_instant(noon)] == "success", ended


@pytest.mark.nightly
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


def told(platform: Platform, asset: str) -> list[dict[str, Any]]:
    """What the events of an asset tell beside its name."""
    return [event["extra"] for event in asset_events(platform.home, asset)]


def logged(lake: Path) -> list[tuple[Any, ...]]:
    """The published rows over the link of records."""
    table = existing(lake / "tables" / "logged")
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
    table = existing(platform.lake / "contents")
    return dict(Counter(table.to_pyarrow_table().column("link").to_pylist()))


def states(platform: Platform, query_set: str) -> dict[tuple[int, str], str]:
    """What `lowwater status` says."""
    rows = statuses(platform.lake, platform.home.queries)
    return {(row.start, row.query): row.state for row in rows if row.query_set == query_set}


def joined(platform: Platform) -> list[str]:
    """The states of both hours of one query."""
    found = states(platform, "pair")
    return [found[START + hour * HOUR, "joined"] for hour in range(BOTH)]


def notes(platform: Platform) -> list[str]:
    found = {run["logical_date"]: words_of(run["note"]) for run in platform.home.runs("replay_pair")}
    return [found[at] for at in sorted(found)]


def await_end(platform: Platform) -> None:
    """Waits until Airflow has seen that every backfill has ended; it refuses another one before."""

    def settled() -> bool:
        backfills = platform.home.ask("GET", "backfills?dag_id=replay_pair")["backfills"]
        return all(backfill["completed_at"] for backfill in backfills)

    assert wait(settled, 400, 1.0)


def create(platform: Platform, last: int, *more: str) -> str:
    """What `airflow backfill create` says of the intervals from the first to that at `last`, ns."""
    dates = ["--from-date", format_instant(START), "--to-date", format_instant(last)]
    command = [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", "replay_pair", *dates, *more]
    environment = platform.home.environment()
    await_end(platform)

    def asked() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        # SQLite refuses to write on what another component has changed since it was read, at once and whatever the
        # timeout, and then a person asks again.
        return None if "database is locked" in done.stderr else done

    done = wait(asked, 400)
    assert done is not None and done.returncode == 0, done and done.stderr[-2000:]
    return str(done.stdout)


def documented() -> list[str]:
    """What the page on backfills has behind the dates of a backfill after a change."""
    (line,) = [
        line
        for block in blocks(ROOT / "docs" / "backfill.md")
        if block.words == ("sh", "airflow")
        for line in block.text.splitlines()
        if "--reprocess-behavior" in line
    ]
    found = re.search(r"--reprocess-behavior (\S+) --dag-run-conf '(.*)'", line)
    assert found is not None
    return ["--reprocess-behavior", found[1], "--dag-run-conf", found[2]]


def consumed(platform: Platform, dag: str = "day_of_beats") -> list[tuple[str, str]]:
    """Of each run of a consumer its partition and the state of its last task, oldest first, once all have ended."""

    def ended() -> bool:
        return all(run["state"] in ("success", "failed") for run in platform.home.runs(dag))

    assert wait(ended, 400, 1.0)
    runs = platform.home.runs(dag)
    tasks = {task["dag_run_id"]: task["state"] for task in platform.home.tasks(dag) if task["task_id"] == "consume"}
    ordered = sorted(runs, key=lambda run: run["run_after"])
    return [(run["partition_key"], tasks[run["dag_run_id"]]) for run in ordered]


def tell(platform: Platform, query_set: str, key: str) -> None:
    """Adds an event of a whole interval, as a run that publishes one does."""
    (asset,) = [
        each
        for each in platform.home.ask("GET", "assets?limit=100")["assets"]
        if each["name"] == f"whole intervals of {query_set}"
    ]
    platform.home.ask("POST", "assets/events", {"asset_id": asset["id"], "partition_key": key})
