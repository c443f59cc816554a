"""A backfill after a change, by the command of the documents; and the notes of the runs."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lowwater_generator import generate

from lowwater.config import load_config
from lowwater.high.process import InProcess
from lowwater.instants import HOUR, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import statuses
from tests.airflow.conftest import FLOWS, Platform, asset_events, prepare, script, wait
from tests.docs.book import ROOT, blocks
from tests.replay.support import START

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.filterwarnings("default")]
HOURS = 2
NAMES = [f"Interval {format_instant(START + at * HOUR)} to {format_instant(START + (at + 1) * HOUR)}" for at in (0, 1)]
SETTINGS = """
[sets]
both = ["main1", "control"]

[query_sets.changed]

[query_sets.chain]

[query_sets.beat]
interval = "12h"

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


BEAT = """
[links.beat]
kind = "csv"
schemas = "beat.schema"
since = "{since}"
until = "{until}"
policy = "publish"
skew = "0s"
"""
SCHEMA = "PROTOCOL BEAT { uint time get_csv_uint (increasing); uint value get_csv_uint; }"
BEATS = "DEFINE { query_name 'beats'; }\nSELECT tb, count(*) AS cnt FROM beat.BEAT GROUP BY time/3600 AS tb\n"
CONSUMER = """
from airflow.sdk import DAG, DayWindow, PartitionedAssetTimetable, RollupMapper, StartOfDayMapper, task
from lowwater_airflow.whole import WholePeriod, each, whole

with DAG("day_of_beats", schedule=each("beat"), max_active_runs=1):

    @task
    def consume(day):
        return day

    consume(WholePeriod(task_id="whole", query_set="beat").output)

with DAG(
    "day_of_hours",
    schedule=PartitionedAssetTimetable(
        assets=whole("changed"),
        default_partition_mapper=RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow()),
    ),
):

    @task
    def consume_hours():
        return "a day"

    consume_hours()
"""


def write_settings(lake: Path, skew: str) -> None:
    since, until = format_instant(START), format_instant(START + HOURS * HOUR)
    links = [("main1", skew, "fail"), ("control", "1s", "exclude")]
    text = [LINK.format(name=name, skew=own, since=since, until=until, policy=policy) for name, own, policy in links]
    text.append(BEAT.format(since=since, until=format_instant(START + 24 * HOUR)))
    (lake / "lowwater.toml").write_text(SETTINGS + "".join(text), encoding="utf-8")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Airflow over two hours of two links, of which one is cut in the second and is left out there."""
    folder = tmp_path_factory.mktemp("reprocess")
    lake, queries = open_lake(folder / "lake"), folder / "queries"
    queries.mkdir()
    (queries / "changed.gsql").write_text(FLOWS.format(name="rows", more="", links="[both]"), encoding="utf-8")
    (queries / "chain.gsql").write_text(HANDS_OVER, encoding="utf-8")
    (queries / "beat.gsql").write_text(BEATS, encoding="utf-8")
    (lake.root / "beat.schema").write_text(SCHEMA, encoding="utf-8")
    (folder / "own").mkdir()
    (folder / "own" / "consumer.py").write_text(CONSUMER, encoding="utf-8")
    write_settings(lake.root, "1s")
    beat(lake.root, folder / "captures", 0)
    for each in generate(folder / "captures", START, HOURS, ["main1", "control"], rate=1.0, seed=7):
        ingest(lake, each.link, [each.path], load_config(lake.root), (each.start, each.end))
    home = script("home").Home(folder / "airflow", lake.root, queries)
    try:
        prepare(home, folder / "own")
        home.start()
        dags = ("replay_changed", "replay_chain", "replay_beat", "day_of_beats", "day_of_hours", "capture_ingest")
        home.ready(*dags, slots=2)
        yield Platform(home, lake.root, folder / "captures", [])
    finally:
        home.stop()
    assert not home.running()


def beat(lake: Path, folder: Path, half: int) -> None:
    """Ingests the records of half a day, one each hour."""
    begin, end = START + half * 12 * HOUR, START + (half + 1) * 12 * HOUR
    folder.mkdir(exist_ok=True)
    path = folder / f"beat{half}.csv"
    lines = [f"{at // 10**9},{half}\n" for at in range(begin, end, HOUR)]
    path.write_text("".join(["time,value\n", *lines]), encoding="ascii")
    ingest(open_lake(lake), "beat", [path], load_config(lake), (begin, end))


def states(platform: Platform) -> list[str]:
    """Of two hours of `changed`; the packets of the last minute lie behind `until`, in a third that nobody runs."""
    rows = statuses(platform.lake, platform.home.queries)
    return [row.state for row in rows if row.query_set == "changed" and row.start < START + HOURS * HOUR]


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


def test_a_note_says_the_interval_and_its_state(platform: Platform) -> None:
    """Both runs are green; one is of an interval that is incomplete."""
    platform.backfill("replay_changed", START, START + HOUR, parallel=1)
    assert set(platform.finish("replay_changed", HOURS).values()) == {"success"}
    assert states(platform) == ["done", "incomplete"]
    first, second = notes(platform)
    assert first == f"{NAMES[0]}: done"
    assert second.startswith(f"{NAMES[1]}: incomplete: ") and "control" in second
    keys = [event["partition_key"] for event in asset_events(platform.home, "whole intervals of changed")]
    assert keys == ["2026-01-01T00:00:00"], "only what is done is an event of a whole interval"


def test_the_command_of_the_documents_runs_what_is_stale(platform: Platform) -> None:
    """The interval that has changed is published again."""
    write_settings(platform.lake, "5s")
    assert states(platform) == ["stale", "stale"]
    run = platform.task("replay_changed", START, "interval")["dag_run_id"]
    platform.home.ask("PATCH", f"dags/replay_changed/dagRuns/{run}", {"note": "seen by the desk"})
    create(platform, START, *documented())
    assert set(platform.finish("replay_changed", HOURS).values()) == {"success"}
    assert states(platform) == ["done", "stale"]
    assert notes(platform)[0].splitlines() == [f"{NAMES[0]}: done", "seen by the desk"], "what people write stays"


def test_a_page_would_run_a_set_that_hands_state_over_one_at_a_time(platform: Platform) -> None:
    """Without `chain_start`. `test_postgres` runs such a set, in order though two runs may be at work."""
    span = f"start={format_instant(START)}&end={format_instant(START + HOURS * HOUR)}"
    page = platform._page(f"{platform.home.address}/lowwater/act/backfill/chain?{span}")
    assert "Airflow makes a backfill of 2 runs of replay_chain, 1 at a time." in page


def consumed(platform: Platform, dag: str = "day_of_beats") -> list[tuple[str, str]]:
    """Of each run of a consumer its partition and the state of its last task, oldest first, once all have ended."""

    def ended() -> bool:
        return all(run["state"] in ("success", "failed") for run in platform.home.runs(dag))

    assert wait(ended, 400, 1.0)
    runs = platform.home.runs(dag)
    tasks = {task["dag_run_id"]: task["state"] for task in platform.home.tasks(dag) if task["task_id"] == "consume"}
    ordered = sorted(runs, key=lambda run: run["run_after"])
    return [(run["partition_key"], tasks[run["dag_run_id"]]) for run in ordered]


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


def tell(platform: Platform, query_set: str, key: str) -> None:
    """Adds an event of a whole interval, as a run that publishes one does."""
    (asset,) = [
        each
        for each in platform.home.ask("GET", "assets?limit=100")["assets"]
        if each["name"] == f"whole intervals of {query_set}"
    ]
    platform.home.ask("POST", "assets/events", {"asset_id": asset["id"], "partition_key": key})


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
