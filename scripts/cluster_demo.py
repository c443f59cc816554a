"""`make cluster`: the demo on a Spark cluster whose workers share only an S3 server, one of which is killed meanwhile.

Starts the S3 server, a master, three workers and an Airflow; runs the DAGs of the demo, and prints the tables of `make
demo`; then replays the same captures in one process over a folder, and compares every row. It stops what it started.

With `--airflow`, drivers live on workers, and Airflow with all of its tasks is killed while one of them runs, and
started again: the next tries of the tasks must find their drivers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path, PurePath

from demo import (
    DAGS,
    END,
    HOURS,
    LINKS,
    START,
    backfill,
    explain_failures,
    settings,
    show_captures,
    show_published,
    show_violations,
)
from home import ROOT, Home, HomeError
from machines import Cluster, ClusterError, environment

from lowwater.capture.generate import GeneratedCapture, generate
from lowwater.cli.report import show_report
from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.tables import open_table
from lowwater.replay.progress import Progress
from lowwater.storage import paths
from lowwater.terminal import open_console

VAR = ROOT / "var" / "cluster"
QUERIES = ROOT / "queries"
TABLES = ("flows", "full_flow")


class WorkerKiller(threading.Thread):
    """Kills the worker of the first executor that computes, and starts that worker again.

    Attributes:
        killed: name of the worker; empty before.
    """

    def __init__(self, machines: Cluster) -> None:
        super().__init__(daemon=True)
        self.killed = ""
        self._machines = machines
        self._over = threading.Event()

    def run(self) -> None:
        """Waits for an executor with Python processes: then tasks run."""
        while not self._over.wait(0.2):
            names = self._machines.computing()
            if names:
                self._machines.kill(names[0])
                self.killed = names[0]
                self._machines.revive(names[0])
                self._over.wait()  # the worker dies with the thread that started it
                return

    def end(self) -> None:
        """Stops waiting."""
        self._over.set()
        self.join()


class AirflowKiller:
    """Kills Airflow once a driver runs on a worker, and starts it again.

    Attributes:
        killed: what was killed; empty before.
        drivers: drivers that ran when Airflow was killed, and after it.
    """

    def __init__(self, home: Home, machines: Cluster) -> None:
        self.killed = ""
        self.drivers: tuple[list[int], list[int]] = [], []
        self._home, self._machines = home, machines

    def __call__(self) -> None:
        """Looks for a driver; to be called often."""
        if not self.killed and (found := self._machines.drivers()):
            self._home.kill()
            self.killed = "Airflow"
            self.drivers = [*found], self._machines.drivers()
            self._home.start()

    def outlived(self) -> bool:
        """Whether a driver went on without Airflow."""
        return bool({*self.drivers[0]} & {*self.drivers[1]})


QUICKLY = {
    "orphaned_tasks_check_interval": 10,
    "task_instance_heartbeat_timeout": 30,
    "scheduler_health_check_threshold": 10,
}
"""Seconds after which a new scheduler takes the tasks of a dead one for lost; by itself Airflow waits for minutes."""


def main() -> int:
    """Runs the demo on a cluster; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--airflow", action="store_true", help="kill Airflow instead of a worker")
    restarts = parser.parse_args().airflow
    console, progress = open_console(), Progress()
    shutil.rmtree(VAR, ignore_errors=True)
    VAR.mkdir(parents=True)
    with progress.stage("generate", f"{HOURS} hours of {len(LINKS)} links"):
        captures = generate(VAR / "captures", START, HOURS, LINKS, rate=4.0, seed=7)
    text = settings().replace('"../captures/', f'"{VAR}/captures/').replace('"../../queries/', f'"{QUERIES}/')
    with progress.stage("local", "the same captures in one process"):
        expected = _tables_of_one_process(VAR / "lake", text, captures)
    with progress.stage("cluster", "S3 server, master and three workers"):
        machines = Cluster(VAR / "machines", takes_drivers=restarts, memory="2560m" if restarts else "")
        try:
            machines.start()
        except ClusterError:
            machines.stop()
            raise
    lake = machines.lake("demo")
    home = Home(VAR / "airflow", lake, QUERIES, more={"scheduler": QUICKLY} if restarts else {})
    try:
        with environment(machines.environment() | (_drivers_on_workers(machines) if restarts else {})):
            paths.write(lake / "lowwater.toml", text.encode())
            open_lake(lake)
            home.prepare()
            with progress.stage("airflow", "start"):
                home.start()
                home.ready(*DAGS)
            killer: WorkerKiller | AirflowKiller
            with progress.stage("backfill", f"of {' and '.join(DAGS)} by Airflow"):
                if restarts:
                    killer = AirflowKiller(home, machines)
                    states = backfill(home, console, killer)
                else:
                    killer = WorkerKiller(machines)
                    killer.start()
                    states = backfill(home, console)
                    killer.end()
            show_captures(console, captures)
            show_published(console, home)
            show_violations(console, home)
            console.print("\nAudited", style="bold")
            show_report(lake, None, QUERIES)
            if set(states.values()) != {"success"}:
                return explain_failures(console, home)
            if isinstance(killer, AirflowKiller) and not (killer.outlived() and _found(home)):
                print(f"no driver outlived Airflow: {killer.drivers}; the logs of tasks are in {home.folder / 'logs'}")
                return 1
            left = [*paths.files_below(lake / "_work"), *paths.files_below(lake / "_drivers")]
            return _compare(expected, _tables(lake), killer.killed, left)
    finally:
        home.stop()
        machines.stop()


def _drivers_on_workers(machines: Cluster) -> Mapping[str, str]:
    """The environment of an Airflow whose drivers live on the cluster."""
    extra = {"deploy-mode": "cluster", "rest": machines.rest}
    connection = {"conn_type": "spark", "host": machines.master, "extra": json.dumps(extra)}
    return {"AIRFLOW_CONN_LOWWATER_SPARK": json.dumps(connection), "LOWWATER_REPLAY__MEMORY": "1g"}


def _found(home: Home) -> list[str]:
    """The lines of the logs of tasks that found the driver of an earlier try."""
    logs = [log for log in (home.folder / "logs").rglob("*.log") if log.is_file()]
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines() if "is found" in line]
    print("\n".join(["", *lines]))
    return lines


def _tables_of_one_process(lake: Path, text: str, captures: list[GeneratedCapture]) -> Mapping[str, tuple[int, str]]:
    lake.mkdir()
    (lake / "lowwater.toml").write_text(text, encoding="utf-8")
    hours = [capture for capture in captures if capture.start < END]
    for link in LINKS:
        files = [str(capture.path) for capture in hours if capture.link == link]
        _run("ingest", "--lake", str(lake), "--link", link, *files)
    span = "--from", format_instant(START), "--to", format_instant(END)
    _run("backfill", "--lake", str(lake), "--queries", str(QUERIES), *span)
    return _tables(lake)


def _run(*arguments: str) -> None:
    command = [sys.executable, "-m", "lowwater.cli.main", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HomeError(f"lowwater {arguments[0]} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")


def _tables(lake: PurePath) -> Mapping[str, tuple[int, str]]:
    """Number of rows and digest of every published table, whatever the order of its rows."""
    facts = {}
    for name in TABLES:
        table = open_table(lake / "tables" / name)
        rows = sorted(map(repr, table.to_pyarrow_table().to_pylist())) if table is not None else []
        facts[name] = len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()
    return facts


def _compare(
    expected: Mapping[str, tuple[int, str]], ours: Mapping[str, tuple[int, str]], killed: str, left: list[PurePath]
) -> int:
    print(f"\nKilled while it computed: {killed or 'nothing'}")
    for name, (rows, digest) in ours.items():
        same = "as in one process" if expected[name] == (rows, digest) else f"NOT {expected[name]}"
        print(f"tables/{name}: {rows:,} rows, sha256 {digest[:16]}, {same}")
    print(f"Files left in _work/: {len(left)}")
    return 0 if ours == expected and killed and not left else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (LowwaterError, HomeError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
