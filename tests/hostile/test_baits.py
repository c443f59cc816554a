"""Commands that stand in a folder of a stranger, with a file of each name that a library might obey, read none of them.

inotify tells each file that is opened, by whichever process; and each bait that is a module says so when it runs."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from lowwater.cli.commands import BESIDE, FAMILIES
from lowwater.processes import python
from tests.replay.support import lowwater

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")]

IN_OPEN, IN_ISDIR = 0x20, 0x40000000
QUERY = "DEFINE { query_name 'n'; } SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb"

MODULES = sorted({*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"})
"""What a Python that stands in the folder might import from there."""

OBEYED = {
    ".numba_config.yaml": "cache_dir: {folder}/planted\nchrome_trace: {folder}/traced\nopt: wrong\n",
    ".env": "LOWWATER_LAKE={folder}\nAIRFLOW_HOME={folder}\n",
    ".duckdbrc": ".shell touch {folder}/ran\n",
    ".netrc": "default login a password b\n",
    ".pypirc": "",
    ".python-version": "2.7\n",
    ".pythonrc.py": "",
    ".pdbrc": "",
    ".hotspotrc": "+PrintFlagsFinal\n",
    ".hotspot_compiler": "",
    ".aws/credentials": "[default]\n",
    ".aws/config": "[default]\n",
    ".jupyter/jupyter_config.py": "",
    "airflow.cfg": "[core]\n",
    "airflow_local_settings.py": "",
    "airflow_plugins/bait.py": "",
    "arrow.cfg": "",
    "conf/log4j2.properties": "",
    "conf/spark-defaults.conf": "spark.driver.extraJavaOptions -version\n",
    "core-site.xml": "<configuration/>",
    "derby.properties": "",
    "great_expectations.yml": "",
    "great_expectations/great_expectations.yml": "",
    "gunicorn.conf.py": "",
    "gx/great_expectations.yml": "",
    "gx/plugins/bait.py": "",
    "hive-site.xml": "<configuration/>",
    "log4j.properties": "",
    "log4j2.properties": "",
    "log4j2.xml": "",
    "logging.conf": "",
    "logging.ini": "",
    "matplotlibrc": "",
    "pip.conf": "",
    "pyproject.toml": "[tool\n",
    "python311._pth": "",
    "pyvenv.cfg": "home = {folder}\n",
    "setup.cfg": "[\n",
    "spark-defaults.conf": "",
    "uvicorn.json": "",
    "webserver_config.py": "",
}
"""What libraries, or the programs that they come with, read where they stand, or might in their next release."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stranger: baits, a capture and a query."""
    folder = tmp_path_factory.mktemp("stranger")
    goes_off = "import os, sys\nopen({!r}, 'a').write(__name__ + chr(10))\nraise ImportError('a bait')\n"
    for name in MODULES:
        (folder / f"{name}.py").write_text(goes_off.format(str(folder / "ran")))
    for name, text in OBEYED.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text.replace("{folder}", str(folder)) or goes_off.format(str(folder / "ran")))
    made = tmp_path_factory.mktemp("made")
    assert lowwater("generate", "--out", made, "--links", "main1", "--rate", 2, "--hours", 2).code == 0
    for number, capture in enumerate(sorted((made / "main1").iterdir())):
        shutil.copy(capture, folder / f"main1_2026010{number + 1}.pcap")
    (folder / "n.gsql").write_text(QUERY)
    return folder


@contextmanager
def watched(folder: Path) -> Iterator[set[str]]:
    """Yields the names of the files below a folder that anybody opens, and has them at its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(os.O_NONBLOCK)
    assert handle >= 0
    under = {}
    for place in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        under[libc.inotify_add_watch(handle, os.fsencode(place), IN_OPEN)] = place.relative_to(folder)
    opened: set[str] = set()
    try:
        yield opened
        while True:
            try:
                told = os.read(handle, 1 << 20)
            except BlockingIOError:
                return
            while told:
                place, what, _, length = struct.unpack_from("iIII", told)
                name, told = told[16 : 16 + length].rstrip(b"\0").decode(), told[16 + length :]
                if not what & IN_ISDIR:
                    opened.add(str(under[place] / name))
    finally:
        os.close(handle)


DRIVER = """
import json, sys
from lowwater.cli.entry import main
for words in json.load(sys.stdin):
    sys.argv = ["lowwater", *words]
    try:
        main()
    except SystemExit as ended:
        print("rc", words[0], ended.code, flush=True)
"""


def driven(folder: Path, *commands: Sequence[object], umask: int = -1, **variables: str) -> dict[str, int]:
    """Runs commands one after another in a process that stands in a folder; returns their exit codes."""
    words = json.dumps([[str(word) for word in each] for each in commands])
    done = subprocess.run(
        python("-c", DRIVER), input=words, cwd=folder, text=True, capture_output=True,
        env={**os.environ, **variables}, check=False, umask=umask,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    found = re.findall(r"^rc (\S+) (\d+)$", done.stdout, re.MULTILINE)
    assert len(found) == len(commands), done.stdout
    return {name: int(code) for name, code in found}


def intact(folder: Path, opened: set[str]) -> None:
    """Nobody has opened a bait, run one, or left something beside them."""
    given = {path.name for path in folder.glob("*.pcap")} | {"n.gsql"}
    assert opened - given == set()
    assert {path.name for path in folder.iterdir()} - given == {
        *(f"{name}.py" for name in MODULES), *(name.split("/")[0] for name in OBEYED)
    }  # fmt: skip


def every_command(folder: Path, tmp_path: Path) -> list[Sequence[object]]:
    """All commands but `serve`, in a folder with a capture and a query; what they write lies below another one."""
    capture, lake, out = "main1_20260101.pcap", tmp_path / "lake", tmp_path / "out"
    of_lake = ["--lake", lake]
    hour = ["--from", "2026-01-01T00:00Z", "--to", "2026-01-01T01:00Z"]
    captures = tmp_path / "captures"
    captures.mkdir()
    for path in folder.glob("*.pcap"):
        shutil.copy(path, captures)
    commands: list[Sequence[object]] = [
        ["inspect", capture],
        ["check", "n.gsql"],
        ["explain", "n.gsql"],
        ["run", "n.gsql", "--capture", f"main1={capture}", "--out", out],
        ["cookbook"],
        ["generate", "--out", tmp_path / "generated", "--links", "main1", "--rate", 1, "--hours", 1],
        ["init", captures, *of_lake, "--query", "n.gsql"],
        ["ingest", *of_lake],
        ["plan", *of_lake],
        ["backfill", *of_lake],
        ["status", *of_lake],
        ["rows", "n", *of_lake],
        ["evidence", "n", *of_lake, "--row", '{"n": 1}', "--out", tmp_path / "row.zip"],
        ["report", *of_lake, "--html", tmp_path / "site"],
        ["expect", "--query-set", "n", "--write", *of_lake],
        ["skew", *of_lake],
        ["gx", *of_lake],
        ["export", *of_lake, "--link", "main1", *hour, "--out", tmp_path / "some.pcap"],
        ["accept", "n", "--interval", "2026-01-01T00:00Z", "--cause", "late", "--why", "a test", *of_lake],
        ["set-aside", captures / capture, "--reason", "a test", *of_lake],
        ["log", *of_lake],
        ["why", "n", "2026-01-01T00:00Z", *of_lake],
        ["sql", "SELECT count(*) FROM main1", *of_lake],
        ["ask", "protocols", *of_lake],
        ["verify", "--data", *of_lake],
        ["upgrade", *of_lake],
        ["backup", "--to", tmp_path / "backups", *of_lake],
        ["restore", "--from", tmp_path / "backups", "--lake", tmp_path / "restored"],
        ["replay", "n", *hour, *of_lake],
        ["try", "wider", "--skew", "main1=5s", *of_lake],
        ["watch", "--once", *of_lake],
        ["maintain", *of_lake],
        ["metrics", *of_lake],
        ["traces", "--to", "http://127.0.0.1:9", *of_lake],
        ["diff", "n", "--at", "2026-01-01T00:00Z", "--from", "previous", *of_lake],
        ["history", "n", *of_lake],
        ["rollback", "n", "--at", "2026-01-01T00:00Z", "--to", "previous", "--because", "a test", *of_lake],
        ["streams", *of_lake],
        ["tail", "n", *of_lake],
        ["rename", "query", "n", "other", "--dry-run", *of_lake],
        ["move", "query", "n", "--to", "other", "--dry-run", *of_lake],
        ["retire", "query", "n", "--drop", "--why", "a test", *of_lake],
        ["erase", "--where", "srcPort = 1", "--yes", "--why", "a test", *of_lake],
        ["doctor", *of_lake],
        ["lsp"],
    ]
    assert {str(command) for command, *_ in commands} == {*sum(FAMILIES.values(), ()), *BESIDE.values()} - {"serve"}
    return commands


def test_no_command_obeys_the_folder_in_which_it_is_started(folder: Path, tmp_path: Path) -> None:
    commands = every_command(folder, tmp_path)
    with watched(folder) as opened:
        codes = driven(folder, *commands)
    intact(folder, opened)
    assert {name: code for name, code in codes.items() if code not in (0, 1, 3)} == {}, "each has done its work"


def test_no_page_obeys_the_folder_in_which_its_server_is_started(folder: Path, tmp_path: Path) -> None:
    """A check of a text and a preview of its rows are processes of their own."""
    (tmp_path / "in").mkdir()
    shutil.copy(folder / "main1_20260101.pcap", tmp_path / "in")
    assert lowwater("init", tmp_path / "in", "--lake", tmp_path / "lake", "--query", folder / "n.gsql").code == 0
    assert lowwater("ingest", "--lake", tmp_path / "lake").code == 0
    command = [
        *python("-m", "lowwater.cli.main"),
        "serve",
        "--lake",
        str(tmp_path / "lake"),
        "--no-login",
        "--port",
        "0",
    ]
    with (
        watched(folder) as opened,
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server,
    ):
        assert server.stderr is not None
        address = server.stderr.readline().strip().rpartition("/")[0] + "/"
        try:
            for page in ("", f"write/check?text={quote(QUERY)}", f"write/index.html?text={quote(QUERY)}&action=try"):
                asked = Request(address + page, headers={"Sec-Fetch-Site": "same-origin"})
                with urlopen(asked, timeout=300) as answer:
                    assert answer.status == 200
        finally:
            server.terminate()
            server.wait(120)
    intact(folder, opened)


@pytest.mark.spark
@pytest.mark.nightly
def test_no_process_of_spark_obeys_the_folder_in_which_it_is_started(folder: Path, tmp_path: Path) -> None:
    run = ["run", "n.gsql", "--capture", "main1=main1_20260101.pcap", "--spark", "local[1]", "--out", tmp_path / "out"]
    with watched(folder) as opened:
        assert driven(folder, run) == {"run": 0}
    shutil.rmtree(folder / "spark-warehouse", ignore_errors=True)  # Spark makes it, and reads nothing there
    intact(folder, opened)


def test_no_task_of_airflow_obeys_the_folder_in_which_it_is_started(folder: Path, tmp_path: Path) -> None:
    """The child process of a task, and what a task imports before it."""
    code = "from lowwater_airflow.child import Child; Child('replay', ['--help']).run()"
    with watched(folder) as opened:
        done = subprocess.run(
            python("-c", code), cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
        )  # fmt: skip
    assert "ChildDied" in done.stderr, done.stderr
    intact(folder, opened)
