"""Batches in Airflow: a task runs intervals that follow one another, and fails for those that fail; the others stay."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from lowwater.errors import LowwaterError
from lowwater.instants import HOUR, SECOND, format_instant, spoken_span
from lowwater.lake.ledgers.runs import LOW, read_replays
from lowwater.replay.schedule.due import statuses
from tests.airflow.chromium import browser, frame
from tests.airflow.conftest import asset_events, script, words_of
from tests.airflow.test_keeping import FAR, Task
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import table_rows, wait
from tests.replay.test_looks import at, deliver, ingested, lake_of

BAD, LACKS, ALL = 5, 9, 24
DAY = {"start": at(0), "end": at(ALL)}
FIRST = ["done"] * BAD + ["failed"] + ["done"] * (LACKS - BAD - 2) + ["provisional"]


def spoil(folder: Path, hour: int) -> None:
    """The capture of an hour half the records of which are late."""
    begin = at(hour)
    stamps = [begin + (1 if minute % 2 else 60) * minute * SECOND for minute in range(10, 30)]
    frames = [(stamp, udp("10.0.0.1", "10.0.0.2", 1, 2)) for stamp in stamps]
    path = folder / f"p_{format_instant(begin)[:13].replace('-', '')}.pcap"
    path.write_bytes(pcap_bytes(frames, nanoseconds=True))
    os.utime(path, ns=(begin + HOUR, begin + HOUR))


def made(folder: Path) -> Path:
    """A lake of a day of hours, of which the audit of one fails, and one cannot start."""
    (folder / "captures").mkdir(parents=True)
    spoil(folder / "captures", BAD)
    hours = [hour for hour in range(ALL + 1) if hour not in (BAD, LACKS)]
    return Path(str(lake_of(folder, hours, more=f'{FAR}\n[replay]\npatience = "0s"').lake.root))


def found(lake: Path, folder: Path) -> list[str]:
    return [row.shown for row in statuses(lake, folder) if row.start < at(ALL)]


@pytest.mark.slow
def test_a_look_makes_one_task_of_hours_that_follow_one_another(plugins: None, tmp_path: Path) -> None:
    from lowwater_airflow.keeping import PUBLISHED, KeepInterval, LookAtSet
    from lowwater_airflow.notes import FATES, look_text
    from lowwater_airflow.whole import partition_key

    lake = made(tmp_path)
    common: Any = {"lake": lake, "queries": tmp_path, "query_set": "q"}
    tasks = LookAtSet(task_id="look", **common).execute(Task().context)
    assert [each["intervals"] for each in tasks][:3] == [LACKS, 1, ALL - LACKS]
    first, _, rest, _ = tasks  # the last one is the time without captures since
    assert first["title"] == f"{first['start']} to {format_instant(at(LACKS))} ({LACKS} intervals)"

    task = Task()
    said = f"^1 of {LACKS} intervals failed: {format_instant(at(BAD))}: the audit of q, .*malformed"
    with pytest.raises(LowwaterError, match=said) as failed:
        KeepInterval(task_id="interval", **common, **first).execute(task.context)
    assert type(failed.value).__name__ == "AuditError"
    assert found(lake, tmp_path)[:LACKS] == FIRST, "behind the last one a capture is lacking"
    published = [each["start"] for each in task.left[PUBLISHED]]
    assert published == [at(hour) for hour in range(LACKS) if hour != BAD], "what is told behind a task that failed"
    fates = [(state, number) for _, state, _, number, *_ in task.left[FATES]]
    assert fates == [("done", BAD), ("failed", 1), ("done", LACKS - BAD - 2), ("provisional", 1)]
    lows = [json.loads(row.accounting) for row in read_replays(ingested(tmp_path).lake, "q") if row.stage == LOW]
    assert all(each["range"] == [at(0), at(LACKS)] for each in lows if "range" in each)

    whole = Task()
    outcome = KeepInterval(task_id="interval", **common, **rest).execute(whole.context)
    assert outcome["state"] == "provisional" and outcome["rows"]["hosts"] == ALL - LACKS, outcome
    assert whole.whole == [partition_key(at(hour)) for hour in range(LACKS + 1, ALL)]
    note = look_text(
        {("interval", 0): ("failed", None), ("interval", 2): ("success", None)},
        {("interval", 0, FATES): task.left[FATES], ("interval", 2, FATES): whole.left[FATES]},
    )
    assert note.startswith(f"21 done, 1 failed, 2 provisional; {format_instant(at(BAD))} failed: audit: "), note

    # Clear: what failed runs again, and all that is published is told once more, whoever told it.
    cleared = Task(cleared=1)
    with pytest.raises(LowwaterError, match="1 of 9 intervals failed"):
        KeepInterval(task_id="interval", **common, **first).execute(cleared.context)
    assert [each["start"] for each in cleared.left[PUBLISHED]] == published


@pytest.mark.slow
def test_a_day_runs_what_is_due_of_the_time_that_is_asked_for(plugins: None, tmp_path: Path) -> None:
    """A button of the pages asks for a range, and a run is of a whole day."""
    from airflow.sdk.exceptions import AirflowSkipException

    from lowwater_airflow.keeping import BackfillBatch

    lake = made(tmp_path)
    common: Any = {"task_id": "interval", "lake": lake, "queries": tmp_path, "query_set": "q"}

    def backfill(begin: int, end: int) -> None:
        bounds = {"from": format_instant(begin), "to": format_instant(end)}
        day = {f"data_interval_{name}": datetime.fromtimestamp(bound // SECOND, UTC) for name, bound in DAY.items()}
        BackfillBatch(**common).execute({**Task().context, **day, "params": {"only": None, **bounds}})

    def done() -> list[int]:
        return [(row.start - at(0)) // HOUR for row in statuses(lake, tmp_path) if row.shown == "done"]

    backfill(at(1) + 1, at(4) - 1)
    assert done() == [2], "an hour of which a part is asked for is not"
    backfill(at(3), at(5))
    assert done() == [2, 3, 4]
    with pytest.raises(AirflowSkipException, match="of this day"):
        backfill(at(ALL), at(ALL + 2))


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Path]]:
    folder = tmp_path_factory.mktemp("batches")
    lake = made(folder)
    home = script("home").Home(folder / "airflow", lake, folder)
    try:
        home.prepare()
        home.start()
        yield home, folder
    finally:
        home.stop()


def ended(home: Any, dag: str) -> dict[str, Any] | None:
    runs = home.runs(dag)
    return runs[0] if runs and all(run["state"] in ("success", "failed") for run in runs) else None


def children(lake: Path) -> Iterator[psutil.Process]:
    """The processes that run intervals of a lake: other tests have theirs."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if "--due" in words and str(lake) in words and any(word.endswith("replay.py") for word in words):
                yield process


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_backfill_runs_a_day_in_a_task_whatever_becomes_of_one_hour(platform: tuple[Any, Path]) -> None:
    home, folder = platform
    lake, dag = folder / "lake", "backfill_q"
    home.ready(dag)
    home.backfill(dag, format_instant(at(3)), format_instant(at(4)))
    (victim,) = wait(lambda: [*children(lake)], 120, 0.02) or ()  # killed in the middle: the task is tried again
    time.sleep(1)
    victim.kill()
    run = wait(lambda: ended(home, dag), 300, 1.0)
    assert run is not None and run["state"] == "failed"
    assert run["data_interval_start"][:13] == format_instant(at(0))[:13], "a run is a whole day"
    assert found(lake, folder) == [*FIRST, "cannot start", *["done"] * (ALL - LACKS - 1)]
    note = run["note"]
    plain = words_of(note)
    begin = f"Interval {format_instant(at(0))} to {format_instant(at(ALL))}: "
    begin += "21 done, 1 failed, 1 provisional, 1 cannot start; "
    assert plain.startswith(begin) and plain != note, note
    assert f"{format_instant(at(BAD))} failed: audit: the audit of q" in plain and "no capture covers" in plain
    tasks = {each["task_id"]: each for each in home.tasks(dag)}
    assert {name: each["state"] for name, each in tasks.items()} == {
        "interval": "failed",
        "tell": "success",
        "end": "upstream_failed",
    }
    assert tasks["interval"]["rendered_map_index"].startswith(f"{format_instant(at(0))} to {format_instant(at(ALL))}")
    assert tasks["interval"]["try_number"] == 2, "the same inputs would fail again"
    keys = sorted(event["partition_key"] for event in asset_events(home, "whole intervals of q"))
    told = [format_instant(at(hour))[:19] for hour in range(ALL) if hour not in (BAD, LACKS - 1, LACKS)]
    assert keys == told, "the others are told, each once"
    rows = table_rows(lake, "hosts", at(0), at(ALL))

    deliver(folder / "captures", LACKS)
    ingested(folder)
    body = {"dry_run": False, "dag_run_id": run["dag_run_id"], "only_failed": True}
    home.ask("POST", f"dags/{dag}/clearTaskInstances", body)
    assert wait(lambda: found(lake, folder)[LACKS] == "done", 200, 1.0)
    again = wait(lambda: ended(home, dag), 200, 1.0)
    assert again is not None and again["state"] == "failed"
    assert ": 23 done, 1 failed; " in again["note"], again["note"]
    bad = spoken_span(at(BAD), at(BAD + 1))
    with browser(home) as page:  # from the note to the interval, and back to what ran it
        page.goto(f"{home.address}/dags/{dag}/runs/{quote(run['dag_run_id'], safe='')}")
        with page.context.expect_page() as opened:
            page.get_by_role("link", name=format_instant(at(BAD)), exact=True).first.click()
        tab = opened.value
        tab.get_by_role("heading", name=bad).wait_for()
        tab.get_by_role("link", name=f"{dag}, run {run['dag_run_id']}").click()
        tab.wait_for_url(f"**/dags/{dag}/runs/*/tasks/interval/mapped/0")
        tab.get_by_role("link", name="Lowwater").last.click()
        frame(tab).get_by_role("heading", name="Query set q").wait_for()
    assert len(table_rows(lake, "hosts", at(0), at(ALL))) == len(rows) + 1
