"""What a run begins ahead of need, and what it does without: a JVM, Spark's workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from lowwater.capture.tables.reader import each_on_threads
from lowwater.cluster import SPREAD_PACKETS
from lowwater.config import Config
from lowwater.errors import ConfigError
from lowwater.high.process import InProcess
from lowwater.instants import HOUR, format_instant
from lowwater.plan.context import Links
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.stages.engines import LowResult, low_stage
from lowwater.replay.stages.runners import named_spark, runner_of
from lowwater.spark import sessions
from lowwater.spark.runner import (
    CLUSTER_COLD,
    CLUSTER_ROWS,
    MOST_THREADS,
    SPREAD_BYTES,
    SPREAD_COLD,
    SPREAD_LOCALLY,
    SPREAD_ROWS,
    OnSpark,
)
from lowwater.spark.sessions import LONG_SESSION_INTERVALS, Sessions
from lowwater.spark.tasks import SparkTasks
from tests.replay.support import DEMO, QUERIES, ROOT, START, copy_lake, states

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINKS = Links(("main1",))
NO_JAVA = """
import sys
from lowwater.errors import LowwaterError
from lowwater.spark.sessions import Sessions
from lowwater.replay.progress import Progress

sessions = Sessions("test", "local[*]", Progress(quiet=True).stage)
sessions.begin()
sessions.begin()
for _ in range(2):
    try:
        sessions.spark
    except LowwaterError as error:
        print(error.message.splitlines()[0])
"""


UNWANTED = """
import threading
from pathlib import Path
from lowwater.replay.warmup import launch_jvm_early

launch_jvm_early(Path("none"), "local[*]")
if {waits}:
    [thread.join() for thread in threading.enumerate() if thread.name == "lowwater-jvm"]
print("done")
"""


class Asked(Exception):
    """Raised in the place of a session."""


class Asking(Sessions):
    """A session that nobody may have."""

    def __init__(self, master: str, executors: bool = False) -> None:
        super().__init__("test", master, Progress(quiet=True).stage)
        self._executors = executors

    def has_executors(self) -> bool:
        return self._executors

    @property
    def spark(self) -> SparkSession:  # type: ignore[override]
        raise Asked


CLUSTER = "spark://127.0.0.1:7077"


def without_java(folder: Path) -> dict[str, str]:
    """An environment in which no JVM can start."""
    (folder / "java").mkdir(exist_ok=True)
    return {**os.environ, "JAVA_HOME": str(folder / "java")}


def replay_without_java(lake: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`lowwater replay` of the first hour in a process of its own."""
    span = ["--from", format_instant(START), "--to", format_instant(START + HOUR)]
    command = [sys.executable, "-m", "lowwater.cli.main", "replay", "demo", "--lake", str(lake), *span, *arguments]
    command += ["--queries", str(QUERIES)]
    environment = without_java(lake.parent)
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_session_that_cannot_start_is_the_error_of_who_needs_it(tmp_path: Path) -> None:
    environment = without_java(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", NO_JAVA], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert first.startswith("Spark did not start: ")


@pytest.mark.slow
@pytest.mark.parametrize("java", [True, False], ids=["java", "no java"])
@pytest.mark.parametrize("waits", [True, False], ids=["started", "starting"])
def test_a_jvm_that_was_begun_ahead_and_is_not_wanted_leaves_nothing(java: bool, waits: bool, tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {**(os.environ if java else without_java(tmp_path)), "TMPDIR": str(scratch)}
    group = subprocess.Popen(
        [sys.executable, "-c", UNWANTED.format(waits=waits)],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    said = group.communicate()
    assert (group.returncode, said) == (0, ("done\n", ""))
    with suppress(ProcessLookupError):  # one that was starting ends by itself, when it finds nobody there
        while True:
            os.killpg(group.pid, 0)
            time.sleep(0.1)
    if waits:
        assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_without_java_only_what_needs_spark_fails_and_says_so(lake: Path) -> None:
    """Few packets need no JVM for the low level, the high level on Spark does, and without Spark nothing does."""
    done = replay_without_java(lake, "--stage", "low", "--spark", "local[*]")
    assert done.returncode == 0, done.stderr
    assert any((lake / "lfta").rglob("*.parquet"))
    name_spark(lake)
    done = replay_without_java(lake)
    assert done.returncode == 1
    assert "Spark did not start" in done.stderr and "lowwater doctor" in done.stderr
    assert states(lake)[0, "flows"] == "failed"
    assert replay_without_java(lake, "--spark", "none").returncode == 0
    assert states(lake)[0, "flows"] == "done"


@pytest.mark.slow
def test_a_backfill_on_spark_without_java_ends_once(lake: Path) -> None:
    name_spark(lake)
    command = [sys.executable, "-m", "lowwater.cli.main", "backfill", "--lake", str(lake), "--queries", str(QUERIES)]
    environment = without_java(lake.parent)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.count("Spark did not start") == 1
    assert "lowwater doctor" in done.stderr


def name_spark(lake: Path, master: str = "local[*]") -> None:
    with (lake / "lowwater.toml").open("a", encoding="utf-8") as file:
        file.write(f'\n[spark]\nmaster = "{master}"\n')


@pytest.mark.slow
def test_a_published_interval_starts_no_jvm(published: Path, tmp_path: Path) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    done = replay_without_java(lake, "--spark", "local[*]")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("already published from the same inputs") == len(DEMO)


@pytest.mark.spark
def test_a_given_session_is_used(spark: SparkSession) -> None:
    sessions = Sessions("test", "local[*]", Progress(quiet=True).stage, spark)
    sessions.begin()
    assert sessions.spark is spark


@pytest.mark.parametrize(
    ("intervals", "quick"), [(1, True), (LONG_SESSION_INTERVALS - 1, True), (LONG_SESSION_INTERVALS, False)]
)
def test_much_work_is_compiled_well(intervals: int, quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(sessions, "build_session", lambda app, settings: asked.append(settings))
    begun = Sessions("test", "local[1]", Progress(quiet=True).stage)
    begun.begin(intervals)
    assert begun.spark is None  # what was made in the place of a session
    assert [(each.master, each.quick_start) for each in asked] == [("local[1]", quick)]


def test_what_names_a_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option, then the variable, then the settings; `none` is this process."""
    settings = Config.model_validate({"spark": {"master": "local[2]"}})
    assert [named_spark(Config()), named_spark(settings), named_spark(settings, "none")] == [None, "local[2]", None]
    assert named_spark(settings, CLUSTER) == CLUSTER
    monkeypatch.setenv("LOWWATER_SPARK_MASTER", "local[3]")
    assert [named_spark(Config()), named_spark(settings), named_spark(settings, "none")] == ["local[3]"] * 2 + [None]
    monkeypatch.setenv("LOWWATER_SPARK_MASTER", "none")
    assert named_spark(settings) is None
    with pytest.raises(ConfigError, match=r"--spark 10\.0\.0\.1: is no master"):
        named_spark(settings, "10.0.0.1")
    assert isinstance(runner_of("lowwater replay", settings, Progress(quiet=True), "none"), InProcess)
    assert isinstance(runner_of("lowwater replay", settings, Progress(quiet=True), CLUSTER), OnSpark)


@pytest.mark.parametrize(
    ("master", "warm", "cores", "bound"),
    [
        (CLUSTER, True, 2, SPREAD_PACKETS),
        (CLUSTER, False, 2, SPREAD_COLD),
        ("local[*]", True, MOST_THREADS + 1, SPREAD_LOCALLY),
        ("local[*]", True, MOST_THREADS, None),
    ],
)
def test_packets_are_spread_where_workers_are_faster(
    monkeypatch: pytest.MonkeyPatch, master: str, warm: bool, cores: int, bound: int | None
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    runner = OnSpark(Asking(master, warm))
    assert runner.low((bound or 1 << 40) - 1) is each_on_threads
    if bound is not None:
        with pytest.raises(Asked):
            runner.low(bound)


@pytest.mark.parametrize(
    ("master", "warm", "bound"),
    [(CLUSTER, True, CLUSTER_ROWS), (CLUSTER, False, CLUSTER_COLD), ("local[*]", True, SPREAD_ROWS)],
)
def test_rows_are_spread_where_executors_are_faster(
    monkeypatch: pytest.MonkeyPatch, master: str, warm: bool, bound: int
) -> None:
    runner = OnSpark(Asking(master, warm))
    runner.low(0)  # before an interval
    assert [runner._spread(rows) for rows in (bound - 1, bound)] == [False, True]
    if master == CLUSTER:
        monkeypatch.setenv("LOWWATER_SPARK_SPREAD", "always")
        assert runner._spread(1)


@pytest.mark.parametrize(
    ("size", "master", "spread"),
    [(SPREAD_BYTES, "local[*]", False), (60, CLUSTER, False), (SPREAD_BYTES, CLUSTER, True)],
)
def test_big_captures_are_spread_over_a_cluster(size: int, master: str, spread: bool) -> None:
    runner = OnSpark(Asking(master))
    if not spread:
        assert runner.ingesting(size) is each_on_threads
        return
    with pytest.raises(Asked):
        runner.ingesting(size)


@pytest.mark.spark
def test_low_is_the_same_on_workers_and_in_process(packets: Path, spark: SparkSession, tmp_path: Path) -> None:
    job = Job.open(packets, "demo", QUERIES)
    inputs = job.inputs(START, START + HOUR, job.captures())
    assert 0 < inputs.packets <= sum(each.packets for rows in inputs.captures.values() for each in rows)
    found: list[LowResult] = []
    for name, runner in (("process", each_on_threads), ("workers", SparkTasks(spark))):
        found.append(low_stage(inputs, job.low_settings(), tmp_path / name, runner))
    assert [each.result for each in found[0].outcomes] == [each.result for each in found[1].outcomes]
    assert found[0].files.keys() == found[1].files.keys()
    for key, (path,) in found[0].files.items():
        table = pq.read_table(path)
        assert table.num_rows > 0
        assert table.equals(pq.read_table(found[1].files[key][0]))
