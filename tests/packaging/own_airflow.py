"""The documents of Airflow, command by command: an Airflow of its own from the wheel, over SQLite or PostgreSQL.

`python -m tests.packaging.own_airflow [--database postgres]` prints the minutes to the first published hour. Nothing of
the checkout is on the path.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from lowwater.spark.server import free_port
from tests.packaging.installed import FOREIGN, ROOT, UV, Installation, build, run
from tests.postgres import postgres_server

PAGES = (("airflow.md", "own"), ("backfill.md", "airflow"))
"""Pages whose commands run, and the word behind `sh` of their blocks."""
DRIVERS = ("psycopg2-binary", "asyncpg")
DAGS = ("capture_ingest", "replay_flows")
MOST = 600.0
"""Seconds after which a step has hung."""


def blocks(page: str, word: str) -> Iterator[str]:
    """The commands of a page, block by block."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    yield from re.findall(rf"^```sh {word}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


class OwnAirflow:
    """Runs the commands in one shell after another, with one environment.

    Args:
        folder: where they run.
        programs: folder of the programs of the installation.
        database: address of Airflow's database; empty for the SQLite that Airflow makes.
    """

    def __init__(self, folder: Path, programs: Path, database: str) -> None:
        self.folder = folder
        self.address = f"http://127.0.0.1:{free_port()}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self.environment = kept | {
            "PATH": f"{programs}{os.pathsep}{kept['PATH']}",
            "AIRFLOW__API__PORT": self.address.rpartition(":")[2],
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
        }
        if database:
            self.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = database
        self._token = ""
        self._groups: list[int] = []

    def run(self, commands: str) -> str:
        """Runs commands; what they export stays."""
        script = f"set -eo pipefail\n{commands}\nenv -0 > exported\n"
        said = self.folder / "said.txt"
        with said.open("w") as file:  # not a pipe: what runs in the background would hold it open
            done = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._groups.append(done.pid)
            code = done.wait(MOST)
        text = said.read_text(errors="replace")
        assert code == 0, f"{commands}\n{text}\n{self._log()}"
        exported = (self.folder / "exported").read_text().split("\0")
        self.environment = dict(each.split("=", 1) for each in exported if "=" in each)
        return text

    def _log(self) -> str:
        log = self.folder / "airflow.txt"
        return "\n".join(log.read_text(errors="replace").splitlines()[-30:]) if log.exists() else ""

    def ask(self, path: str) -> Any:
        """Asks Airflow's interface as its user."""
        if not self._token:
            secret = self.folder / "airflow" / "simple_auth_manager_passwords.json.generated"
            body = {"username": "admin", "password": json.loads(secret.read_text())["admin"]}
            headers = {"Content-Type": "application/json"}
            with urlopen(Request(f"{self.address}/auth/token", json.dumps(body).encode(), headers), timeout=60) as got:
                self._token = json.load(got)["access_token"]
        request = Request(f"{self.address}{path}", headers={"Authorization": f"Bearer {self._token}"})
        with urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        return json.loads(text) if "json" in answer.headers.get("Content-Type", "") else text

    def ended(self, dag: str, runs: int) -> list[dict[str, Any]]:
        """Waits until that many runs of a DAG have ended."""
        begun = time.monotonic()
        while True:
            found = list(self.ask(f"/api/v2/dags/{dag}/dagRuns?limit=100")["dag_runs"])
            if len(found) >= runs and {run["state"] for run in found} <= {"success", "failed"}:
                return found
            assert time.monotonic() - begun < MOST, f"{dag}: {[run['state'] for run in found]}\n{self._log()}"
            time.sleep(1)

    def free(self, dag: str) -> None:
        """Waits until Airflow has seen that the backfills of a DAG have ended: it takes another one only then."""
        begun = time.monotonic()
        while any(not each["completed_at"] for each in self.ask(f"/api/v2/backfills?dag_id={dag}")["backfills"]):
            assert time.monotonic() - begun < MOST, f"a backfill of {dag} did not end\n{self._log()}"
            time.sleep(1)

    def stop(self) -> None:
        """Ends everything that the commands have left."""
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for group in self._groups:
                try:
                    os.killpg(group, sent)
                except ProcessLookupError:
                    continue
            time.sleep(3)


def follow(airflow: OwnAirflow, begun: float) -> list[str]:
    """Follows the pages; returns what is to be told."""
    (page, word), (further, mark) = PAGES
    told = []
    for commands in blocks(page, word):
        said = airflow.run(commands)
    told.append(f"{(time.monotonic() - begun) / 60:.1f} min from nothing to the first hour, with installation")
    assert "done" in said, said
    notes = [run["note"] or "" for run in airflow.ended("keep_flows", 1)]
    assert all(note.startswith("Look: ") for note in notes), notes
    assert "was never switched on" not in airflow.ask("/lowwater/index.html")
    states = airflow.run("lowwater status --lake lake")
    assert states.count("done") >= 4 and "incomplete" in states, states
    # As somebody does who takes the other way: a lake in which nothing is ingested and nothing has run.
    airflow.run("airflow dags pause keep_flows --yes; airflow dags pause lowwater_ingest --yes")
    airflow.run("find lake -mindepth 1 -maxdepth 1 ! -name lowwater.toml -exec rm -r {} +")
    first, days, again = blocks(further, mark)
    airflow.run(first)
    for dag in DAGS:
        runs = airflow.ended(dag, 3)
        assert {run["state"] for run in runs} == {"success"}, [run["note"] for run in runs]
    states = airflow.run("lowwater status --lake lake")
    assert "incomplete" in states and re.search(r"\bdone\b|provisional", states), states
    airflow.run(days)
    (day,) = airflow.ended("backfill_flows", 1)
    assert re.search(r" done|incomplete|provisional", day["note"]), day["note"]
    airflow.run('sed -i \'/^.links.main2/,/^skew/ s/^skew = "[^"]*"/skew = "1500ms"/\' lake/lowwater.toml')
    airflow.free("replay_flows")
    airflow.run(again)
    time.sleep(5)  # the runs are there, and are of before
    runs = airflow.ended("replay_flows", 3)
    assert {run["state"] for run in runs} == {"success"}, [run["note"] for run in runs]
    assert "stale" not in airflow.run("lowwater plan --lake lake --from 2026-01-01 --to 2026-01-01T03:00Z")
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry of `python -m tests.packaging.own_airflow`."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.own_airflow", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--here", action="store_true", help="the programs of this environment, not the wheel")
    chosen = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lowwater-own-")))
        port = 0
        if chosen.database == "postgres":
            port = stack.enter_context(postgres_server("airflow", "secret", "airflow"))
        database = f"postgresql+psycopg2://airflow:secret@127.0.0.1:{port}/airflow" if port else ""
        begun = time.monotonic()
        programs = Path(sys.executable).parent
        if not chosen.here:
            programs = Installation(folder, build(folder)[1], ["airflow"]).bin
            if port:
                run([UV, "pip", "install", "--quiet", "--python", programs / "python", *DRIVERS], folder)
        (folder / "work").mkdir()
        airflow = OwnAirflow(folder / "work", programs, database)
        if chosen.here:  # a checkout has query sets of its own
            airflow.environment["LOWWATER_QUERIES"] = str(folder / "work" / "none")
        stack.callback(airflow.stop)
        for line in follow(airflow, begun):
            print(f"{chosen.database}: {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
