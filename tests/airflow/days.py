"""Days of a lake that takes care of itself in a real Airflow, whose tasks have a clock that is driven.

`python -m tests.airflow.days --days 2 --hours 6 --seed 1` lets a part of the month (`tests.replay.month`) pass: files
come late, links fail, a setting and a query change, DAGs are paused, processes are killed, the disk of the lake is
full, and the machine goes down in the middle and stays down for an interval. Nobody starts a run of an interval. At the
end tables and states are those of a quiet backfill, and grid, notes and pages say the same. `--shots FOLDER` keeps what
Chromium shows.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from lowwater.instants import HOUR, format_instant, parse_instant
from tests.airflow.chromium import browser, frame
from tests.airflow.conftest import script
from tests.replay.month import BEGIN, DAY, MINUTE, Month, compare, page_states
from tests.replay.support import wait

SETS = ("pair", "sums")
INGEST = "lowwater_ingest"
KEEPS = tuple(f"keep_{name}" for name in SETS)
EVENTS = (
    *((0.1, "pause keep_pair"), (0.3, "resume keep_pair"), (0.3, "setting"), (0.4, "kill"), (0.55, "query")),
    *((0.55, "down"), (0.65, "full"), (0.8, "pause lowwater_ingest"), (0.9, "resume lowwater_ingest")),
)
"""Share of the time -> what happens then."""
REASONS = ("no capture covers", "is not read", "No space left", "full")
"""What a red task may say."""
ROOM = 256
"""Size of the disk of the lake, MiB."""
CLOCK = """
import time, pathlib
_file, _real = pathlib.Path({file!r}), time.time_ns
def _driven():
    try:
        return int(_file.read_text())
    except (OSError, ValueError):
        return _real()
time.time_ns = _driven
"""
"""Lowwater asks `time.time_ns`; Airflow has other clocks, which stay."""


class World(Protocol):
    """What an Airflow looks at: the files of the links as they come, and the settings.

    Attributes:
        folder: of all of it.
        now: the time by the clock that is driven, ns.
    """

    folder: Path
    lake: Path
    queries: Path
    now: int

    def deliver(self, until: int) -> None: ...


class Driven:
    """An Airflow that looks, whose tasks have a clock that is driven.

    Args:
        world: what it looks at.
        keeps: DAGs that look at query sets.
    """

    def __init__(self, world: World, keeps: Sequence[str]) -> None:
        self.world, self.keeps, self.file = world, keeps, world.folder / "clock"
        (world.folder / "clocks").mkdir()
        (world.folder / "clocks" / "sitecustomize.py").write_text(CLOCK.format(file=str(self.file)), encoding="utf-8")
        self.home: Any = script("home").Home(world.folder / "airflow", world.lake, world.queries)
        self.paused: set[str] = set()
        self.looks = 0

    def start(self) -> None:
        """Starts the Airflow, and lets it look once."""
        os.environ["PYTHONPATH"] = str(self.world.folder / "clocks")
        self.home.more = {"scheduler": {"task_instance_heartbeat_timeout": 20}}  # of tasks that were killed
        self.home.prepare()
        self.home.start()
        self.home.ready(INGEST, *self.keeps, slots=2)
        self.settle()

    def set(self, now: int) -> None:
        """Sets the clock, and lets the files come that have come by then."""
        self.world.now = now
        self.file.with_suffix(".new").write_text(str(now))
        os.replace(self.file.with_suffix(".new"), self.file)
        self.world.deliver(now)

    def trigger(self, dag: str) -> None:
        """A tick of the clock of a DAG."""
        if dag not in self.paused:
            self.home.ask("POST", f"dags/{dag}/dagRuns", {"logical_date": None})

    def look(self) -> None:
        """A tick of each clock: of the ingest, and of the DAGs that its event has not let look."""
        self.looks += 1
        before = {dag: self._count(dag) for dag in self.keeps}
        self.trigger(INGEST)
        self.settle()
        for dag in self.keeps:
            if self._count(dag) == before[dag]:
                self.trigger(dag)
        self.settle()

    def _count(self, dag: str, more: str = "") -> int:
        return int(self.home.ask("GET", f"dags/{dag}/dagRuns?limit=1{more}")["total_entries"])

    def settle(self) -> None:
        """Waits until nothing is at work, nor begins, but the runs of paused DAGs."""

        def quiet() -> bool:
            dags = [dag for dag in (INGEST, *self.keeps) if dag not in self.paused]
            return not any(self._count(dag, "&state=running&state=queued") for dag in dags)

        assert wait(quiet, 900, 1.0)
        time.sleep(3)  # an event becomes a run
        assert wait(quiet, 900, 1.0)

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """All runs of a DAG, oldest first."""
        path = f"dags/{dag}/dagRuns?limit=100&order_by=start_date&offset="
        return [
            run for at in range(0, self._count(dag), 100) for run in self.home.ask("GET", f"{path}{at}")["dag_runs"]
        ]


class Days(Driven):
    """The days, and the Airflow that looks.

    Args:
        month: the files, the settings and the changes.
    """

    def __init__(self, month: Month) -> None:
        super().__init__(month, KEEPS)
        self.month = month
        sys.path.insert(0, str(Path(script("home").ROOT) / "scripts"))
        self.killer = script("kills").Killer
        self.killed: dict[str, str] = {}

    def run(self) -> None:
        """Lets the days pass, and the time in which the last late files come."""
        month = self.month
        hours = range(BEGIN + month.length, month.end + 2 * month.length, month.length)
        self.set(BEGIN)
        self.start()
        for number, hour in enumerate(hours):
            self.set(hour + 25 * MINUTE)
            happens = [what for share, what in EVENTS if round(share * len(hours)) == number]
            print(f"{format_instant(hour)} {', '.join(happens)}", flush=True)
            if not self.home.running():
                self.home.start()
            for what in happens:
                self._happen(what)
            if "down" in happens:
                assert "kill" not in happens  # nothing would be at work
                continue  # for an interval
            if "kill" in happens:
                with self.killer(month.lake, random.Random(month.seed)) as killer:
                    self.look()
                self.killed = killer.killed
                assert self.killed, "no interval was at work"
            elif "full" in happens:
                with full_disk(month.lake):  # what meets it waits, for longer each time
                    self.trigger(INGEST)
                    time.sleep(60)
                self.look()
            else:
                self.look()
            if number % 8 == 1:
                self.grid()
        for hour in (1, 2):  # what failed the first time waits for the second
            self.set(month.end + 2 * month.length + hour * HOUR)
            self.look()

    def _happen(self, what: str) -> None:
        word, _, dag = what.partition(" ")
        if dag:
            self.home.ask("PATCH", f"dags/{dag}", {"is_paused": word == "pause"})
            (self.paused.add if word == "pause" else self.paused.discard)(dag)
        elif what in ("setting", "query"):
            self.month._change(what)
        elif what == "down":
            self.trigger(INGEST)
            time.sleep(6)  # in the middle of what it does
            self.home.stop([signal.SIGKILL])

    def grid(self) -> Counter[str]:
        """Holds that each red task says why, and that grid and pages agree; returns the number of tasks by state."""
        counts: Counter[str] = Counter()
        shown, states = page_states(self._page), self.month.states(self.month.lake)
        assert shown == {key: state for key, (state, _) in states.items()}
        for dag in (INGEST, *KEEPS):
            last: dict[int, str] = {}
            for run in self.runs(dag):
                path = f"dags/{dag}/dagRuns/{run['dag_run_id']}/taskInstances?limit=100"
                tasks = self.home.ask("GET", path)["task_instances"]
                counts.update(f"{dag} {task['task_id']} {task['state']}" for task in tasks)
                red = [task for task in tasks if task["state"] == "failed"]
                assert (run["state"] == "failed") == bool(red), (dag, run)
                assert run["note"] and "Look: " in run["note"], (dag, run)
                assert not red or any(reason in run["note"] for reason in REASONS), (run["note"], red)
                for task in tasks:
                    label = (task["rendered_map_index"] or "").split(" ", 1)
                    if task["task_id"] == "interval" and label[0] and task["state"] in ("success", "failed"):
                        at = parse_instant(label[0])
                        if batch := re.match(r"to (\S+) \(", label[1] if label[1:] else ""):
                            for each in [each for each in last if at <= each < parse_instant(batch[1])]:
                                del last[each]  # its task is of several intervals, each in a state of its own
                        else:
                            last[at] = label[1] if label[1:] else "cannot start"
            name = dag.partition("_")[2]
            differ = {at: (told, shown[name, at]) for at, told in last.items() if told != shown[name, at]}
            # What is paused tells what it last saw.
            assert not differ or dag in self.paused, (dag, {format_instant(at): each for at, each in differ.items()})
        return counts

    def _page(self, address: str) -> str:
        request = Request(f"{self.home.address}/lowwater/{address}")
        request.add_header("Authorization", f"Bearer {self.home._token()}")
        try:
            with urlopen(request, timeout=300) as answer:
                return str(answer.read().decode())
        except HTTPError as error:
            raise AssertionError(f"{address}: {error.code} {error.read().decode()}") from error

    def shots(self, folder: Path) -> None:
        """What Chromium shows of the grid of a look, a run of it, and the pages."""
        folder.mkdir(parents=True, exist_ok=True)
        with browser(self.home) as page:
            for dag in (INGEST, *KEEPS):
                page.goto(f"{self.home.address}/dags/{dag}")
                page.wait_for_timeout(4000)
                page.screenshot(path=str(folder / f"{dag}.png"))
            newest = self.runs(KEEPS[0])[-1]
            page.goto(f"{self.home.address}/dags/{KEEPS[0]}/runs/{newest['dag_run_id']}")
            page.wait_for_timeout(4000)
            page.screenshot(path=str(folder / "run.png"))
            page.goto(f"{self.home.address}/plugin/lowwater")
            frame(page).get_by_role("heading", level=1).first.wait_for()
            page.wait_for_timeout(2000)
            page.screenshot(path=str(folder / "pages.png"))


@contextmanager
def small_disk(lake: Path) -> Iterator[None]:
    """Lets a lake that holds its settings only have a disk of its own, which takes root."""
    kept = {path.name: path.read_bytes() for path in lake.iterdir()}
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}m", "tmpfs", lake], check=True)
    try:
        for name, content in kept.items():
            (lake / name).write_bytes(content)
        yield
    finally:
        subprocess.run(["umount", "--lazy", lake], check=True)


@contextmanager
def full_disk(lake: Path) -> Iterator[None]:
    """Fills the disk of a lake to its last page."""
    filling = lake / ".filling"
    with filling.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            pass
    try:
        yield
    finally:
        filling.unlink()


def main() -> None:
    """Runs it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--hours", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("var/days"))
    parser.add_argument("--shots", type=Path)
    chosen = parser.parse_args()
    folder = chosen.folder.absolute() / f"{chosen.days}-{chosen.hours}-{chosen.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    begin = time.monotonic()
    month = Month(folder, chosen.days, chosen.hours * HOUR, chosen.seed, most_late=DAY, sets=SETS)
    days = Days(month)
    with small_disk(month.lake):
        try:
            days.run()
            tasks = days.grid()
            if chosen.shots:
                days.shots(chosen.shots)
        finally:
            days.home.stop()
        counts = compare(month)
    print(f"seed {chosen.seed}: {format_instant(BEGIN)} and {chosen.days} days, {days.looks} looks of a real Airflow")
    print(f"killed: {dict(Counter(days.killed.values()))}; intervals: {dict(counts)}")
    print(f"tasks: {dict(sorted(tasks.items()))}; {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
