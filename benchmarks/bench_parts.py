"""Measures the parts of a real hour, one after another in this process, for the simulation of more cores.

`python -m benchmarks.bench_parts [--packets N,N] [--cores N]` generates an hour of three links in two sizes, and
ingests and replays each: processor seconds of every task of ingest, low, high and audit, and of the rest of each stage,
which the process of the run does by itself. It prints for the larger hour how even the tasks are, and how busy so many
cores would be with them. It writes docs/capacity-parts.json, from which `python -m benchmarks.capacity` makes the page.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench_capacity import LINK, ROOT, SETTINGS, START, Hour
from benchmarks.capacity import CORES, FILL, PARTS, STAGES, HourOfParts, Traffic, hour_steps, keeps_up, one_hour
from benchmarks.parts import Measured, simulated
from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress


class Rest(Progress):
    """Notes the processor seconds of each stage besides its tasks, with those of processes below this one."""

    def __init__(self, runner: Measured) -> None:
        super().__init__(quiet=True)
        self.rest: dict[str, float] = {}
        self._runner = runner

    @contextmanager
    def stage(self, name: str, detail: str = "") -> Iterator[Callable[[str], None]]:
        """See `Progress`."""
        begin = used() - self._runner.spent
        with super().stage(name, detail) as tell:
            yield tell
        self.rest[name] = self.rest.get(name, 0.0) + max(0.0, used() - self._runner.spent - begin)


def used() -> float:
    """Processor seconds of this process and of those below it."""
    here = psutil.Process()
    times = [here.cpu_times(), *(child.cpu_times() for child in here.children(recursive=True))]
    return float(sum(each.user + each.system for each in times))


def measured(folder: Path, hour: Hour) -> dict[str, Any]:
    """Ingests and replays an hour into a new lake; returns the seconds of its tasks and of the rest of each stage."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "queries").mkdir(parents=True)
    shutil.copy(ROOT / "queries" / "demo.gsql", folder / "queries")
    (folder / "lowwater.toml").write_text(SETTINGS + "".join(LINK.format(name=link) for link in hour.files))
    runner = Measured()
    progress = Rest(runner)
    lake, config = open_lake(folder), load_config(folder)
    for link, file in hour.files.items():
        with progress.stage("ingest"):
            ingest(lake, link, [file], config, (START, START + HOUR), runner.tasks("ingest"))
    job = Job.open(folder, "demo", folder / "queries")
    replay(job, START, START + HOUR, None, progress, runner)
    of_stage = {stage: [each for each in runner.rounds if each.stage == stage] for stage in STAGES}
    return {
        "packets": hour.packets,
        "stages": {
            stage: {
                "rest": round(progress.rest[stage], 3),
                "rounds": [{"of": each.of, "seconds": [round(s, 4) for s in each.seconds]} for each in rounds],
            }
            for stage, rounds in of_stage.items()
        },
    }


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", default="2000000,20000000", help="two sizes of the hour; default: %(default)s")
    parser.add_argument("--cores", type=int, default=64, help="of the simulation that is printed")
    parser.add_argument("--json", type=Path, default=PARTS, help="where the seconds go; default: %(default)s")
    options = parser.parse_args()
    os.environ["LOWWATER_SPARK_MASTER"] = "none"
    hours = []
    with tempfile.TemporaryDirectory(dir=ROOT / "var" if (ROOT / "var").is_dir() else None) as scratch:
        folder = Path(scratch)
        measured(folder / "lake", Hour.of(folder / "warm", 20_000))  # what is compiled, or imported, once
        for number in options.packets.split(","):
            hour = Hour.of(folder / number, int(number))
            hours.append(measured(folder / "lake", hour))
            shutil.rmtree(folder / number)
    model = Traffic(HourOfParts(hours[0]), HourOfParts(hours[-1]))
    figures = {
        "date": time.strftime("%Y-%m-%d"),
        "command": "python -m benchmarks.bench_parts " + " ".join(sys.argv[1:]),
        "load_average": round(os.getloadavg()[0], 1),
        "hours": hours,
        "one hour": [one_hour(model.large, cores) for cores in CORES],
        "links": [keeps_up(model, fill) for fill in FILL],
    }
    options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    show(HourOfParts(hours[-1]), options.cores)


def show(hour: HourOfParts, cores: int) -> None:
    """Prints how even the tasks of an hour are, and how busy many cores would be with them."""
    print(f"{hour.packets:,} packets")
    for stage in STAGES:
        for tasks in hour.rounds(stage):
            mean = sum(tasks) / len(tasks)
            print(f"  {stage}: {len(tasks)} tasks, mean {mean:.3f} s, longest/mean {max(tasks) / mean:.2f}")
        print(f"  {stage}: the process by itself {hour.rest(stage):.2f} s")
    span, busy = simulated(hour_steps(hour), cores)
    print(f"  {cores} cores: {span:.2f} s, {busy:.0%} busy")


if __name__ == "__main__":
    main()
