"""Sessions: the archive of Java classes is used, and a bad one is no matter; Delta tables on demand."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pytest

from lowwater.errors import LowwaterError
from lowwater.spark.jars import fetch_jars, jars_folder
from lowwater.spark.session import class_archive
from tests.docs.book import blocks
from tests.replay.support import ROOT, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALONE = """
import sys
sys.prefix = sys.argv[1]
from lowwater.spark import session
session.launch_jvm()
process = session._waiting.gateway.proc
print(process.poll(), process.pid, session._waiting.home)
"""

AHEAD = """
import sys
import psutil
from lowwater.spark import session
from lowwater.spark.session import SessionSettings, build_session, launch_jvm
launch_jvm()
launch_jvm()  # there is one
home, process = session._waiting.home, session._waiting.gateway.proc
settings = {"same": SessionSettings(shuffle_partitions=3), "larger": SessionSettings(driver_memory="1g")}
spark = build_session(settings=settings[sys.argv[1]])
print(spark.range(3).count(), spark.conf.get("spark.sql.shuffle.partitions"))
print(spark.sparkContext._gateway.proc is process, process.poll() is None, home.exists())
launch_jvm()
print(session._waiting)
if sys.argv[1] == "larger":
    spark.stop()
"""


def spoken(code: str, *arguments: Path, **variables: str) -> str:
    """What a program says, which must be nothing but its own output."""
    command, environment = [sys.executable, "-c", code, *map(str, arguments)], {**os.environ, **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def archive() -> Path:
    """The archive of this installation."""
    found = class_archive()
    if found is None:
        pytest.skip("`make setup` could not record the classes of this Java")
    return found


@pytest.mark.spark
@pytest.mark.slow
def test_a_jvm_starts_though_its_archive_is_none_and_ends_with_its_process_if_nobody_takes_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "share" / "lowwater"
    folder.mkdir(parents=True)
    (folder / "classes-20.jsa").write_bytes(b"no archive" * 2)
    assert class_archive(folder) is not None
    ended, process, home = spoken(ALONE, tmp_path).split()
    assert ended == "None" and not psutil.pid_exists(int(process)) and not Path(home).exists()


def test_an_archive_that_was_cut_is_taken_for_missing(archive: Path, tmp_path: Path) -> None:
    cut = Path(shutil.copy(archive, tmp_path))
    assert class_archive(tmp_path) == cut
    cut.chmod(0o600)
    with cut.open("r+b") as file:
        file.truncate(archive.stat().st_size - 1)
    assert class_archive(tmp_path) is None


@pytest.mark.spark
def test_workers_import_nothing_of_the_folder_in_which_they_are_started(spark: SparkSession) -> None:
    def flags(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"safe": pa.array([sys.flags.safe_path] * len(batch))})

    assert spark.range(1).mapInArrow(flags, "safe boolean").toArrow().column("safe").to_pylist() == [True]


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what a process maps is read from /proc")
def test_the_archive_is_used(archive: Path, spark: SparkSession) -> None:
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)
    mapped = {Path(each.path) for each in jvm.memory_maps()}
    assert archive in mapped, "it is of another Java or other jars: rm .venv/.classes && make setup"


@pytest.mark.spark
@pytest.mark.slow
def test_a_session_takes_the_jvm_that_waits(tmp_path: Path) -> None:
    assert spoken(AHEAD, Path("same")) == "3 3\nTrue True True\nNone\n"


@pytest.mark.spark
@pytest.mark.slow
def test_a_jvm_of_other_sizes_ends_before_the_session_starts() -> None:
    """And the process says nothing at its end, though its session was stopped before."""
    assert spoken(AHEAD, Path("larger")) == "3 2\nFalse False False\nNone\n"


@pytest.mark.spark
def test_the_ports_of_a_session_ask_for_a_secret(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.authenticate") == "true" and conf.get("spark.authenticate.secret") is None


def test_a_jar_that_is_not_the_one_that_is_meant_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = jars_folder()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    shutil.copytree(theirs, jars_folder())
    assert len(fetch_jars()) == 4
    (jar,) = jars_folder().glob("delta-storage-*.jar")
    jar.write_bytes(jar.read_bytes()[:-1] + b"x")
    with pytest.raises(LowwaterError, match="is not the delta-storage that Lowwater was built with: sha256 "):
        fetch_jars()
    assert not jar.exists() and len(list(jars_folder().iterdir())) == 3


ENDING = """
import sys
from concurrent.futures import ThreadPoolExecutor
sys.prefix, table = sys.argv[1:]
from lowwater.spark.session import SessionSettings, build_session

settings = SessionSettings(delta=True, quick_start=False)
with ThreadPoolExecutor(2) as pool:
    session, other = pool.map(lambda name: build_session(name, settings=settings), ["one", "other"])
print(session.sparkContext is other.sparkContext)
print(session.read.format("delta").load(table).count())
print(session.sparkContext.parallelize(range(3)).map(lambda x: x + 1).sum())
frames = [session.range(number) for number in range(50)]  # objects of the JVM that outlive it
print([frame.count() for frame in frames[:3]], session.sparkContext._gateway.proc.pid)
"""


PLANTED = """
import json, os, sys, time, urllib.error, urllib.request
from contextlib import suppress
from pathlib import Path
import psutil
from lowwater.spark import session as ours
usual, more = ours._options, json.loads(sys.argv[1])
ours._options = lambda *given: {**usual(*given), **more}
session = ours.build_session("canaries")
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


@pytest.mark.spark
def test_no_secret_is_in_the_event_log_and_on_the_pages_of_spark(tmp_path: Path) -> None:
    """The log is turned on as docs/cluster.md says, the pages as an operator may.

    Nor is one in a command line, which every user of the machine reads.
    """
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
    temporary = tmp_path / "tmp"  # the recipe writes a file of settings beside it, as the user's own
    temporary.mkdir()
    variables = {**os.environ, **secrets, "TMPDIR": str(temporary)}
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


@pytest.mark.spark
@pytest.mark.slow
def test_a_process_does_with_a_damaged_archive_reads_published_tables_and_ends_its_jvm_without_a_word(
    archive: Path, published: Path, tmp_path: Path
) -> None:
    """A session for many rows, with Delta; that for few rows is the one of all other tests.

    It is one for two threads: a call that failed early leaves one that still starts it, and the next asks for one. It
    had Python workers, and the JVM is killed with the connection by which it told what they counted. A session without
    an archive is in tests/packaging/test_wheel.py.
    """
    folder, temporary = tmp_path / "share" / "lowwater", tmp_path / "tmp"
    folder.mkdir(parents=True)
    temporary.mkdir()
    (folder / "jars").symlink_to(jars_folder())
    bad = Path(shutil.copy(archive, folder))
    bad.chmod(0o600)
    with bad.open("r+b") as file:
        for eighth in range(1, 8):
            file.seek(archive.stat().st_size * eighth // 8)
            file.write(b"damage" * 100)
    assert class_archive(folder) == bad
    rows = len(table_rows(published, "flows"))
    said = spoken(ENDING, tmp_path, published / "tables" / "flows", TMPDIR=str(temporary))
    one, read, total, ended = said.splitlines()
    counts, _, pid = ended.rpartition(" ")
    assert (one, read, total, counts) == ("True", str(rows), "6", "[0, 1, 2]") and rows > 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert not list(temporary.glob("lowwater-spark-*"))
