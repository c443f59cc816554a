"""Fixtures and settings that every test shares: captures and lakes, one Spark session, the order of the tests."""

from __future__ import annotations

import fcntl
import gc
import logging
import os
import pickle
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from lowwater_generator import GeneratedCapture, generate
from xdist.scheduler import LoadFileScheduling

from tests.breadth import IN_SUITE
from tests.replay.support import END, HOURS, LINKS, START, copy_lake, ingest_all, replay_range, write_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

    from lowwater.high.runner import Runner

ROOT = Path(__file__).resolve().parents[1]
LONG = 15
"""Seconds that a file of tests takes, in a whole run on two cores, before the order of the files knows it."""

# What a shell starts in the background ignores Ctrl-C, and so would every process that a test stops by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A JVM of a test lives for seconds: what it would compile twice it uses a few times. (What its user says stays.)
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# What tests kill is a process, never the machine: what it has written stays, so nothing waits for a disk.
os.fsync = lambda _: None

# The compiled kernels make the first example slow, so no test has a deadline.
settings.register_profile("fast", deadline=None, derandomize=True, database=None, max_examples=IN_SUITE)
settings.register_profile("quick", settings.get_profile("fast"), max_examples=5)
settings.register_profile("fuzz", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("fast")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Runs what fails fastest first: unmarked tests, then real captures, then Spark."""
    items.sort(key=lambda item: 2 if "spark" in item.keywords else "captures" in item.keywords)
    if hasattr(config, "workerinput"):
        lines = (ROOT / "tests" / "seconds.txt").read_text(encoding="utf-8").splitlines()
        seconds = {ROOT / path: int(taken) for taken, path in map(str.split, lines)}
        items.sort(key=lambda item: -seconds.get(item.path, 0))


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: collections of garbage, of which some tests make many, pass over them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of which `-m` leaves out every test: each worker would import them."""
    marks = "|".join(re.findall(r"not (slow|spark|captures|nightly)", config.option.markexpr))
    if not marks or not re.fullmatch(r"test_\w+\.py", collection_path.name):
        return None
    text = collection_path.read_text(encoding="utf-8")
    if re.search(rf"^pytestmark = .*mark\.({marks})\b", text, re.MULTILINE):
        return True
    decorators = re.findall(r"((?:^@.*\n(?:^[ )\]].*\n)*)*)^def test_", text, re.MULTILINE)
    marked = [re.search(rf"^@pytest\.mark\.({marks})\b", each, re.MULTILINE) for each in decorators]
    return True if marked and all(marked) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leaves doctests out: tests have none, and looking for them imports every helper in each worker."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule)]


class WholeFiles(LoadFileScheduling):
    """Each worker takes whole files, and one takes all that ask for the Spark session: each JVM costs a minute."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "spark" if _asks_for_spark(path) else path


@cache
def _asks_for_spark(path: str) -> bool:
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.search(r"\b(spark: SparkSession|(on_spark|each_runner): Runner)\b", text) is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles | None:
    return WholeFiles(config, log) if config.getvalue("dist") == "loadfile" else None


_TAKEN: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _TAKEN[report.location[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes what the files of a whole run took into the file that LOWWATER_TEST_SECONDS names."""
    named = os.environ.get("LOWWATER_TEST_SECONDS")
    if named and not hasattr(session.config, "workerinput"):
        lines = [f"{taken:.0f} {path}\n" for path, taken in _TAKEN.most_common() if taken >= LONG]
        Path(named).write_text("".join(lines), encoding="utf-8")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names bytes by their length: the workers of a run compare names, and written out they may hold a time of day."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def root_log() -> Iterator[None]:
    """Takes back what Airflow does to the root logger: its handler writes to the stderr of the test that imported it
    first, which is closed behind that test, so that a later one would see `Logging error` and a traceback."""
    yield
    root = logging.getLogger()
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler]:
        root.removeHandler(handler)
        root.setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def captures_dir() -> Path:
    """The folder of real captures: LOWWATER_CAPTURES, else `../shared/captures` beside the repository."""
    named = os.environ.get("LOWWATER_CAPTURES")
    folder = Path(named) if named else ROOT.parent / "shared" / "captures"
    if not folder.is_dir():
        pytest.skip(f"no real captures at {folder} (set LOWWATER_CAPTURES)")
    return folder


@pytest.fixture(scope="session")
def spark_address() -> str:
    """The address of the one server of the test process, with its token; started by the first test that asks."""
    from lowwater.spark.session import started

    return started("lowwater-tests", "local[*]")


@pytest.fixture(scope="session")
def spark(spark_address: str) -> Iterator[SparkSession]:
    """The one Spark session of the test process."""
    from lowwater.spark.session import build_session

    session = build_session("lowwater-tests", spark_address)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def on_spark(spark: SparkSession) -> Runner:
    """The runner on that session."""
    from tests.runners import spark_runner

    return spark_runner(spark)


@pytest.fixture(scope="session")
def runner() -> Runner:
    """The runner of this process."""
    from lowwater.high.process import InProcess

    return InProcess()


@pytest.fixture(params=["process", pytest.param("spark", marks=pytest.mark.spark)])
def each_runner(request: pytest.FixtureRequest) -> Runner:
    """Each of the two runners: what a test says holds on both."""
    runner: Runner = request.getfixturevalue("runner" if request.param == "process" else "on_spark")
    return runner


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first worker that asks for it makes, and that no test changes."""
    own = tmp_path_factory.getbasetemp()
    root = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, whole = root / f"shared-{name}", root / f"shared-{name}.whole"
    with (root / f"shared-{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            whole.touch()
    return folder


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> list[GeneratedCapture]:
    """Three hours of each link and a last minute; the second hour of control is cut inside its last record."""

    def make(folder: Path) -> None:
        made = generate(folder / "captures", START, HOURS, LINKS, rate=2.0, seed=7)
        (folder / "made").write_bytes(pickle.dumps(made))

    made: list[GeneratedCapture] = pickle.loads((made_once(tmp_path_factory, "captures", make) / "made").read_bytes())
    return made


@pytest.fixture(scope="session")
def packets(captures: list[GeneratedCapture], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with all captures and nothing replayed; copy it before you change it."""

    def make(folder: Path) -> None:
        write_settings(folder)
        ingest_all(folder, captures)

    made = made_once(tmp_path_factory, "packets", make)
    return copy_lake(made, tmp_path_factory.mktemp("packets") / "lake")


@pytest.fixture(scope="session")
def published(packets: Path, runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake with the three hours replayed in order; copy it before you change it."""

    def make(folder: Path) -> None:
        replay_range(copy_lake(packets, folder / "lake"), runner, START, END)

    made = made_once(tmp_path_factory, "published", make)
    return copy_lake(made / "lake", tmp_path_factory.mktemp("published") / "lake")


@pytest.fixture
def lake(packets: Path, tmp_path: Path) -> Path:
    """A lake with all captures of the test's own."""
    return copy_lake(packets, tmp_path / "lake")
