"""An hour on Spark is two streaming queries: what the event log says of them, and what is left where something was
killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
import pytest

from lowwater.instants import HOUR, format_instant
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.spark.server import TOKEN, free_port
from lowwater.spark.session import build_session
from tests.docs.book import blocks
from tests.replay.support import (
    DEMO,
    QUERIES,
    ROOT,
    START,
    all_tables,
    leftovers,
    replay_range,
    states,
    table_rows,
    wait,
)
from tests.runners import spark_runner

if TYPE_CHECKING:
    from lowwater.high.runner import Runner

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]
HOUR_2 = (START + 2 * HOUR, START + 3 * HOUR)
SOON = 300.0
"""Seconds that a session, a stage or an end may take on a busy machine."""


class Server:
    """A resident Spark on two cores, as an operator starts it, with its event log as docs/cluster.md says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        (recipe,) = [block for block in blocks(ROOT / "docs" / "cluster.md") if block.words == ("sh", "events")]
        (folder / "tmp").mkdir()
        subprocess.run(["sh", "-e", "-c", recipe.text], cwd=folder, check=True)
        (self.events,) = [folder / "spark-events"]
        with (folder / "spark-conf" / "spark-defaults.conf").open("a") as settings:
            settings.write("spark.eventLog.compress false\n")
        self.start()

    @property
    def address(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "lowwater.spark.server", "--master", "local[2]", "--port", str(self.port)]
        own = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_") and name != TOKEN}
        own |= {"SPARK_CONF_DIR": str(self.folder / "spark-conf"), "TMPDIR": str(self.folder / "tmp")}
        self.process = psutil.Popen(command, stdout=subprocess.PIPE, env=own)
        assert self.process.stdout.readline()

    def family(self, words: str) -> list[psutil.Process]:
        """The living processes of which the command line has these words."""
        found = []
        for each in self.process.children(recursive=True):
            with suppress(psutil.Error):
                if words in " ".join(each.cmdline()):
                    found.append(each)
        return found

    def kill(self) -> None:
        for each in [self.process, *self.process.children(recursive=True)]:
            with suppress(psutil.Error):
                each.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("resident"))
    yield server
    server.kill()


def said(events: Path) -> Iterator[dict[str, Any]]:
    """The events of a log, in order."""
    for file in sorted(path for path in events.rglob("*") if path.is_file() and "local-" in path.name):
        for line in file.read_text().splitlines():
            with suppress(json.JSONDecodeError):  # it is being written
                yield json.loads(line)


class Stages(Progress):
    """Says which stage is at work."""

    name = ""

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[Callable[[str], None]]:
        self.name = name
        with super().stage(name, detail) as tell:
            yield tell


def noted(call: Callable[..., Any], stage: Stages, read: list[tuple[str, str]]) -> Callable[..., Any]:
    """The function, whose calls are noted with the stage."""

    def called(*arguments: Any, **options: Any) -> Any:
        read.append((stage.name, call.__name__))
        return call(*arguments, **options)

    return called


def test_an_hour_is_two_streaming_queries(
    server: Server, lake: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tasks do all of it: the client reads no row and no promise."""
    stage, read = Stages(quiet=True), list[tuple[str, str]]()
    for of, name in [(pq.ParquetFile, each) for each in ("read", "read_row_groups", "iter_batches")] + [
        (pq, "read_table")
    ]:
        monkeypatch.setattr(of, name, noted(getattr(of, name), stage, read))
    session = build_session("hour", server.address)
    try:
        (outcome,) = replay(Job.open(lake, "demo", QUERIES), *HOUR_2, None, stage, spark_runner(session))
    finally:
        session.stop()
    monkeypatch.undo()
    assert outcome.rows == {query: len(table_rows(published, query, *HOUR_2)) for query in DEMO}
    assert [name for at, name in read if at in ("low", "high")] == []
    names = {f"lowwater low of demo {format_instant(HOUR_2[0])}", f"lowwater high level of {', '.join(DEMO)} of demo "}
    events = [*said(server.events)]
    of = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
    begun = {each["id"]: each["name"] for each in events if each["Event"] == f"{of}StartedEvent"}
    levels = {id_: name for id_, name in begun.items() if any(name.startswith(each) for each in names)}
    assert len(levels) == 2, begun
    jobs = [each["Properties"] for each in events if each["Event"] == "SparkListenerJobStart"]
    others = [each for each in jobs if each.get("sql.streaming.queryId") not in levels]
    about = {str(each.get("spark.job.description")) for each in others}
    assert not [each for each in about if "warm-up" not in each and "audit of demo" not in each], about
    progress = [each["progress"] for each in events if each["Event"] == f"{of}ProgressEvent"]
    for id_, name in levels.items():
        mine = [each for each in progress if each["id"] == id_]
        ends = [json.loads(each["sources"][0]["endOffset"]) for each in mine]
        assert sum(each["sources"][0]["numInputRows"] for each in mine) == ends[-1]["tasks"] > 0
        assert any(each["observedMetrics"] for each in mine), mine
        assert ends[-1].keys() >= ({"rows", "closed"} if "high level" in name else {"packets", "of"})


def command(lake: Path, address: str) -> list[str]:
    span = ["--from", format_instant(HOUR_2[0]), "--to", format_instant(HOUR_2[1])]
    module = [sys.executable, "-m", "lowwater.cli.main"]
    return [*module, "replay", "demo", "--lake", str(lake), *span, "--queries", str(QUERIES), "--spark", address]


BEGUN = {"low": "low/stream/at-work", "high": "high/*/rows"}
"""Level -> what is there once it is at work."""
VICTIMS = {"worker": "lowwater.spark.workers", "planner": "python_streaming_source_runner"}
"""Processes beside the server's own -> words of their command lines."""


@pytest.mark.parametrize("level", list(BEGUN))
@pytest.mark.parametrize("victim", ["client", "worker", "planner", "server"])
def test_what_is_killed_leaves_nothing_and_a_retry_has_the_same_rows(
    victim: str, level: str, server: Server, lake: Path, published: Path, runner: Runner
) -> None:
    log = lake.parent / "killed.log"
    with log.open("w") as out:
        child = psutil.Popen(command(lake, server.address), cwd=ROOT, stdout=out, stderr=out)
    try:
        there = wait(lambda: [*(lake / "_work").glob(f"*/*/*/{BEGUN[level]}")] or child.poll() is not None, SOON, 0.005)
        assert there and child.poll() is None, log.read_text()
        if victim == "client":
            child.kill()
        elif victim == "server":
            server.kill()
        else:
            killed = wait(lambda: server.family(VICTIMS[victim]), SOON, 0.005)
            for each in killed:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        code = child.wait(SOON)
        # A query whose process of offsets has not begun is begun again, one at work fails.
        expected = {"client": (-signal.SIGKILL,), "worker": (0,), "planner": (0, 1)}.get(victim, (1,))
        assert code in expected and ("failed: no message" in log.read_text()) == (code == 1 and victim == "planner")
    finally:
        if child.is_running():
            child.kill()
    if victim == "server":
        server.start()
    (outcome,) = replay_range(lake, runner, *HOUR_2)
    assert (outcome.state, outcome.committed) == ("done", code != 0)
    assert all_tables(lake) == {query: table_rows(published, query, *HOUR_2) for query in DEMO}
    assert states(lake)[2, "flows"] == "done"
    assert leftovers(lake) == []
    assert wait(lambda: not server.family(VICTIMS["planner"]), SOON), "its queries have ended"
    assert [*(server.folder / "tmp").rglob("temporary-*")] == []
