"""A real Airflow over a lake of its own: SQLite, LocalExecutor, started once for the tests of a module."""

from __future__ import annotations

import configparser
import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from lowwater_generator import generate

from lowwater.config import load_config
from lowwater.instants import HOUR, format_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from tests.replay.support import END, HOURS, LINKS, ROOT, START, listening, wait

LATE_HOURS = 2
PATIENCE = 10.0
"""Seconds that a run waits for a link that does not report."""
FLOWS = """
DEFINE {{ query_name '{name}'; {more} }}
SELECT tb, protocol, srcIP, destIP, srcPort, destPort, count(*) AS cnt, sum(len) AS bytes
FROM {links}.DataProtocol
GROUP BY time/10 AS tb, protocol, srcIP, destIP, srcPort, destPort"""
JOIN = """
DEFINE {{ query_name '{name}'; }}
SELECT tb, protocol, srcIP, destIP, srcPort, destPort, l.cnt AS cnt1, r.cnt AS cnt2
FROM {left} l FULL JOIN {right} r USING (tb, protocol, srcIP, destIP, srcPort, destPort)"""
LINK = """
[links.{name}]
captures = "../captures/{name}/{name}_{pattern}.pcap"
rotation = "1h"
since = "{since}"
until = "{until}"
policy = "{policy}"
"""


Asked = list[tuple[str, str, dict[str, str]]]
"""Path, authorization and body of what a webhook was asked."""

CANARIES = {
    "AIRFLOW_CONN_HOOK": '{{"conn_type": "http", "host": "{hook}", "password": "canary-of-the-hook"}}',
    "AWS_ACCESS_KEY_ID": "AKIACANARY",
    "AWS_SECRET_ACCESS_KEY": "canary-of-the-store",
    "LOWWATER_SPARK_SECRET": "canary-of-spark",
    "PGPASSWORD": "canary-of-the-database",
}
"""Secrets in the environment of the platform: nothing that Airflow keeps or shows holds one."""

LOG = """
[links.log]
kind = "csv"
schemas = "log.schema"
captures = "../captures/log/log_%Y%m%dT%H%M%SZ.csv"
rotation = "1h"
since = "{since}"
until = "{until}"
"""
SCHEMA = "PROTOCOL LOG { uint time get_csv_uint (increasing); IP src get_csv_ip; uint bytes get_csv_uint; }"
LOGGED = """
DEFINE { query_name 'logged'; }
SELECT tb, src, count(*) AS cnt, sum(bytes) AS bytes FROM log.LOG GROUP BY time/10 AS tb, src"""

HANDS_OVER = """DEFINE { query_name 'hosts'; }
SELECT tb, srcIP, count(*) AS cnt, running_sum(len) AS total
FROM main1.IPV4 GROUP BY time/600 AS tb, srcIP CLOSING_WHEN count(*) = 0
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
BEAT_SCHEMA = "PROTOCOL BEAT { uint time get_csv_uint (increasing); uint value get_csv_uint; }"
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
        assets=whole("pair"),
        default_partition_mapper=RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow()),
    ),
):

    @task
    def consume_hours():
        return "a day"

    consume_hours()
"""


def script(name: str) -> ModuleType:
    """A module of `scripts/`, which is no package."""
    spec = importlib.util.spec_from_file_location(f"lowwater_script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"


def prepare(home: Any, own: Path) -> None:
    """Prepares an Airflow that reads its DAG files, and those of a folder, once, and sees soon that a wait is over.

    No test changes the files, and each reading takes a process. The token of a Spark beside it is one that an address
    cannot have as it is.
    """
    home.prepare()
    if home.spark:
        file = home.folder / "spark.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "password": "a/b=%2F"}), encoding="utf-8")
    config = configparser.RawConfigParser()
    config.read(home.folder / "airflow.cfg")
    config["dag_processor"] = {"min_file_process_interval": "3600"}
    bundles = [{"name": "dags-folder", "classpath": LOCAL, "kwargs": {}}]
    bundles.append({"name": "own", "classpath": LOCAL, "kwargs": {"path": str(own)}})
    config["dag_processor"]["dag_bundle_config_list"] = json.dumps(bundles)
    config["scheduler"] = {"trigger_timeout_check_interval": "3"}
    with (home.folder / "airflow.cfg").open("w", encoding="utf-8") as file:
        config.write(file)


@dataclass(frozen=True)
class Platform:
    """An Airflow that runs, its lake, where the captures of its links lie, and what its webhook was told."""

    home: Any
    lake: Path
    captures: Path
    asked: Asked

    @property
    def told(self) -> list[dict[str, str]]:
        return [body for *_, body in self.asked]

    def backfill(self, dag: str, first: int, last: int, **options: Any) -> int:
        """Backfills the runs from the interval that begins at `first` to that at `last`, ns; returns its id."""

        def accepted() -> int:
            try:
                return int(self.home.backfill(dag, format_instant(first), format_instant(last), **options))
            except RuntimeError as error:  # Airflow sees only once in a while that an earlier one has ended
                if "already a running backfill" not in str(error):
                    raise
                return 0

        made = wait(accepted, 400, 2.0)
        assert made is not None
        return int(made)

    def act(self, address: str) -> str:
        """Does an act of the review pages as a person does: reads the page, sends its form; returns what is said.

        SQLite may refuse a backfill while a scheduler writes. Airflow ends what is there of it after two minutes, and a
        person tries again.
        """
        url, told = f"{self.home.address}/lowwater/act/{address}", ""

        def done() -> str:
            nonlocal told
            page = self._page(url)
            fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
            told = page.partition("<main")[2]
            if fields.get("seal"):
                told = self._page(url, urlencode(fields).encode()).partition("<main")[2]
            found = re.search(r'<p class="verdict s-done" role="status">(.*)</p>', told)
            busy = re.search("running backfill|goes on: wait|answered 503", told)
            assert found is not None or busy is not None, told
            return found[1] if found else ""

        said = wait(done, 240, 5.0)
        assert said is not None, told
        return str(said)

    def _page(self, url: str, form: bytes | None = None) -> str:
        headers = {"Authorization": f"Bearer {self.home._token()}", "Sec-Fetch-Site": "same-origin"}
        try:
            with urlopen(Request(url, form, headers), timeout=300) as answer:
                return str(answer.read().decode())
        except HTTPError as error:
            return str(error.read().decode())

    def finish(self, dag: str, runs: int, seconds: float = 400.0) -> dict[str, str]:
        """Waits until that many runs of a DAG have ended; state by begin of the interval."""

        def ended() -> dict[str, str] | None:
            found = {run["logical_date"][:19] + "Z": run["state"] for run in self.home.runs(dag)}
            done = len(found) >= runs and set(found.values()) <= {"success", "failed"}
            return found if done else None

        found = wait(ended, seconds, 2.0)
        assert found is not None, f"{dag} did not end: {[(t['task_id'], t['state']) for t in self.home.tasks(dag)]}"
        return found

    def states(self, dag: str, start: int) -> list[str]:
        """The states of the tasks of one run, in no order; empty before it exists."""
        begin = format_instant(start)[:19]
        return [task["state"] for task in self.home.tasks(dag) if task["logical_date"][:19] == begin]

    def task(self, dag: str, start: int, task: str) -> dict[str, Any]:
        """One task instance."""
        begin = format_instant(start)[:19]
        (found,) = [
            each for each in self.home.tasks(dag) if each["task_id"] == task and each["logical_date"][:19] == begin
        ]
        return dict(found)


def words_of(note: str) -> str:
    """What a note says to who reads it: without the addresses to which its words lead."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", note)


def asset_events(home: Any, asset: str) -> list[dict[str, Any]]:
    """The events of an asset, of an Airflow that runs in a home."""

    def shown() -> Any:
        try:
            return home.ask("GET", "assets/events?limit=100")
        except RuntimeError as error:
            # Airflow 3.3 shows no event while a run that one of them made has no `start_date` yet.
            if ": 500 " not in str(error):
                raise
            return None

    answer = wait(shown, 60, 1.0)
    assert answer is not None, "Airflow shows no events"
    return [event for event in answer["asset_events"] if event["name"] == asset]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Airflow over three links with captures that are ingested, and one with a missing one."""
    folder = tmp_path_factory.mktemp("platform")
    (folder / "lake").mkdir()
    _captures(folder / "captures")
    _queries(folder / "queries")
    _settings(folder / "lake" / "lowwater.toml")
    _ingest(folder / "lake", folder / "captures")
    module = script("home")
    home = module.Home(folder / "airflow", folder / "lake", folder / "queries", spark="local[2]")
    with webhook() as (hook, asked), pytest.MonkeyPatch.context() as planted:
        for name, value in CANARIES.items():
            planted.setenv(name, value.format(hook=f"{hook}/told"))
        try:
            (folder / "own").mkdir()
            (folder / "own" / "consumer.py").write_text(CONSUMER, encoding="utf-8")
            prepare(home, folder / "own")
            home.start()
            sets = [f"replay_{name}" for name in ("pair", "late", "careful", "chain", "beat")]
            home.ready("lowwater_digest", "lowwater_maintain", "day_of_beats", "day_of_hours", *sets, slots=2)
            yield Platform(home, folder / "lake", folder / "captures", asked)
        finally:
            home.stop()
    assert not home.running()


@contextmanager
def webhook() -> Iterator[tuple[str, Asked]]:
    """Its address, and what it is asked; a path of a number is its answer."""
    asked: Asked = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers.get("Authorization", ""), body))
            self._answer()

        def do_GET(self) -> None:  # what a client that follows a redirect sends
            asked.append((self.path, self.headers.get("Authorization", ""), {}))
            self._answer()

        def _answer(self) -> None:
            code = int(self.path[1:]) if self.path[1:].isdigit() else 204
            self.send_response(code)
            if code != 204:
                self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return None

    with listening(ThreadingHTTPServer(("127.0.0.1", 0), Hook)) as server:
        yield f"http://127.0.0.1:{server.server_port}", asked


@pytest.fixture
def hook() -> Iterator[tuple[str, Asked]]:
    with webhook() as found:
        yield found


def _captures(folder: Path) -> None:
    generate(folder, START, HOURS, LINKS, rate=2.0, seed=7)
    generate(folder, START, LATE_HOURS, ["late"], rate=0.5, seed=9)
    _log(folder / "log")
    (folder / "missing").mkdir()
    for path in sorted((folder / "late").glob("*T0[1-9]*")):  # its first hour is there, the second comes later
        shutil.move(path, folder / "missing" / path.name)


def _ingest(lake: Path, captures: Path) -> None:
    """Ingests what is there in this process: each task of Airflow takes seconds to begin."""
    opened, config = open_lake(lake), load_config(lake)
    for link, hours in (*dict.fromkeys((*LINKS, "log"), HOURS).items(), ("late", 1)):
        for hour in range(hours):
            ingest(opened, link, sorted((captures / link).glob(f"*T{hour:02}*")), config)
    beat(lake, captures, 0)


def beat(lake: Path, folder: Path, half: int) -> None:
    """Ingests the records of half a day, one each hour."""
    begin, end = START + half * 12 * HOUR, START + (half + 1) * 12 * HOUR
    path = folder / f"beat{half}.csv"
    lines = [f"{at // 10**9},{half}\n" for at in range(begin, end, HOUR)]
    path.write_text("".join(["time,value\n", *lines]), encoding="ascii")
    ingest(open_lake(lake), "beat", [path], load_config(lake), (begin, end))


def _log(folder: Path) -> None:
    """Records of a link that has no packets, a file an hour, as a program writes them."""
    folder.mkdir()
    for hour in range(HOURS):
        begin = START + hour * HOUR
        lines = [f"{begin // 10**9 + at * 4},10.0.0.{at % 7},{at * 31 % 1500}\n" for at in range(900)]
        path = folder / f"log_{format_instant(begin).replace('-', '').replace(':', '')}.csv"
        path.write_text("".join(["time,src,bytes\n", *lines]), encoding="ascii")


def _queries(folder: Path) -> None:
    folder.mkdir()
    pair = [("flows", "[both]", ""), ("left", "[both]", "visibility 'internal';"), ("right", "main2", "")]
    _query_set(folder / "pair.gsql", pair, JOIN.format(name="joined", left="left", right="right"), LOGGED)
    _query_set(folder / "late.gsql", [("late_flows", "late", "")])
    _query_set(folder / "careful.gsql", [("careful_flows", "control", "")])
    (folder / "chain.gsql").write_text(HANDS_OVER, encoding="utf-8")
    (folder / "beat.gsql").write_text(BEATS, encoding="utf-8")


def _query_set(path: Path, flows: Sequence[tuple[str, str, str]], *others: str) -> None:
    texts = [FLOWS.format(name=name, links=links, more=more) for name, links, more in flows]
    path.write_text(";\n".join([*texts, *others]) + "\n", encoding="utf-8")


def _settings(path: Path) -> None:
    text = '[sets]\nboth = ["main1", "control"]\n'
    text += f'\n[replay]\npatience = "{PATIENCE:.0f}s"\n\n[query_sets.late]\nprocesses = "each"\n'
    text += '\n[query_sets.chain]\n\n[query_sets.beat]\ninterval = "12h"\n'
    text += (
        '\n[query_sets.careful]\napproval = true\ndeadline = "1s"\n\n[notify]\nconnection = "hook"\ndigest = "never"\n'
    )
    text += '\n[schedule]\nevery = "1d"\nmaintain = "never"\nlook_back = "36500d"\n'
    for name in (*LINKS, "late"):
        text += LINK.format(
            name=name,
            pattern="%Y%m%dT%H%M%SZ",
            since=format_instant(START),
            until=format_instant(END if name != "late" else START + LATE_HOURS * (END - START) // HOURS),
            policy="exclude" if name == "control" else "fail",
        )
    text += LOG.format(since=format_instant(START), until=format_instant(END))
    text += BEAT.format(since=format_instant(START), until=format_instant(START + 24 * HOUR))
    path.with_name("log.schema").write_text(SCHEMA, encoding="utf-8")
    path.with_name("beat.schema").write_text(BEAT_SCHEMA, encoding="utf-8")
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of `plugins/`, as Airflow puts it there."""
    monkeypatch.syspath_prepend(str(ROOT / "plugins"))
