"""`make endurance-cluster`: intervals on a cluster, with a kill at a random instant of each, beside a quiet run.

The victim of an interval is drawn: a worker with all of its processes, an executor, the driver, the task above it, the
master, or the way to the S3 server. What died is started again, and the interval is tried again, as the retries of
Airflow do. Then its rows are those of a quiet run in one process, and no staging is left. Each interval is a line of
JSON in the ledger; a run goes on behind the last one, and ends with the counts of all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import psutil
from demo import LINK
from endurance import SETTINGS
from home import ROOT
from machines import Cluster, ClusterError, cluster, environment

from lowwater.capture.generate import generate
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.tables import open_table
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath

START = parse_instant("2026-01-01T00:00:00Z")
LINKS = ("main1", "main2", "control")
QUERY_SET = "demo"
TABLES = ("flows", "full_flow")
VICTIMS = ("worker", "executor", "driver", "task", "master", "s3")
LATEST = 25.0
"""Latest time of a kill after the task has started, s."""
TRIES = 8
"""Times that an interval is tried."""
AWAY = 3.0
"""Longest time for which a part of the cluster is away, s."""
TASK = """\
import sys
sys.path.insert(0, {plugins!r})
from lowwater_airflow.child import Child
Child("replay", {arguments!r}).run()
"""
"""The task of Airflow without Airflow: the process above the driver."""


@dataclass(frozen=True)
class Run:
    """The folders of a run.

    Attributes:
        folder: folder of everything.
        hours: intervals of the source; a run of more intervals begins again with a new lake.
        chance: draws victims and instants.
    """

    folder: Path
    hours: int
    chance: random.Random

    @property
    def ledger(self) -> Path:
        """A line for each interval."""
        return self.folder / "ledger.jsonl"

    @property
    def queries(self) -> Path:
        """Folder of the one query set."""
        return self.folder / "queries"

    def source(self) -> Path:
        """Returns the lake with every packet and the rows of a quiet run in one process."""
        lake = self.folder / "quiet"
        if lake.exists():
            return lake
        begun = self.folder / "begun"
        shutil.rmtree(begun, ignore_errors=True)
        shutil.rmtree(self.folder / "packets", ignore_errors=True)
        begun.mkdir(parents=True)
        self.queries.mkdir(exist_ok=True)
        shutil.copy(ROOT / "queries" / f"{QUERY_SET}.gsql", self.queries)
        generate(self.folder / "captures", START, self.hours, LINKS, 0.5, seed=7)
        since, until = format_instant(START), format_instant(START + self.hours * HOUR)
        kinds = {name: "publish" if name == "control" else "fail" for name in LINKS}
        links = "".join(LINK.format(name=name, since=since, until=until, policy=kinds[name]) for name in LINKS)
        (begun / "lowwater.toml").write_text(SETTINGS + links, encoding="utf-8")
        command("ingest", "--lake", begun)
        shutil.copytree(begun, self.folder / "packets")
        command("backfill", "--lake", begun, "--queries", self.queries, "--from", since, "--to", until)
        begun.rename(lake)
        return lake


def command(verb: str, *options: object) -> None:
    """Runs a command of the command line.

    Raises:
        ClusterError: it failed.
    """
    line = [sys.executable, "-m", "lowwater.cli.main", verb, *map(str, options)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"lowwater {verb} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")


def upload(source: Path, lake: ObjectPath) -> None:
    """Copies a lake into the store, the logs of its tables last."""
    files = sorted((path for path in source.rglob("*") if path.is_file()), key=lambda path: "_delta_log" in path.parts)
    for file in files:
        paths.send(file, 0, None, lake / file.relative_to(source).as_posix())


def rows(lake: PurePath, start: int) -> Mapping[str, str]:
    """Table -> number of rows of an interval and their digest, whatever their order."""
    facts = {}
    for name in TABLES:
        table = open_table(lake / "tables" / name)
        stored = table.to_pyarrow_table().to_pylist() if table is not None else []
        mine = sorted(repr(row) for row in stored if start <= row["_last"] < start + HOUR)
        facts[name] = f"{len(mine)} {hashlib.sha256(chr(10).join(mine).encode()).hexdigest()}"
    return facts


def interval(run: Run, machines: Cluster, lake: ObjectPath, start: int) -> dict[str, Any]:
    """Runs an interval until it is published, with one kill; returns its line."""
    victim, instant = run.chance.choice(VICTIMS), run.chance.uniform(0.5, LATEST)
    began, killed, tried = time.monotonic(), "", 0
    for tried in range(1, TRIES + 1):
        task = _task(run, machines, lake, start, tried)
        deadline = time.monotonic() + instant
        while task.poll() is None and not killed:
            if time.monotonic() >= deadline and (killed := kill(machines, task, victim, run.chance)):
                time.sleep(run.chance.uniform(0.0, AWAY))
                for name in machines.names:
                    machines.revive(name)
            time.sleep(0.1)
        if task.wait() == 0:
            break
    left = [str(file) for file in paths.files_below(lake / "_work")]
    same = rows(lake, start) == rows(run.folder / "quiet", start)
    line = {"interval": format_instant(start), "victim": killed, "after": round(instant, 1), "tries": tried}
    return {**line, "same": same, "left": left, "seconds": round(time.monotonic() - began, 1)}


def _task(run: Run, machines: Cluster, lake: ObjectPath, start: int, tried: int) -> psutil.Popen:
    """Starts the task of an interval: a process above the driver, which dies with it."""
    span = ["--from", format_instant(start), "--to", format_instant(start + HOUR)]
    arguments = [QUERY_SET, "--lake", str(lake), "--queries", str(run.queries), *span]
    program = TASK.format(plugins=str(ROOT / "plugins"), arguments=arguments)
    with (run.folder / "task.log").open("a") as log:
        print(f"== {format_instant(start)}, try {tried}", file=log, flush=True)
        variables = {**os.environ, **machines.environment(), "PYTHONUNBUFFERED": "1"}
        line = [sys.executable, "-c", "import logging; logging.basicConfig(level=20)\n" + program]
        return psutil.Popen(line, cwd=ROOT, env=variables, stdout=log, stderr=log)


def kill(machines: Cluster, task: psutil.Popen, victim: str, chance: random.Random) -> str:
    """Kills a victim; returns its name, or nothing where it is not there yet."""
    if victim == "worker":
        name = chance.choice(machines.names[: machines.workers])
        machines.kill(name)
        return name
    if victim in ("master", "s3"):
        machines.kill(victim)
        return victim
    if victim == "executor":
        candidates = machines.executors()
    else:
        candidates = [task] if victim == "task" else task.children() if task.is_running() else []
    if candidates:
        with suppress(psutil.NoSuchProcess):
            chance.choice(candidates).send_signal(signal.SIGKILL)
            return victim
    return ""


def main() -> int:
    """Runs intervals for a while, and prints the counts of the ledger; 1 on a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "endurance" / "cluster")
    parser.add_argument("--intervals", type=int, default=200, help="intervals in the ledger at the end; default: 200")
    parser.add_argument("--hours", type=int, default=24, help="intervals of a lake; default: 24")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no interval begins after so many")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(folder, options.hours, random.Random(f"{options.seed} {time.time_ns()}"))
    ends = time.monotonic() + options.seconds
    run.source()
    lines = _lines(run.ledger)
    with cluster(folder / "machines") as machines, environment(machines.store()):
        number = lines[-1]["number"] + 1 if lines else 0
        begun = ""
        while number < options.intervals and time.monotonic() < ends:
            lake = machines.lake(f"kills-{number // run.hours}")
            if begun != lake.name:
                upload(folder / "packets", lake)
                begun = lake.name
            line = {"number": number, **interval(run, machines, lake, START + number % run.hours * HOUR)}
            with run.ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
            number += 1
    return _summary(_lines(run.ledger))


def _lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def _summary(lines: list[dict[str, Any]]) -> int:
    killed = Counter(line["victim"].rstrip("0123456789") or "nobody" for line in lines)
    victims = ", ".join(f"{name} {count}" for name, count in sorted(killed.items()))
    different, left = (
        sum(map(bool, of)) for of in ([not line["same"] for line in lines], [line["left"] for line in lines])
    )
    print(f"{len(lines)} intervals; killed: {victims}; {different} with other rows, {left} with staging left")
    return 1 if different or left else 0


if __name__ == "__main__":
    try:
        code = main()
    except ClusterError as problem:
        print(f"error: {problem}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    os._exit(code)  # threads of Arrow that still read ahead would abort the process while Python ends
