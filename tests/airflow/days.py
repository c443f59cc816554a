"""Days of a lake that takes care of itself in a real Airflow, whose tasks have a clock that is driven.

`python -m tests.airflow.days --days 2 --hours 6 --seed 1` lets a part of the month (`tests.replay.month`) pass: files
come late, a setting and a query change, and the machine goes down in the middle and stays down for twelve hours. Nobody
starts a run of an interval. At the end the tables and states are those of a quiet backfill, and grid, notes and pages
say the same. `--shots FOLDER` keeps what Chromium shows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from lowwater.instants import HOUR, format_instant
from tests.airflow.chromium import browser, frame
from tests.airflow.conftest import script, wait
from tests.replay.month import BEGIN, DAY, MINUTE, Month, compare

SETS = ("pair", "sums")
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


class Days:
    """The days, and the Airflow that looks.

    Args:
        month: the files, the settings and the changes.
    """

    def __init__(self, month: Month) -> None:
        self.month, self.file = month, month.folder / "clock"
        (month.folder / "clocks").mkdir()
        (month.folder / "clocks" / "sitecustomize.py").write_text(CLOCK.format(file=str(self.file)), encoding="utf-8")
        self.home: Any = script("home").Home(month.folder / "airflow", month.lake, month.queries)
        self.keeps = [f"keep_{name}" for name in SETS]
        self.looks = 0

    def run(self) -> None:
        """Lets the days pass, and the time in which the last late files come."""
        month = self.month
        hours = range(BEGIN + month.length, month.end + 2 * month.length, month.length)
        down = len(hours) // 2
        os.environ["PYTHONPATH"] = str(month.folder / "clocks")
        self._set(BEGIN)
        self.home.more = {"scheduler": {"task_instance_heartbeat_timeout": 20}}  # of tasks that were killed
        self.home.prepare()
        self.home.start()
        self.home.ready("lowwater_ingest", *self.keeps, slots=2)
        self._settle()
        for number, hour in enumerate(hours):
            self._set(hour + 25 * MINUTE)
            if number == len(hours) // 3:
                month._change("setting")
            if number == down - 1:
                month._change("query")
            if number == down:
                self.home.ask("POST", "dags/lowwater_ingest/dagRuns", {"logical_date": None})
                time.sleep(6)  # in the middle of what it does
                self.home.kill()
                continue  # down for an interval
            if number == down + 1:
                self.home.start()
            self._look()
        self._set(month.end + 2 * month.length + HOUR)
        self._look()

    def _set(self, now: int) -> None:
        self.month.now = now
        self.file.with_suffix(".new").write_text(str(now))
        os.replace(self.file.with_suffix(".new"), self.file)
        self.month.deliver(now)

    def _look(self) -> None:
        """A tick of the clock of each DAG: of the ingest, and of those that its event has not let look."""
        self.looks += 1
        before = {dag: len(self.home.runs(dag)) for dag in self.keeps}
        self.home.ask("POST", "dags/lowwater_ingest/dagRuns", {"logical_date": None})
        self._settle()
        for dag in self.keeps:
            if len(self.home.runs(dag)) == before[dag]:
                self.home.ask("POST", f"dags/{dag}/dagRuns", {"logical_date": None})
        self._settle()

    def _settle(self) -> None:
        """Waits until nothing is at work, nor begins."""

        def quiet() -> bool:
            runs = [run for dag in ("lowwater_ingest", *self.keeps) for run in self.home.runs(dag)]
            return all(run["state"] in ("success", "failed") for run in runs)

        assert wait(quiet, 900, 1.0)
        time.sleep(3)  # an event becomes a run
        assert wait(quiet, 900, 1.0)

    def grid(self) -> Counter[str]:
        """Holds that each red task says why; returns the number of tasks in each state."""
        states: Counter[str] = Counter()
        for dag in self.keeps:
            for run in self.home.runs(dag):
                path = f"dags/{dag}/dagRuns/{run['dag_run_id']}/taskInstances?limit=100"
                tasks = self.home.ask("GET", path)["task_instances"]
                states.update(f"{task['task_id']} {task['state']}" for task in tasks)
                red = [task for task in tasks if task["state"] == "failed"]
                assert all(task["task_id"] == "interval" for task in red), (dag, run, red)
                assert (run["state"] == "failed") == bool(red), (dag, run)
                assert run["note"] and run["note"].startswith("Look: "), (dag, run)
                assert not red or "no capture covers" in run["note"], run["note"]
        return states

    def shots(self, folder: Path) -> None:
        """What Chromium shows of the grid of a look, a run of it, and the pages."""
        folder.mkdir(parents=True, exist_ok=True)
        with browser(self.home) as page:
            for dag in ("lowwater_ingest", *self.keeps):
                page.goto(f"{self.home.address}/dags/{dag}")
                page.wait_for_timeout(4000)
                page.screenshot(path=str(folder / f"{dag}.png"))
            newest = max(self.home.runs(self.keeps[0]), key=lambda run: str(run["queued_at"]))
            page.goto(f"{self.home.address}/dags/{self.keeps[0]}/runs/{newest['dag_run_id']}")
            page.wait_for_timeout(4000)
            page.screenshot(path=str(folder / "run.png"))
            page.goto(f"{self.home.address}/plugin/lowwater")
            frame(page).get_by_role("heading", level=1).first.wait_for()
            page.wait_for_timeout(2000)
            page.screenshot(path=str(folder / "pages.png"))


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
    try:
        days.run()
        tasks = days.grid()
        if chosen.shots:
            days.shots(chosen.shots)
    finally:
        days.home.stop()
    counts = compare(month)
    print(f"seed {chosen.seed}: {format_instant(BEGIN)} and {chosen.days} days, {days.looks} looks of a real Airflow")
    print(f"intervals: {dict(counts)}; tasks: {dict(sorted(tasks.items()))}; {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
