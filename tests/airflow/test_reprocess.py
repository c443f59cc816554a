"""A backfill after a change, as the documents say it: by the command and by the form; and the notes of the runs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lowwater.capture.generate import generate
from lowwater.config import load_config
from lowwater.instants import HOUR, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.replay.interval import statuses
from lowwater.replay.job import Job
from tests.airflow.chromium import browser, fill_form, run_backfill
from tests.airflow.conftest import FLOWS, Platform, prepare, script, wait
from tests.docs.book import ROOT, blocks
from tests.replay.support import START

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.filterwarnings("default")]
HOURS = 2
NAMES = [f"Interval {format_instant(START + at * HOUR)} to {format_instant(START + (at + 1) * HOUR)}" for at in (0, 1)]
SETTINGS = """
[sets]
both = ["main1", "control"]

[query_sets.changed]

[query_sets.chain]

[replay]
patience = "0s"

[schedule]
maintain = "never"
"""
HANDS_OVER = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, count(*) AS cnt, running_sum(len) AS total
FROM main1.IPV4 GROUP BY time/600 AS tb, srcIP CLOSING_WHEN count(*) = 0
"""
LINK = """
[links.{name}]
skew = "{skew}"
since = "{since}"
until = "{until}"
policy = "{policy}"
"""


def write_settings(lake: Path, skew: str) -> None:
    since, until = format_instant(START), format_instant(START + HOURS * HOUR)
    links = [("main1", skew, "fail"), ("control", "1s", "exclude")]
    text = [LINK.format(name=name, skew=own, since=since, until=until, policy=policy) for name, own, policy in links]
    (lake / "lowwater.toml").write_text(SETTINGS + "".join(text), encoding="utf-8")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Airflow over two hours of two links, of which one is cut in the second and is left out there."""
    folder = tmp_path_factory.mktemp("reprocess")
    lake, queries = open_lake(folder / "lake"), folder / "queries"
    queries.mkdir()
    (queries / "changed.gsql").write_text(FLOWS.format(name="rows", more="", links="[both]"), encoding="utf-8")
    (queries / "chain.gsql").write_text(HANDS_OVER, encoding="utf-8")
    write_settings(lake.root, "1s")
    for each in generate(folder / "captures", START, HOURS, ["main1", "control"], rate=1.0, seed=7):
        ingest(lake, each.link, [each.path], load_config(lake.root), (each.start, each.end))
    Job.open(lake.root, "chain", queries)  # as `plan` does: the lake keeps that its intervals run in order
    home = script("home").Home(folder / "airflow", lake.root, queries)
    try:
        prepare(home)
        home.start()
        home.ready("replay_changed", "replay_chain", slots=2)
        yield Platform(home, lake.root, folder / "captures", [])
    finally:
        home.stop()
    assert not home.running()


@pytest.fixture(scope="module")
def page(platform: Platform) -> Iterator[Any]:
    """A page of Chromium, logged in."""
    with browser(platform.home) as found:
        yield found


def states(platform: Platform, query_set: str = "changed") -> list[str]:
    """Of two hours of a query set; the records of the last minute lie behind `until`, in a third that nobody runs."""
    rows = statuses(platform.lake, platform.home.queries)
    return [row.state for row in rows if row.query_set == query_set and row.start < START + HOURS * HOUR]


def notes(platform: Platform) -> list[str]:
    found = {run["logical_date"]: run["note"] for run in platform.home.runs("replay_changed")}
    return [found[at] for at in sorted(found)]


def await_end(platform: Platform) -> None:
    """Waits until Airflow has seen that every backfill has ended; it refuses another one before."""

    def settled() -> bool:
        backfills = platform.home.ask("GET", "backfills?dag_id=replay_changed")["backfills"]
        return all(backfill["completed_at"] for backfill in backfills)

    assert wait(settled, 400, 1.0)


def create(platform: Platform, last: int, *more: str) -> str:
    """What `airflow backfill create` says of the intervals from the first to that at `last`, ns."""
    dates = ["--from-date", format_instant(START), "--to-date", format_instant(last)]
    command = [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", "replay_changed", *dates, *more]
    environment = platform.home.environment()
    await_end(platform)

    def asked() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
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


def test_a_note_says_the_interval_and_its_state(platform: Platform) -> None:
    """Both runs are green; one is of an interval that is incomplete."""
    platform.backfill("replay_changed", START, START + HOUR, parallel=1)
    assert set(platform.finish("replay_changed", HOURS).values()) == {"success"}
    assert states(platform) == ["done", "incomplete"]
    first, second = notes(platform)
    assert first == f"{NAMES[0]}: done"
    assert second.startswith(f"{NAMES[1]}: incomplete: ") and "control" in second


def test_the_command_of_the_documents_runs_what_is_stale(platform: Platform) -> None:
    """Without the behaviour no run is there to be run; with it the interval that has changed is published again."""
    write_settings(platform.lake, "2s")
    assert states(platform) == ["stale", "stale"]
    more = documented()
    assert create(platform, START, *more[2:], "--dry-run").partition("tempted:")[2].strip() == "", "no run is listed"
    run = platform.task("replay_changed", START, "publish")["dag_run_id"]
    platform.home.ask("PATCH", f"dags/replay_changed/dagRuns/{run}", {"note": "seen by the desk"})
    create(platform, START, *more)
    assert set(platform.finish("replay_changed", HOURS).values()) == {"success"}
    assert states(platform) == ["done", "stale"]
    assert notes(platform)[0].splitlines() == [f"{NAMES[0]}: done", "seen by the desk"], "what people write stays"


def test_the_form_says_what_to_choose_and_runs_what_is_stale(platform: Platform, page: Any) -> None:
    """In Chromium: no runs match, the form says what to choose, and then only what is stale is published again."""
    await_end(platform)
    fill_form(page, platform.home.address, "replay_changed", START, START + HOUR)
    form = page.get_by_role("dialog")
    form.get_by_text("No runs matching selected criteria.").wait_for()
    hint = form.get_by_text("They had a run before: choose All Runs and Override parameters on existing runs.")
    assert hint.is_visible() and form.get_by_text("*", exact=True).count() == 0, "nothing is required"
    form.get_by_text("All Runs", exact=True).click()
    form.get_by_text("Override parameters on existing runs", exact=True).click()
    form.get_by_text("Select one or multiple values").click(force=True)  # what takes the click lies above it
    page.get_by_role("option", name="stale").click()
    form.get_by_text("Date Range").click()
    run_backfill(page)
    assert set(platform.finish("replay_changed", HOURS).values()) == {"success"}
    assert states(platform) == ["done", "incomplete"]
    first, second = (note.splitlines()[0] for note in notes(platform))
    assert first == f"{NAMES[0]}: skipped: the interval is not stale"
    assert second.startswith(f"{NAMES[1]}: incomplete: ")


def test_a_set_that_hands_state_over_runs_in_order_though_two_runs_may_be_at_work(platform: Platform) -> None:
    """Without `chain_start`: each hour begins only when the one before is published, and is not tried twice."""
    platform.backfill("replay_chain", START, START + HOUR, parallel=2, again="completed")
    assert set(platform.finish("replay_chain", HOURS).values()) == {"success"}
    assert states(platform, "chain") == ["done", "done"]
    tasks = platform.home.tasks("replay_chain")
    assert {task["try_number"] for task in tasks} == {1}
    published = platform.task("replay_chain", START, "publish")["end_date"]
    begun = platform.task("replay_chain", START + HOUR, "wait")["start_date"]
    assert datetime.fromisoformat(begun) >= datetime.fromisoformat(published)
