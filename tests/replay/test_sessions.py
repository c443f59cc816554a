"""Which Spark a run uses, what it begins ahead of need, and what it does without."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from lowwater_generator import generate
from pyspark.errors import PySparkException

from lowwater.cli.main import main
from lowwater.config import Config, load_config
from lowwater.errors import AwayError, ConfigError, LowwaterError, SparkError
from lowwater.high.process import InProcess
from lowwater.instants import HOUR, format_instant
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.looks import Looker
from lowwater.replay.stages.audit import LinkScans
from lowwater.replay.stages.engines import LowResult, low_level, low_stage
from lowwater.replay.stages.runners import named_spark
from lowwater.spark.session import NO_ANSWER, Sessions, _servers
from lowwater.spark.tasks import SparkTasks
from lowwater.threads import each_on_threads
from tests.replay.support import DEMO, QUERIES, ROOT, START, copy_lake, states
from tests.runners import spark_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lowwater.high.runner import Runner
    from lowwater.replay.job import IntervalInputs
    from lowwater.threads import TaskMap

NO_JAVA = """
import sys
from lowwater.errors import LowwaterError
from lowwater.spark.session import NO_ANSWER, Sessions
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


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_on_spark_without_java_fails_and_says_so(lake: Path) -> None:
    with (lake / "lowwater.toml").open("a", encoding="utf-8") as file:
        file.write('\n[spark]\nmaster = "local[*]"\n')
    done = replay_without_java(lake)
    assert done.returncode == 1
    assert "Spark did not start" in done.stderr and "lowwater doctor" in done.stderr
    assert states(lake)[0, "flows"] == "failed"
    assert replay_without_java(lake, "--spark", "none").returncode == 0
    assert states(lake)[0, "flows"] == "done"


@pytest.mark.slow
def test_a_backfill_over_an_address_at_which_nobody_listens_ends_once(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOWWATER_SPARK_MASTER", "sc://127.0.0.1:1/;token=secret")
    with pytest.raises(SystemExit) as ended:
        main(["backfill", "--lake", str(lake), "--queries", str(QUERIES)])
    told = capsys.readouterr().err
    assert ended.value.code == 1
    assert told.count("the Spark at sc://127.0.0.1:1 gives no answer: ") == 1 and "secret" not in told
    assert NO_ANSWER in " ".join(told.split())


@pytest.mark.parametrize("address", ["sc://h:1;token=secret", "sc://h:1/?token=secret", "sc:/h:1/;token=secret"])
def test_a_wrong_address_is_refused_without_its_token(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^--spark sc:/+h:1/?: is no master of Spark") as refused:
        named_spark(Config(), address)
    assert "secret" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("address", ["sc://127.0.0.1:1/;token=secret", "local[*]"])
def test_an_ingest_without_its_spark_says_so_once(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not once a link; and no file is refused for it, by a command or by a look."""
    for link in ("a", "b", "c"):
        (made,) = generate(tmp_path, START, 1, (link,), 0.02, seed=1)[:1]
        os.utime(made.path.rename(tmp_path / link / "1.pcap"), (1, 1))
    lines = [f'[links.{link}]\ncaptures = "{tmp_path}/{link}/*.pcap"' for link in ("a", "b", "c")]
    (tmp_path / "lowwater.toml").write_text("\n".join(lines))
    monkeypatch.setattr("lowwater.spark.session.started", not_started)
    for options in ([], ["--link", "a", str(tmp_path / "a" / "1.pcap")]):
        with pytest.raises(SystemExit) as ended:
            main(["ingest", "--lake", str(tmp_path), "--spark", address, *options])
        told = capsys.readouterr().err
        assert ended.value.code == 1 and told.count("error: ") == 1 and "secret" not in told
    said: list[str] = []
    looker = Looker(tmp_path, (), QUERIES, lambda line, _: said.append(line), spark=address, alone=True)
    found = looker.ingest(load_config(tmp_path))
    assert (found.hindered is not None, found.refusals) == (True, [])
    assert sum(line.startswith("error: ") for line in said) == 1


def not_started(*_: object) -> str:
    raise SparkError("Spark did not start: no java")


@pytest.mark.parametrize(
    "error",
    [
        AwayError("the Spark at sc://h gives no answer"),
        SparkError("Spark did not start: There is insufficient memory for the Java Runtime Environment to continue."),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_who_asks_later_finds_a_spark_that_is_back(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch has one runner for weeks."""
    answers = iter([error, "back"])

    def asked(*given: object, **named: object) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("lowwater.spark.session.build_session", asked)
    sessions = Sessions("test", "sc://h", Progress(quiet=True).stage)
    sessions.begin()
    with pytest.raises(type(error)) as told:
        _ = sessions.spark
    assert not isinstance(told.value, LowwaterError) or sessions.broken(told.value)
    assert sessions.spark == "back"  # type: ignore[comparison-overlap]


SERVER = "#!/bin/sh\necho $$ >> {0}/started\necho here\ncat > /dev/null\necho $$ >> {0}/ended\n"
"""A program in the place of Python: a server of Spark at whose port nobody listens, and which ends as one does."""


def test_a_server_that_gives_no_answer_or_is_lost_ends_before_another_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch has one process for weeks, and asks again at each look."""
    program = tmp_path / "python"
    program.write_text(SERVER.format(tmp_path))
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    sessions, others = Sessions("test", "local[1]", Progress(quiet=True).stage), {*_servers}

    def lines(name: str) -> int:
        return len((tmp_path / name).read_text().splitlines())

    for looks in (1, 2):
        with pytest.raises(AwayError, match=r"^the command's own Spark on local\[1\] gives no answer"):
            _ = sessions.spark
        assert (lines("started"), lines("ended")) == (looks, looks)
    conf = Mock()
    monkeypatch.setattr("lowwater.spark.session._connected", lambda *_: Mock(conf=conf))
    lost = sessions.spark
    assert (sessions.spark is lost, lines("started"), lines("ended")) == (True, 3, 2)
    conf.get.side_effect = PySparkException("[NO_ACTIVE_SESSION] No active Spark session found.")
    assert (sessions.spark is lost, lines("started"), lines("ended")) == (False, 4, 3)
    for address in {*_servers} - others:
        _servers[address]()


@pytest.mark.slow
def test_a_published_interval_starts_no_jvm(published: Path, tmp_path: Path) -> None:
    lake = copy_lake(published, tmp_path / "lake")
    done = replay_without_java(lake, "--spark", "local[*]")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("already published from the same inputs") == len(DEMO)


@pytest.mark.spark
def test_low_is_the_same_on_workers_and_in_process(packets: Path, spark: SparkSession, tmp_path: Path) -> None:
    job = Job.open(packets, "demo", QUERIES)
    inputs = job.inputs(START, START + HOUR, job.captures())
    assert 0 < inputs.packets <= sum(each.packets for rows in inputs.captures.values() for each in rows)
    found: list[LowResult] = []
    runners: dict[str, Runner] = {"process": InProcess(), "workers": spark_runner(spark)}
    for name, runner in runners.items():
        found.append(low_stage(low_level(inputs, job.low_settings(), tmp_path / name), runner))
    assert found[0].links == found[1].links
    assert found[0].files.keys() == found[1].files.keys()
    for key, (path,) in found[0].files.items():
        table = pq.read_table(path)
        assert table.num_rows > 0
        assert table.equals(pq.read_table(found[1].files[key][0]))
    assert scanned(inputs, SparkTasks(lambda: spark)) == scanned(inputs, each_on_threads)


def scanned(inputs: IntervalInputs, tasks: TaskMap) -> list[tuple[Any, ...]]:
    """What the audit counts of each link of an interval."""
    with LinkScans(tasks) as scans:
        scans.begin([inputs])
        found = scans.results(inputs.start, inputs.plan.links)
    counts = [(each.link, each.sane, each.minutes, each.violations.to_pydict()) for each in found]
    profiles = [(each.bytes, each.addressed, each.silence, each.talkers) for each in (scan.profile for scan in found)]
    return [(*count, *profile) for count, profile in zip(counts, profiles, strict=True)]
