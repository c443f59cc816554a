"""Sessions: a server of Spark Connect beside the process, which ends with it."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.connect.client.retries import DefaultPolicy

from lowwater.errors import LowwaterError
from lowwater.replay.progress import Progress
from lowwater.spark import server
from lowwater.spark.session import Sessions, build_session
from lowwater.spark.tasks import AGAIN, SparkTasks, clones
from tests.docs.book import blocks
from tests.replay.support import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ENDING = """
import atexit, psutil
from lowwater.spark.session import build_session
from lowwater.spark.tasks import SparkTasks, clones
atexit.register(lambda: print(*(each.client.is_closed for each in clones(session))))  # called last
session = build_session("one", "local[1]")
print(SparkTasks(lambda: session)(lambda x: x + 1, range(3)))
print(*(process.pid for process in psutil.Process().children(recursive=True)), flush=True)
"""


@pytest.mark.spark
def test_workers_import_nothing_of_the_folder_in_which_they_are_started(spark: SparkSession) -> None:
    def flags(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"safe": pa.array([sys.flags.safe_path] * len(batch))})

    assert spark.range(1).mapInArrow(flags, "safe boolean").toArrow().column("safe").to_pylist() == [True]


@pytest.mark.spark
def test_files_that_spark_writes_are_not_for_others(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop sets modes itself, whatever the umask."""
    spark.range(3).write.csv(str(tmp_path / "rows"))
    modes = {path.name: oct(path.stat().st_mode) for path in [tmp_path / "rows", *(tmp_path / "rows").iterdir()]}
    assert len(modes) > 1 and {name: mode for name, mode in modes.items() if int(mode, 8) & 0o027} == {}


@pytest.mark.spark
def test_processes_of_spark_import_what_is_installed_with_its_bytecode(spark: SparkSession) -> None:
    """Not the archive of sources that Spark puts in front, which each process would compile."""

    def origins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            files = [sys.modules[name].__cached__ for name in ("pyspark", "pyspark.sql.types", "pyspark.worker")]
            yield pa.record_batch({"files": pa.array([files] * len(batch))})

    (files,) = spark.range(1).mapInArrow(origins, "files array<string>").toArrow().column("files").to_pylist()
    assert [Path(each).suffix for each in files] == [".pyc"] * 3 and all(Path(each).is_file() for each in files), files
    streaming = [each for each in psutil.Process().children(recursive=True) if "spark" in " ".join(words_of(each))]
    homes = {each.environ()["SPARK_HOME"] for each in streaming if "pyspark.daemon" in " ".join(words_of(each))}
    assert all(not (Path(home) / "python").exists() for home in homes)


@pytest.mark.spark
def test_workers_have_loaded_what_tasks_call(spark: SparkSession) -> None:
    loaded = SparkTasks(lambda: spark)(lambda name: name in sys.modules, ["lowwater.replay.stages.engines"])
    assert loaded == [True]


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; none of one that has ended, as Spark's launcher has."""
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words


@pytest.mark.nightly
@pytest.mark.spark
def test_a_resident_server_has_its_workers_before_a_client_asks(tmp_path: Path) -> None:
    """With a token that an address cannot have as it is. Each push sees that of an Airflow
    (tests/airflow/test_platform.py)."""
    port, said = server.free_port(), tmp_path / "said"
    command = [sys.executable, "-P", "-m", "lowwater.spark.server", "--master", "local[1]", "--port", str(port)]
    with said.open("w") as sink:
        resident = psutil.Popen(command, env={**os.environ, server.TOKEN: "a/b=%2F"}, stdout=sink, stderr=sink)
    try:
        found = False
        while not found:
            assert resident.poll() is None, said.read_text()
            time.sleep(0.1)
            found = any("lowwater.spark.workers" in words_of(each) for each in resident.children(recursive=True))
    finally:
        resident.terminate()
        resident.wait()


@pytest.mark.spark
def test_a_server_asks_for_its_token(spark_address: str) -> None:
    place, _, token = spark_address.partition("/;token=")
    with pytest.raises(LowwaterError, match=f"the Spark at {place} gives no answer"):
        build_session("stranger", place)
    port = place.rpartition(":")[2]
    plain = build_session("no TLS", f"sc://127.0.0.1:{port}/;token={token};use_ssl=False")
    assert plain.range(3).count() == 3
    plain.stop()


def test_a_server_ends_with_its_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port at which nobody listens stands for a Spark whose master went away."""
    monkeypatch.setattr(server, "_start", lambda *_: None)
    monkeypatch.setattr(server, "LOOK", 0.01)
    monkeypatch.setattr(sys, "argv", ["server", "--port", str(server.free_port()), "--master", "spark://m:7077"])
    with pytest.raises(SystemExit, match="the Spark on spark://m:7077 has ended"):
        server.main()


class Wire:
    """Connections to a server that can be cut, as if it had died.

    Args:
        server: port of the server.
    """

    def __init__(self, server: int) -> None:
        self.server, self.open = server, set[socket.socket]()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listening,), daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                one = listening.accept()[0]
                other = socket.create_connection(("127.0.0.1", self.server))
                self.open |= {one, other}
                for ends in ((one, other), (other, one)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """Ends all connections, and takes none."""
        for each in (self.listening, *self.open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def mend(self) -> None:
        """Takes connections again."""
        self.listening = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self.listening,), daemon=True).start()


@pytest.mark.spark
def test_a_server_that_dies_in_the_middle_is_named_and_found_when_it_is_back(
    spark_address: str, tmp_path: Path
) -> None:
    began, ends = tmp_path / "began", tmp_path / "ends"
    os.mkfifo(began)
    os.mkfifo(ends)

    def waits(number: int) -> int:
        began.open("w").close()
        ends.open().close()
        return number

    there, _, token = spark_address.partition("/;token=")
    wire = Wire(int(there.rpartition(":")[2]))
    place = f"sc://localhost:{wire.port}"
    sessions = Sessions("cut", f"{place}/;token={token}", Progress(quiet=True).stage)
    sessions.spark.client.set_retry_policies([DefaultPolicy(max_retries=1)])  # type: ignore[attr-defined]
    tasks = SparkTasks(lambda: sessions.spark, "low")

    def cuts() -> None:
        began.open().close()
        wire.cut()

    with ThreadPoolExecutor(1) as pool:
        cutting = pool.submit(cuts)
        with pytest.raises(LowwaterError, match=f"^low: the Spark at {place} has ended, or was started again") as told:
            tasks(waits, [0])
        cutting.result()
    ends.open("w").close()
    assert told.value.hint == AGAIN
    with pytest.raises(LowwaterError, match=f"^the Spark at {place} gives no answer") as away:
        tasks(abs, [-1])
    assert sessions.broken(away.value)
    wire.mend()
    back = sessions.spark
    assert back.range(3).count() == 3
    back.stop()
    wire.cut()


@pytest.mark.spark
def test_a_session_that_its_server_has_forgotten_is_another_one(spark_address: str) -> None:
    """As after an hour in which a watch had nothing to do."""
    sessions = Sessions("forgotten", spark_address, Progress(quiet=True).stage)
    first = sessions.spark
    assert sessions.spark is first
    first.client.release_session()  # type: ignore[attr-defined]
    assert SparkTasks(lambda: sessions.spark, "low")(abs, [-1]) == [1]
    sessions.spark.stop()


@pytest.mark.spark
def test_a_task_whose_worker_dies_runs_again(spark: SparkSession, tmp_path: Path) -> None:
    def once(number: int) -> int:
        mark = tmp_path / str(number)
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return number

    said = list[str]()
    tasks = SparkTasks(lambda: spark, "low of flows", True, said.append)
    assert tasks(once, range(2)) == [0, 1]
    assert said and all(
        re.fullmatch(r"Spark: a task of low of flows was tried again: its try \d .*", each) for each in said
    )


@pytest.mark.spark
def test_the_jobs_of_two_threads_have_their_own_descriptions(
    spark: SparkSession, spark_address: str, tmp_path: Path
) -> None:
    """Both are set before either job begins, and both jobs run at the same time."""
    names = ["low of flows 2026-01-01T00:00:00Z", "low of dns 2026-01-01T01:00:00Z"]
    both, seen = threading.Barrier(len(names)), dict[str, str]()

    def described(_: int) -> str:
        context = TaskContext.get()
        return str(context and context.getLocalProperty("spark.job.description"))

    def run(what: str) -> None:
        def session() -> SparkSession:
            both.wait()
            return spark

        for _ in range(5):
            (seen[what],) = SparkTasks(session, what)(described, [0])
            assert seen[what] == f"lowwater {what}: 1 task"

    with ThreadPoolExecutor() as pool:
        list(pool.map(run, names))
    assert len(clones(spark)) <= len(names) + 1


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.slow
def test_an_executor_that_is_killed_is_said_when_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what ended it, before its task has been tried again."""
    monkeypatch.setenv("LOWWATER_SPARK_SECRET", "of this test")
    said = list[str]()
    session = build_session("one", "local-cluster[1,1,1024]", said.append)

    def kills(number: int) -> int:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            process = psutil.Process()
            while process.name() != "java":
                process = process.parent() or process
            process.kill()
        return number

    assert SparkTasks(lambda: session, "low", True, said.append)(kills, [7]) == [7]
    lost, failed, again = said
    assert lost == "Spark: executor 0 on 127.0.0.1 was lost: Command exited with code 137"
    assert failed.startswith("Spark: try 1 of task 0 of stage 0 ended without a result on 127.0.0.1, executor 0: ")
    assert again.startswith("Spark: a task of low was tried again: its try 2 ended on ")


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.slow
def test_a_process_ends_its_server_without_a_word(tmp_path: Path) -> None:
    """Also a killed one does: tests/airflow/test_child.py."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("JAVA_TOOL_OPTIONS", None)  # of which each JVM says a line
    command = [sys.executable, "-c", ENDING]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    rows, processes, closed = done.stdout.splitlines()
    assert (rows, closed) == ("[1, 2, 3]", "True")
    for _ in range(300):
        if not any(psutil.pid_exists(int(each)) for each in processes.split()):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the server lives on")
    assert not list(tmp_path.glob("lowwater-*"))


PLANTED = """
import json, os, sys, time, urllib.error, urllib.request
from contextlib import suppress
from pathlib import Path
import psutil
from pyspark.sql import SparkSession
from lowwater.spark import server
from lowwater.caches import make_folder
home = make_folder(server.HOME)
settings = server.options("local[1]", "canaries", home, server.free_port(), "1g", "error", server.LOOPBACK)
server._start(home, {**settings, **json.loads(sys.argv[1])})
session = SparkSession.builder.getOrCreate()
session.range(10).count()
context = session.sparkContext
def page(path):
    while True:  # Spark serves them some time after its start
        try:
            return urllib.request.urlopen(f"{context.uiWebUrl}/{path}").read().decode()
        except urllib.error.HTTPError as error:
            if error.code not in (404, 503):
                raise
            time.sleep(0.1)
pages = [page("environment/"), page(f"api/v1/applications/{context.applicationId}/environment")]
for each in [psutil.Process(), *psutil.Process().children(recursive=True)]:
    with suppress(psutil.NoSuchProcess):
        pages.append(" ".join(each.cmdline()))
open_to_others = [str(path) for path in Path(os.environ["TMPDIR"]).rglob("*.conf") if path.stat().st_mode & 0o077]
print(json.dumps([pages, open_to_others]))
session.stop()
"""


@pytest.mark.nightly
@pytest.mark.spark
def test_no_secret_is_in_the_event_log_and_on_the_pages_of_spark(tmp_path: Path) -> None:
    """The log is turned on as docs/cluster.md says, the pages as an operator may.

    Nor is one in a command line, which every user of the machine reads.
    """
    temporary = tmp_path / "tmp"  # the recipe writes a file of settings beside it, as the user's own
    temporary.mkdir()
    (recipe,) = [block for block in blocks(ROOT / "docs" / "cluster.md") if block.words == ("sh", "events")]
    more = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.compress": "false"}
    secrets = {
        "LOWWATER_SPARK_SECRET": "canary-of-spark",
        "AWS_ACCESS_KEY_ID": "AKIA-canary-1",
        "AWS_SECRET_ACCESS_KEY": "canary-of-the-store",
        "AWS_SESSION_TOKEN": "canary-of-a-session",
        "PGPASSWORD": "canary-of-the-database",
        "HTTPS_PROXY": "http://user:canary-of-a-proxy@127.0.0.1:9",
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    variables = {
        **inherited,
        **secrets,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": "canary-of-connect",
        "TMPDIR": str(temporary),
    }
    script = f"{recipe.text}exec {shlex.join([sys.executable, '-c', PLANTED, json.dumps(more)])}"
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        env=variables,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages, open_to_others = json.loads(done.stdout.splitlines()[-1])
    assert any("spark.authenticate" in page for page in pages)
    assert not [page for page in pages if "canary" in page] and "canary" not in done.stderr
    assert not open_to_others
    logged = [path for path in (tmp_path / "spark-events").rglob("*") if path.is_file()]
    assert logged and not [path for path in logged if b"canary" in path.read_bytes()]
