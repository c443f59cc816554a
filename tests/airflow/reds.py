"""A day of intervals of five minutes in a real Airflow whose tasks have a clock that is driven: red is true, and clear
repairs.

`python -m tests.airflow.reds --hours 24 --step 5 --seed 1` lets a day pass whose files come late, broken, cut or never,
and are replaced or set aside. After each look every task that became red says what is so at that minute, by what lies
in the folders; each red task of the day whose cause has gone is cleared, and is green then; others that are cleared
stay red, for the reason of that minute. In the middle Airflow's server gives no answer for a while.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowwater.instants import HOUR, SECOND, format_instant, parse_instant
from lowwater.replay.schedule.due import statuses
from tests.airflow.days import INGEST, Driven
from tests.capturemaker import pcap_bytes, udp
from tests.replay.month import BEGIN, MINUTE
from tests.replay.support import lowwater, wait

LENGTH = 5 * MINUTE
LINKS = ("a", "b")
KEEP = "keep_pair"
QUERY = """DEFINE { query_name 'pair'; }
SELECT tb, srcIP, count(*) AS packets, sum(len) AS bytes FROM [both].DataProtocol GROUP BY time/60 AS tb, srcIP
"""
FATES = {"late": 4, "broken": 3, "cut": 3, "aside": 1, "never": 1}
"""What becomes of a file -> how many of a hundred."""
MOST_TRIES = 6
"""Times that a task asks a server that gives no answer; by Airflow's default it has ended before."""


@dataclass
class Day:
    """The files of a day, and what lies in the folders: a `World` of `days`.

    Attributes:
        events: (when, what, link, begin of the interval), oldest last.
        there: (link, begin) -> good, broken, cut or aside; without an entry nothing is there.
    """

    folder: Path
    hours: int
    seed: int
    worse: int = 1  # how many times as many files as in FATES
    now: int = BEGIN
    there: dict[tuple[str, int], str] = field(default_factory=dict)
    events: list[tuple[int, str, str, int]] = field(default_factory=list)
    fates: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.lake, self.queries, self.captures = (self.folder / name for name in ("lake", "queries", "captures"))
        for path in (self.lake, self.queries, *(self.captures / link for link in LINKS)):
            path.mkdir(parents=True)
        (self.queries / "pair.gsql").write_text(QUERY, encoding="utf-8")
        text = '[interval]\nlength = "5 min"\n[replay]\npatience = "2 min"\n[sets]\nboth = ["a", "b"]\n'
        text += f'[query_sets.pair]\nfiles = ["{self.queries}/pair.gsql"]\n'
        text += '[schedule]\nlook_back = "100d"\nevery = "1d"\n'
        for link in LINKS:
            text += f'[links.{link}]\ncaptures = "../captures/{link}/{link}_%Y%m%dT%H%M%S.pcap"\nrotation = "5 min"\n'
            text += f'skew = "1s"\nsince = "{format_instant(BEGIN)}"\n'
        (self.lake / "lowwater.toml").write_text(text, encoding="utf-8")
        self.end = BEGIN + self.hours * HOUR
        for begin in range(BEGIN, self.end, LENGTH):
            for link in LINKS:
                self._draw(link, begin)
        over = self.end + LENGTH + MINUTE // 2  # the last interval is
        self.events += [(over, "good", link, self.end) for link in LINKS]
        self.events.sort(reverse=True)

    def _draw(self, link: str, begin: int) -> None:
        fates = [*FATES, "good"]
        shares = [share * self.worse for share in FATES.values()]
        (fate,) = self.random.choices(fates, [*shares, 100 - sum(shares)])
        self.fates[fate] += 1
        first = begin + LENGTH + MINUTE // 2  # clocks stand at minutes: no file is still being written then
        later = first + self.random.randrange(8, 45) * MINUTE
        if fate in ("broken", "cut", "aside", "good"):
            self.events.append((first, "broken" if fate == "aside" else fate, link, begin))
        if fate in ("late", "broken", "cut"):
            self.events.append((later, "good", link, begin))
        if fate == "aside":
            self.events.append((later, fate, link, begin))

    def deliver(self, until: int) -> None:
        """Puts the files there that have come by now."""
        while self.events and self.events[-1][0] <= until:
            at, what, link, begin = self.events.pop()
            path = self.path(link, begin)
            if what == "aside":
                said = lowwater("set-aside", path, "--lake", self.lake, "--reason", "the disk of the recorder")
                assert said.code == 0, said
            else:
                whole = pcap_bytes(
                    [(begin + each * 23 * SECOND, udp(f"10.0.0.{each % 3}", "10.0.1.1", 5, 6)) for each in range(12)],
                    nanoseconds=True,
                )
                path.write_bytes({"good": whole, "broken": b"no capture", "cut": whole[: len(whole) // 2]}[what])
                os.utime(path, ns=(at, at))
            self.there[link, begin] = what

    def path(self, link: str, begin: int) -> Path:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(begin // SECOND))
        return self.captures / link / f"{link}_{stamp}.pcap"

    def lacking(self, start: int, end: int) -> set[str]:
        """The links that lack a whole file of [start, end), ns."""
        begins = range(start, end, LENGTH)
        return {link for link in LINKS for begin in begins if self.there.get((link, begin)) != "good"}


@dataclass(frozen=True, order=True)
class Red:
    """A red task: of intervals [start, end), ns, or of a file."""

    dag: str
    run: str
    task: str
    index: int
    start: int
    end: int
    link: str = ""


class Reds(Driven):
    """The day, and the Airflow that looks."""

    def __init__(self, day: Day) -> None:
        super().__init__(day, (KEEP,))
        self.day = day
        self.red: set[Red] = set()
        self.counts: Counter[str] = Counter()
        self._seen: set[str] = set()

    def run(self, step: int) -> None:
        """Lets the day pass, with a look in each step, at any of its minutes."""
        day = self.day
        self.set(BEGIN)
        self.start()
        times = range(BEGIN + LENGTH, day.end + HOUR, step)
        for number, at in enumerate(times):
            self.set(at + day.random.randrange(step // MINUTE) * MINUTE)
            self._clear_files()
            if number == len(times) // 2:
                self.without_server()
            self.look()
            self._check()
            self._clear()
            print(f"{format_instant(day.now)}: {len(self.red)} red; {dict(self.counts)}", flush=True)

    def settle(self) -> None:
        """Waits, and holds that each mapped task that waits has its name."""

        def named() -> bool:
            waiting = self.home.ask("GET", "dags/~/dagRuns/~/taskInstances?state=scheduled&state=queued&limit=100")
            for task in waiting["task_instances"]:
                if task["map_index"] >= 0:
                    self.counts["waiting with a name"] += 1
                    assert not task["rendered_map_index"].isdigit(), task
            return not any(self._count(dag, "&state=running&state=queued") for dag in (INGEST, KEEP))

        for _ in range(2):
            assert wait(named, 900, 0.5)
            time.sleep(2)  # an event becomes a run

    def _check(self) -> None:
        """Holds that each task of the runs since the last look that is red says what is so."""
        for dag in (INGEST, KEEP):
            for run in self.runs(dag):
                if run["dag_run_id"] in self._seen:
                    continue
                self._seen.add(run["dag_run_id"])
                tasks = self._tasks(dag, run["dag_run_id"])
                assert all(task["try_number"] <= 1 for task in tasks if task["map_index"] < 0), tasks
                red = [self._told(task) for task in tasks if task["state"] == "failed"]
                assert (run["state"] == "failed") == bool(red), (run, tasks)
                self.red |= {*red}
                number = sum((each.end - each.start) // LENGTH for each in red if each.task == "interval")
                found = re.search(r"Look: .*?([\d,]+) cannot start(?!, as before)", run["note"])
                assert (int(found[1].replace(",", "")) if found else 0) == number, (run["note"], red)

    def _tasks(self, dag: str, run: str) -> list[dict[str, Any]]:
        return list(self.home.ask("GET", f"dags/{dag}/dagRuns/{run}/taskInstances?limit=100")["task_instances"])

    def _told(self, task: dict[str, Any]) -> Red:
        """Holds that what a red task says is so at this moment."""
        path = f"dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        why = str(self.home.ask("GET", f"{path}/xcomEntries/why?map_index={task['map_index']}")["value"])
        name, key = task["rendered_map_index"], (task["dag_id"], task["dag_run_id"], task["task_id"], task["map_index"])
        self.counts[f"red {task['task_id']}"] += 1
        if task["task_id"] == "refused":
            link, file = name.split(" ", 1)
            begin = next(each for each in range(BEGIN, self.day.now, LENGTH) if self.day.path(link, each).name == file)
            assert self.day.there[link, begin] == "broken" and "not a capture" in why, (name, why)
            return Red(*key, begin, begin + LENGTH, link)
        assert task["task_id"] == "interval", (task, why)
        bounds = re.match(r"(\S+)(?: to (\S+) \()?", name)
        assert bounds is not None, name
        start = parse_instant(bounds[1])
        end = parse_instant(bounds[2]) if bounds[2] else start + LENGTH
        lacking = self.day.lacking(start, end)
        assert lacking and why.startswith("cannot start: "), (name, why)
        told = {link for link in LINKS if f"'{link}'" in why}  # link 'a', or 2 links ('a', 'b')
        assert told == lacking, (name, why, lacking)
        return Red(*key, start, end)

    def _mended(self, red: Red) -> bool:
        if red.link:
            return self.day.there.get((red.link, red.start)) != "broken"
        return not self.day.lacking(red.start, red.end)

    def _clear_files(self) -> None:
        """Clears tasks of files that are mended before any ingest has seen them."""
        self._clear_all([red for red in self.red if red.link and self._mended(red) and self.day.random.random() < 0.3])

    def _clear(self) -> None:
        """Clears each red task whose cause has gone, and a few others."""
        self._clear_all([red for red in self.red if self._mended(red) or self.day.random.random() < 0.1])

    def _clear_all(self, some: list[Red]) -> None:
        for red in sorted(some):
            body = {"dry_run": False, "dag_run_id": red.run, "task_ids": [[red.task, red.index]], "only_failed": True}
            self.home.ask("POST", f"dags/{red.dag}/clearTaskInstances", body)
        if some:
            self.settle()
        for red in some:
            (task,) = (
                each
                for each in self._tasks(red.dag, red.run)
                if (each["task_id"], each["map_index"]) == (red.task, red.index)
            )
            if not self._mended(red):
                assert task["state"] == "failed" and self._told(task) == red, (red, task)
                self.counts["cleared, and still red"] += 1
                continue
            assert task["state"] == "success", (red, task, self.home.why(task))
            label = task["rendered_map_index"].rpartition(" ")[2]
            assert red.link or label in ("done", "provisional"), task
            self.counts["cleared, and green"] += 1
            self.red.discard(red)

    def without_server(self) -> None:
        """Lets a look begin while Airflow's server gives no answer, as after a reboot: it waits, and uses up no try."""
        self.home.ask("PATCH", f"dags/{KEEP}", {"is_paused": True})
        self.trigger(KEEP)
        servers = [each for each in self.home._processes() if re.search("api.server", " ".join(each.cmdline()))]
        assert servers
        told = "this is the {}th time calling it"
        before = self.home.log.read_text(errors="replace").count(told.format(MOST_TRIES))
        for process in servers:
            process.send_signal(signal.SIGSTOP)
        try:
            command = [str(Path(sys.executable).parent / "airflow"), "dags", "unpause", KEEP, "--yes"]
            subprocess.run(command, env=self.home.environment(), check=True, capture_output=True)
            log = self.home.log
            assert wait(lambda: log.read_text(errors="replace").count(told.format(MOST_TRIES)) > before, 300, 1.0)
        finally:
            for process in servers:
                process.send_signal(signal.SIGCONT)
        self.settle()
        with closing(sqlite3.connect(self.home.folder / "airflow.db")) as database:
            tries = database.execute("SELECT DISTINCT state, try_number FROM task_instance WHERE task_id = 'look'")
            assert {*tries} == {("success", 1)}
        self.counts["without a server"] += 1

    def finish(self) -> Counter[str]:
        """Holds that what is red at the end lacks a file, and the lake all that is there; returns the number of
        intervals by state."""
        runs = {(dag, run["dag_run_id"]): run for dag in (INGEST, KEEP) for run in self.runs(dag)}
        assert {key for key, run in runs.items() if run["state"] == "failed"} == {
            (red.dag, red.run) for red in self.red
        }
        found: Counter[str] = Counter()
        for row in statuses(self.day.lake, self.day.queries):
            for begin in range(row.start, row.end, LENGTH):
                lacking = self.day.lacking(begin, begin + LENGTH)
                if begin < self.day.end:
                    assert (row.shown == "cannot start") == bool(lacking), (format_instant(begin), row, lacking)
                    found[row.shown] += 1
        assert found.total() == (self.day.end - BEGIN) // LENGTH and set(found) <= {
            "done",
            "provisional",
            "cannot start",
        }
        return found


def main() -> None:
    """Runs it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--step", type=int, default=5, help="minutes, in each of which there is a look")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worse", type=int, default=1, help="how many times as many files come late, broken, cut")
    parser.add_argument("--folder", type=Path, default=Path("var/reds"))
    chosen = parser.parse_args()
    folder = chosen.folder.absolute() / f"{chosen.hours}-{chosen.step}-{chosen.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    begin = time.monotonic()
    reds = Reds(Day(folder, chosen.hours, chosen.seed, chosen.worse))
    try:
        reds.run(chosen.step * MINUTE)
        states = reds.finish()
    finally:
        reds.home.stop()
    print(f"seed {chosen.seed}: {chosen.hours} h of intervals of 5 min, {reds.looks} looks of a real Airflow")
    print(f"files: {dict(reds.day.fates)}; intervals: {dict(states)}; {time.monotonic() - begin:.0f} s")
    print(f"tasks: {dict(sorted(reds.counts.items()))}; red at the end: {len(reds.red)}")


if __name__ == "__main__":
    main()
