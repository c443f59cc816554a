"""Endurance test: runs many intervals with random kills, and compares every row and digest with a sequential run.

`python scripts/endurance.py backfill` runs 30 days of hours through `lowwater backfill`: once oldest first, in one
process that lives through all of them, once two at a time in random order, with `kill -9` at moments of chance.
`airflow` runs two days through an Airflow of its own, shuffled, with a process killed in every second run. What a
folder has is kept: interrupted, the same command goes on. It prints seconds an interval, the memory of the processes
and what differs.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from compare import differences, published
from demo import LINK
from home import ROOT, Home, HomeError
from kills import WHOLE, Killer
from lowwater_generator import generate

from lowwater.errors import LowwaterError
from lowwater.instants import HOUR, format_instant, parse_instant
from lowwater.lake.layout import open_lake

START = parse_instant("2026-01-01T00:00:00Z")
LINKS = ("main1", "main2", "control")
QUERY_SET = "demo"
HOURS = {"backfill": 720, "airflow": 48}
SETTINGS = """\
[sets]
main0_and_control = ["main1", "control"]

[schedule]
maintain = "never"
"""
SAMPLE = 5.0
"""Seconds between two measurements of memory."""
AT_ONCE = 3
"""Runs in Airflow at a time. More would not be random: Airflow starts waiting runs oldest first."""
ENDED = re.compile(rf"^{QUERY_SET} \S+: (\w+), ([\d,.]+) s \(", re.MULTILINE)


@dataclass(frozen=True)
class Plan:
    """One experiment.

    Attributes:
        folder: folder of the experiment.
        hours: number of intervals.
        seed: seed of the captures, of the order and of the kills.
    """

    folder: Path
    hours: int
    seed: int

    @property
    def queries(self) -> Path:
        """The one query set, so that Airflow has no other DAG."""
        return self.folder / "queries"

    def lake(self, name: str, rate: float) -> Path:
        """Returns a lake with every packet and no publication; the first call generates captures and ingests them."""
        lake = self.folder / name
        if lake.exists():
            return lake
        source = self.folder / "source"
        if not source.exists():
            self.queries.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "queries" / f"{QUERY_SET}.gsql", self.queries)
            generate(self.folder / "captures", START, self.hours, LINKS, rate, seed=self.seed)
            begun = self.folder / "begun"
            shutil.rmtree(begun, ignore_errors=True)
            begun.mkdir()
            (begun / "lowwater.toml").write_text(self._settings(), encoding="utf-8")
            with (self.folder / "ingest.log").open("w") as log:
                process = psutil.Popen(_command("ingest", begun), cwd=ROOT, stdout=log, stderr=log)
                if process.wait():
                    raise HomeError(f"ingest failed: see {log.name}")
            begun.rename(source)
        begun = self.folder / f"{name}.begun"
        shutil.rmtree(begun, ignore_errors=True)
        shutil.copytree(source, begun)
        begun.rename(lake)
        return lake

    def _settings(self) -> str:
        since, until = format_instant(START), format_instant(START + self.hours * HOUR)
        policies = {name: "publish" if name == "control" else "fail" for name in LINKS}
        links = (LINK.format(name=name, since=since, until=until, policy=policies[name]) for name in LINKS)
        return SETTINGS + "".join(links)


def _command(verb: str, lake: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "lowwater.cli.main", verb, "--lake", str(lake), *options]


def backfill(plan: Plan, lake: Path, options: Sequence[str], lives: Sequence[float]) -> int:
    """Runs `lowwater backfill` until nothing is left to do.

    Args:
        plan: the experiment.
        lake: lake to run on; `<lake>.log` and `<lake>.memory.csv` beside it are appended to.
        options: options of the command.
        lives: seconds after which each process is killed; later processes are not killed.

    Returns:
        Number of processes killed.
    """
    # The lake also has packets after the last hour.
    span = ["--from", format_instant(START), "--to", format_instant(START + plan.hours * HOUR)]
    command = _command("backfill", lake, "--queries", str(plan.queries), *span, *options)
    waiting, kills = list(lives), 0
    while True:
        with lake.with_suffix(".log").open("a") as log:
            child = psutil.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        life = waiting.pop(0) if waiting else float("inf")
        family = _watched(child, life, lake)
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
            kills += 1
        code = child.wait()
        psutil.wait_procs(family, 60)
        if code == 0:
            return kills
        if code != -signal.SIGKILL:
            raise HomeError(f"the backfill ended with {code}: see {log.name}")


def _watched(child: psutil.Popen, life: float, lake: Path) -> list[psutil.Process]:
    """Records the memory of a process and its children for a limited time; returns the children."""
    begin = time.monotonic()
    family: list[psutil.Process] = []
    with lake.with_suffix(".memory.csv").open("a") as samples_kept:
        while child.poll() is None and (passed := time.monotonic() - begin) < life:
            try:
                family = child.children(recursive=True)
                below = sum(process.memory_info().rss for process in family)
                samples_kept.write(f"{child.pid},{passed:.1f},{child.memory_info().rss},{below}\n")
            except psutil.Error:
                continue
            samples_kept.flush()
            time.sleep(min(SAMPLE, max(0.0, life - passed)))
    return family


def summary(lake: Path) -> str:
    """Summarises the log and the memory of a run."""
    spent = [float(seconds.replace(",", "")) for _, seconds in ENDED.findall(lake.with_suffix(".log").read_text())]
    samples = [line.split(",") for line in lake.with_suffix(".memory.csv").read_text().splitlines()]
    pids = [sample[0] for sample in samples]
    longest = [sample for sample in samples if sample[0] == max(set(pids), key=pids.count)]
    lines = [
        f"{lake.name}: {len(spent)} intervals ended, {sum(spent) / len(spent):.2f} s each, at most {max(spent):.1f} s"
    ]
    quarter = len(spent) // 4
    if quarter and len(set(pids)) == 1:
        halves = spent[:quarter], spent[-quarter:]
        first, last = (sum(half) / quarter for half in halves)
        lines.append(f"  the first quarter took {first:.2f} s each, the last {last:.2f} s")
    lines.append(
        f"  {len(set(pids))} processes; memory of the longest, MB at its seconds (itself and what it started):"
    )
    for part in range(0, 11):
        _, passed, longest_value, below = longest[min(len(longest) - 1, part * len(longest) // 10)]
        lines.append(f"    {float(passed):7.0f} s  {int(longest_value) / 1e6:7.0f} {int(below) / 1e6:7.0f}")
    return "\n".join(lines)


def airflow(plan: Plan, lake: Path, share: float) -> tuple[int, int, float]:
    """Runs every interval that is not published yet through Airflow, in random order.

    Returns:
        Number of runs, number of runs with a killed process, and total seconds.

    Raises:
        HomeError: a run failed.
    """
    chance = random.Random(f"{plan.seed} {time.time_ns()}")
    published_starts = {row.interval_start for row in published(open_lake(lake), QUERY_SET)}
    remaining = [
        start for start in (START + hour * HOUR for hour in range(plan.hours)) if start not in published_starts
    ]
    if not remaining:
        return 0, 0, 0.0
    chance.shuffle(remaining)
    home = Home(plan.folder / "airflow", lake, plan.queries)
    dag = f"replay_{QUERY_SET}"
    try:
        home.prepare()
        home.start()
        home.ready(dag, slots=2)
        begin = time.monotonic()
        with Killer(lake, chance, share, WHOLE) as killer:
            ran = _shuffled(home, dag, remaining)
        return ran, len(killer.killed), time.monotonic() - begin
    finally:
        home.stop()


def _shuffled(home: Home, dag: str, starts: Sequence[int]) -> int:
    """Triggers runs, `AT_ONCE` at a time, until all have ended; returns their number."""
    waiting, at_work = list(starts), set[str]()
    while waiting or at_work:
        while waiting and len(at_work) < AT_ONCE:
            start = waiting.pop()
            first, last = format_instant(start), format_instant(start + HOUR)
            body = {"logical_date": first, "data_interval_start": first, "data_interval_end": last}
            at_work.add(home.ask("POST", f"dags/{dag}/dagRuns", body)["dag_run_id"])
        time.sleep(1.0)
        for run in list(at_work):
            state = home.ask("GET", f"dags/{dag}/dagRuns/{run}")["state"]
            if state == "failed":
                raise HomeError(f"the run {run} failed: see {home.folder / 'logs'}")
            if state == "success":
                at_work.remove(run)
                print(f"{run}: {state}, {len(waiting) + len(at_work)} left", flush=True)
    return len(starts)


def main() -> int:
    """Runs or continues one experiment; returns 1 on a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("through", choices=sorted(HOURS))
    parser.add_argument("--folder", type=Path, help="default: var/endurance/<through>")
    parser.add_argument("--hours", type=int, help="intervals; default: 720 by backfill, 48 by airflow")
    parser.add_argument("--rate", type=float, default=0.1, help="packets a second of a main link; default: 0.1")
    parser.add_argument("--kills", type=int, default=8, help="of the backfill; default: 8")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", choices=["sequential", "killed"], help="one of the two runs, nothing is compared")
    chosen = parser.parse_args()
    folder = (chosen.folder or ROOT / "var" / "endurance" / chosen.through).absolute()
    plan = Plan(folder, chosen.hours or HOURS[chosen.through], chosen.seed)
    sequential, killed = plan.lake("sequential", chosen.rate), plan.lake("killed", chosen.rate)
    if chosen.only != "killed":
        backfill(plan, sequential, ["--order", "oldest"], [])
        print(summary(sequential), flush=True)
    if chosen.only != "sequential":
        run_killed(plan, killed, chosen.through, chosen.kills)
    if chosen.only:
        return 0
    differing = differences(sequential, killed, QUERY_SET)
    print("\n".join(differing) or f"identical: {plan.hours} intervals", flush=True)
    return 1 if differing else 0


def run_killed(plan: Plan, lake: Path, through: str, kills: int) -> None:
    """Runs or continues the random run with kills, and prints its summary."""
    if through == "airflow":
        ran, killed, seconds = airflow(plan, lake, 0.5)
        print(f"killed: {ran} runs through Airflow, a process killed in {killed}, {seconds / max(ran, 1):.1f} s each")
        return
    chance = random.Random(f"{plan.seed} {time.time_ns()}")
    lives = [chance.uniform(20, 120) for _ in range(kills)]
    lives_used = backfill(plan, lake, ["--jobs", str(os.cpu_count() or 1), "--order", "random"], lives)
    print(summary(lake) + f"\n  {lives_used} killed", flush=True)


if __name__ == "__main__":
    try:
        ended = main()
    except (LowwaterError, HomeError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        ended = 1
    sys.stdout.flush()
    os._exit(ended)  # threads of Arrow that still read ahead would abort the process while Python ends
