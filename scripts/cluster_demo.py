"""`make cluster`: the demo on a Spark cluster whose workers share only an S3 server, one of which is killed meanwhile.

Starts the S3 server, a master, three workers and an Airflow; runs the DAGs of the demo, and prints the tables of `make
demo`; then replays the same captures in one process over a folder, and compares every row. It stops what it started.
"""

from __future__ import annotations

import argparse
import hashlib
import os
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
from lowwater_generator import GeneratedCapture, generate
from machines import Cluster, ClusterError, environment

from lowwater.cli.report import show_report
from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.layout import open_lake
from lowwater.lake.tables import fetch_rows, open_table, table_dataset
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


def main() -> int:
    """Runs the demo on a cluster; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    console, progress = open_console(), Progress()
    shutil.rmtree(VAR, ignore_errors=True)
    VAR.mkdir(parents=True)
    with progress.stage("generate", f"{HOURS} hours of {len(LINKS)} links"):
        captures = generate(VAR / "captures", START, HOURS, LINKS, rate=4.0, seed=7)
    text = settings().replace('"../captures/', f'"{VAR}/captures/').replace('"../../queries/', f'"{QUERIES}/')
    with progress.stage("local", "the same captures in one process"):
        expected = _tables_of_one_process(VAR / "lake", text, captures)
    with progress.stage("cluster", "S3 server, master and three workers"):
        machines = Cluster(VAR / "machines")
        try:
            machines.start()
        except ClusterError:
            machines.stop()
            raise
    lake = machines.lake("demo")
    home = Home(VAR / "airflow", lake, QUERIES, spark=machines.master)
    try:
        with environment(machines.environment()):
            paths.write(lake / "lowwater.toml", text.encode())
            open_lake(lake)
            home.prepare()
            with progress.stage("airflow", "start"):
                home.start()
                home.ready(*DAGS)
            with progress.stage("backfill", f"of {' and '.join(DAGS)} by Airflow"):
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
            left = [*paths.files_below(lake / "_work")]
            return _compare(expected, _tables(lake), killer.killed, left)
    finally:
        home.stop()
        machines.stop()


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
    alone = {**os.environ, "LOWWATER_SPARK_MASTER": "none"}
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HomeError(f"lowwater {arguments[0]} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")


def _tables(lake: PurePath) -> Mapping[str, tuple[int, str]]:
    """Number of rows and digest of every published table, whatever the order of its rows."""
    facts = {}
    for name in TABLES:
        path = lake / "tables" / name
        table = open_table(path)
        stored = [] if table is None else fetch_rows(path, table_dataset(path, table)).to_table().to_pylist()
        rows = sorted(map(repr, stored))
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
