"""Lowwater as its users have it: wheel and source distribution are built, installed into an environment of their own,
and used there. `python -m tests.packaging.installed --python python3.12 --extras airflow` is a line of the matrix.

Nothing of the checkout is on the path of these processes.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import capturemaker as maker
from tests.storage.servers import BUCKET, PACKAGES, s3_server

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.prefix) / "bin" / "uv"
SECOND = 1_000_000_000
BEGIN = 1_767_225_600
QUERY = """DEFINE { query_name 'talkers'; }
SELECT tb, srcIP, destPort, count(*) AS packets, sum(len) AS bytes FROM main1.TCP
GROUP BY time/10 AS tb, srcIP, destPort HAVING count(*) > 1;
"""
FOREIGN = ("AIRFLOW", "LOWWATER", "NUMBA", "PYTHON", "SPARK", "VIRTUAL_ENV")
"""Beginnings of variables that would tell an installation of the checkout; mirrors, proxies and Java pass through."""


def run(command: Sequence[object], folder: Path, *, code: int = 0, **variables: str) -> str:
    """Runs a command and returns its output.

    Args:
        command: program and arguments.
        folder: working directory.
        code: the exit code that is expected.
        variables: further variables of the environment, which has none of `FOREIGN`.

    Raises:
        AssertionError: the exit code is another one; the message has the whole output.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | variables
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=540)
    assert done.returncode == code, f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def build(folder: Path) -> tuple[Path, Path]:
    """Builds the source distribution, and the wheel from it. Returns both."""
    options = ("--no-build-isolation", "--python", sys.executable, "--out-dir", folder)
    run([UV, "build", "--quiet", "--offline", "--sdist", *options, ROOT], folder)
    (sdist,) = folder.glob("*.tar.gz")
    run([UV, "build", "--quiet", "--offline", "--wheel", *options, sdist], folder)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def share_bytecode(environment: Path) -> None:
    """Links the bytecode of packages from this environment, where uv has linked their modules from the same cache.

    It hides nothing: Python compiles a module anew whose date or size is another one.
    """
    ours = Path(sysconfig.get_path("purelib"))
    theirs = environment / ours.relative_to(sys.prefix)
    for folder in ours.rglob("__pycache__"):
        package = theirs / folder.parent.relative_to(ours)
        if package.is_dir() and package != theirs:
            shutil.copytree(folder, package / "__pycache__", copy_function=os.link, dirs_exist_ok=True)


class Installation:
    """An environment with the wheel, and a folder to work in.

    Attributes:
        folder: the folder; its parents hold no checkout.
        extras: the extras that were asked for.
    """

    def __init__(self, folder: Path, wheel: Path, extras: Iterable[str] = (), python: str = sys.executable) -> None:
        """Installs the wheel with the packages of the lock of its extras, from uv's cache where that is enough.

        Args:
            folder: an empty folder.
            wheel: the built wheel.
            extras: the extras, or none for the light core.
            python: interpreter of the environment: a path, or a name for uv.
        """
        self.folder, self.extras = folder, tuple(extras)
        locks = [ROOT / "requirements" / f"{extra}.txt" for extra in self.extras or ("core",)]
        self.bin = folder / "environment" / "bin"
        run([UV, "venv", "--quiet", "--python", python, self.bin.parent], folder)
        install = [UV, "pip", "install", "--quiet", "--python", self.bin / "python"]
        locked = ["--require-hashes", *(word for lock in locks for word in ("-r", lock))]
        try:
            run([*install, "--offline", *locked], folder)
        except AssertionError:
            run([*install, *locked], folder)
        share_bytecode(self.bin.parent)
        run([*install, "--offline", "--no-deps", wheel], folder)

    def lowwater(self, *words: object, code: int = 0, **variables: str) -> str:
        """Runs `lowwater` of the environment in the folder; its caches begin empty."""
        caches = {"NUMBA_CACHE_DIR": str(self.folder / "numba"), "LOWWATER_CACHE": str(self.folder / "kernels")}
        return run([self.bin / "lowwater", *words], self.folder, code=code, **caches, **variables)

    @contextmanager
    def running(self, *words: object) -> Iterator[subprocess.Popen[str]]:
        """Runs `lowwater` in the background, its output in one pipe, and stops it at the end as Ctrl-C does."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        command = [str(self.bin / "lowwater"), *map(str, words)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen(command, cwd=self.folder, env=environment, **pipes) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)

    def imported(self, *modules: str) -> dict[str, str]:
        """Returns the files from which modules are imported."""
        code = "import importlib, json, sys; m = {n: importlib.import_module(n).__file__ for n in sys.argv[1:]}"
        printed = run([self.bin / "python", "-c", f"{code}; print(json.dumps(m))", *modules], self.folder)
        files: dict[str, str] = json.loads(printed)
        return files


def write_capture(folder: Path) -> Path:
    """Writes a capture of 600 packets of one minute, and the query `talkers.gsql` beside it. Returns the capture."""
    capture = folder / "a.pcap"
    packets = (
        (BEGIN * SECOND + number * SECOND // 10, maker.tcp(f"10.0.0.{number % 7}", "10.0.1.1", 1024, 80 + number % 3))
        for number in range(600)
    )
    capture.write_bytes(maker.pcap_bytes(packets))
    (folder / "talkers.gsql").write_text(QUERY, encoding="utf-8")
    return capture


def expected_rows() -> list[tuple[int, ...]]:
    """The rows of `QUERY` over the capture, counted by hand: tb, last byte of srcIP, destPort, packets, bytes."""
    groups: dict[tuple[int, int, int], int] = {}
    for number in range(600):
        key = (BEGIN + number // 10) // 10, number % 7, 80 + number % 3
        groups[key] = groups.get(key, 0) + 1
    size = len(maker.tcp("10.0.0.1", "10.0.1.1", 1024, 80))
    return sorted((*key, count, count * size) for key, count in groups.items() if count > 1)


def rows_of(table: Path) -> list[tuple[int, ...]]:
    """Reads a CSV of `QUERY` in the form of `expected_rows`."""
    rows = csv.DictReader(io.StringIO(table.read_text(encoding="utf-8")))
    columns = ("tb", "srcIP", "destPort", "packets", "bytes")
    return sorted(tuple(int(row[name].rpartition(".")[2]) for name in columns) for row in rows)


def check_light(place: Installation, version: str) -> None:
    """Uses what every installation has: the commands of the light core, and the rows of a query."""
    capture = write_capture(place.folder)
    assert place.lowwater("--version").startswith(f"lowwater {version}\n")
    facts = json.loads(place.lowwater("inspect", capture, "--format", "json"))
    assert facts["captures"][0]["interfaces"][0]["packets"] == 600, facts
    query = place.folder / "talkers.gsql"
    assert "1 file, no error" in place.lowwater("check", query)
    assert "LFTA" in place.lowwater("explain", query)
    rest = ("--capture", f"main1={capture}", "--out", "rows")
    place.lowwater("run", query, *rest)
    assert rows_of(place.folder / "rows" / "talkers.csv") == expected_rows()
    files = place.imported("lowwater", "lowwater_review", "lowwater_expectations")
    assert all(str(place.folder) in file for file in files.values()), files


def check_absent(place: Installation) -> None:
    """Asks an installation without extras for what it has not: one message with the extra, and no traceback."""
    capture = ("--capture", f"main1={place.folder / 'a.pcap'}")
    said = place.lowwater("run", "talkers.gsql", *capture, "--out", "other", "--spark", "local[*]", code=1)
    assert "pip install 'lowwater[spark]', or add --spark none" in said and "Traceback" not in said, said
    said = place.lowwater("backfill", "--lake", "lake", code=1)
    assert "pip install 'lowwater[quality]'" in said and "Traceback" not in said, said
    said = place.lowwater("doctor", COLUMNS="80")
    assert "none: the light core" in said
    assert "\nextras: pip install 'lowwater[spark,quality,serve,editor,s3,metrics,airflow]'\n" in said, "to be copied"


def check_spark(place: Installation) -> None:
    """Runs the query on Spark, from one installation without a checkout: rows as counted."""
    query, capture = place.folder / "talkers.gsql", place.folder / "a.pcap"
    place.lowwater("run", query, "--capture", f"main1={capture}", "--out", "spark", "--spark", "local[*]")
    assert rows_of(place.folder / "spark" / "talkers.csv") == expected_rows()


def make_lake(place: Installation) -> Path:
    """Reads the capture into a lake, with the query as its query set; the light core does it. Returns the lake."""
    lake = place.folder / "lake"
    if not lake.exists():
        lake.mkdir()
        (lake / "lowwater.toml").write_text("", encoding="utf-8")
        place.lowwater("ingest", "--lake", lake, "--link", "main1", place.folder / "a.pcap")
        (lake / "queries").mkdir()
        shutil.copy(place.folder / "talkers.gsql", lake / "queries")
    return lake


def check_lake(place: Installation) -> None:
    """Runs the interval of the capture, audits and publishes it, and reads the rows of the table: as counted."""
    lake = make_lake(place)
    place.lowwater("backfill", "--lake", lake, "--queries", lake / "queries", "--through-end")
    said = place.lowwater("rows", "talkers", "--lake", lake, "--format", "csv")
    # A note says that the hour is incomplete.
    table = [line for line in said.splitlines() if re.match(r"(tb|\d+),", line)]
    (place.folder / "rows.csv").write_text("\n".join(table))
    assert rows_of(place.folder / "rows.csv") == expected_rows()
    pages = list((lake / "reports").rglob("*.html"))
    assert any(page.stem == "queries" for page in pages), "the audit left no page of its suites"


def check_quality(place: Installation) -> None:
    """Imports the suites with Great Expectations."""
    code = "import great_expectations; from lowwater_expectations import pages as p; "
    code += "print(len(p.SUITES), len(p.render_suites()))"
    suites, rendered = map(int, run([place.bin / "python", "-W", "ignore", "-c", code], place.folder).split()[-2:])
    assert suites and rendered


def check_metrics(place: Installation) -> None:
    """Writes the metrics of a lake."""
    place.lowwater("metrics", "--lake", make_lake(place), "--textfile", "lake.prom")
    text = (place.folder / "lake.prom").read_text(encoding="utf-8")
    assert re.search(r'^lowwater_\w+\{.*link="main1".*\} \S+$', text, re.MULTILINE), text


def check_serve(place: Installation) -> None:
    """Asks the web server for the review pages of a lake."""
    lake = make_lake(place)
    with place.running("serve", "--lake", lake, "--queries", lake / "queries", "--port", "0") as server:
        assert server.stdout is not None
        line = next((line for line in server.stdout if "http://" in line), "")
        address = re.search(r"http://127\.0\.0\.1:\d+\S*", line)
        assert address, line
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())  # the address logs in
        with browser.open(address[0].rstrip("."), timeout=300) as answer:
            assert "main1" in answer.read().decode()


def check_s3(place: Installation) -> None:
    """Makes a lake in an object store out of a capture, and reads its ledger back."""
    with s3_server(place.folder / "server") as port:
        store = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_REGION": "us-east-1"}
        store |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        lake = ("--lake", f"s3://{BUCKET}/lake")
        capture = shutil.copy(place.folder / "a.pcap", place.folder / "main1.pcap")
        place.lowwater("init", capture, *lake, **store)
        place.lowwater("ingest", *lake, "--link", "main1", capture, **store)
        assert "main1" in place.lowwater("status", *lake, "--queries", place.folder, **store)


def check_airflow(place: Installation) -> None:
    """Lets an Airflow of one's own find the plugin by its entry point, and the DAGs by one line and by a bundle."""
    lake, home = make_lake(place), place.folder / "airflow"
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "lowwater.py").write_text("from lowwater_airflow.dags import *\n", encoding="utf-8")
    bundle = {"name": "lowwater", "classpath": "lowwater_airflow.bundle.LowwaterDags", "kwargs": {}}
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "LOWWATER_LAKE": str(lake),
    }
    code = """
import json, sys
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
from airflow import plugins_manager
from importlib.metadata import entry_points
found = {"plugins": [point.value for point in entry_points(group="airflow.plugins") if point.name == "lowwater"]}
found["loaded"] = [plugin["name"] for plugin in plugins_manager.get_plugin_info(["name"])]
bundles = list(DagBundlesManager().get_all_dag_bundles())
for bundle in bundles:
    bag = DagBag(dag_folder=str(bundle.path), bundle_path=bundle.path)
    found[bundle.name] = [sorted(bag.dags), {str(key): text for key, text in bag.import_errors.items()}]
print("FOUND", json.dumps(found))
"""
    bundles = [
        {"name": "mine", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
        bundle,
    ]
    settings["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = json.dumps(bundles)
    printed = run([place.bin / "python", "-c", code], place.folder, **settings)
    found = json.loads(printed.partition("FOUND ")[2].splitlines()[0])
    assert found["plugins"] == ["lowwater_airflow.views:LowwaterReview"], found
    assert "lowwater_review" in found["loaded"], found
    dags = [
        "capture_ingest",
        "keep_talkers",
        "lowwater_digest",
        "lowwater_ingest",
        "lowwater_maintain",
        "lowwater_verify",
    ]
    dags += ["replay_talkers"]
    assert found["mine"] == [dags, {}], found
    assert found["lowwater"] == [dags, {}], found


CHECKS: dict[str, tuple[Callable[[Installation], None], ...]] = {
    "": (check_absent,),
    "spark": (check_spark,),
    "quality": (check_quality, check_lake),
    "metrics": (check_metrics,),
    "serve": (check_serve,),
    "s3": (check_s3,),
    "spark,quality": (check_spark, check_lake),
    "airflow": (check_spark, check_lake, check_airflow),
    "all": (check_spark, check_lake, check_metrics, check_serve, check_s3, check_airflow),
}
"""Extras -> what is done with them, after `check_light`."""


def checks_of(extras: str) -> list[Callable[[Installation], None]]:
    """What is done with extras here: the check of an object store needs its server."""
    return [check for check in CHECKS[extras] if check is not check_s3 or PACKAGES.is_dir()]


def main() -> None:
    """Entry of `python -m tests.packaging.installed`."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.installed", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment; default this one")
    parser.add_argument("--extras", default="", choices=CHECKS, help="as airflow or all; default the light core")
    asked = parser.parse_args()
    from lowwater import __version__

    with tempfile.TemporaryDirectory(prefix="lowwater-installed-") as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        place = Installation(folder, wheel, filter(None, asked.extras.split(",")), asked.python)
        check_light(place, __version__)
        checks = checks_of(asked.extras)
        for check in checks:
            check(place)
        done = ", ".join(check.__name__.removeprefix("check_") for check in (check_light, *checks))
        print(place.lowwater("--version").replace("\n", "; "), f"{wheel.name} and {sdist.name}: {done}")


if __name__ == "__main__":
    main()
