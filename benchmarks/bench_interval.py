"""The fixed cost of an interval's run: a fresh process that replays one hour of a few thousand packets, by stages.

Run `python benchmarks/bench_interval.py [--repeat N] [--json FILE]`. Every repetition is a process and a lake of its
own; what the JVM and Great Expectations take to start is in it, as far as it is not hidden behind another stage. The
row of the least total is what a quiet machine takes; processor seconds are fair on a busy one. `later` is the second
hour of the lake, in the same process, and in no other figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
HOURS = 2
LINKS = ("control", "main1", "main2")
STAGES = ("low", "high", "audit", "publish")
SETTINGS = """
[sets]
main0_and_control = ["control", "main1"]
""" + "".join(f"[links.{link}]\n" for link in LINKS)


def prepare(lake: Path, rate: float) -> int:
    """A lake with two hours of three links; the packets of its first."""
    from lowwater_generator import generate

    from lowwater.config import load_config
    from lowwater.instants import parse_instant
    from lowwater.lake.ingestion.ingest import ingest
    from lowwater.lake.layout import open_lake

    lake.mkdir()
    (lake / "lowwater.toml").write_text(SETTINGS, encoding="utf-8")
    opened, config = open_lake(lake), load_config(lake)
    start = parse_instant("2026-01-01T00:00:00Z")
    packets = 0
    for each in generate(lake.parent / "captures", start, HOURS, LINKS, rate, seed=3, cut=()):
        ingest(opened, each.link, [each.path], config, (each.start, each.end))
        packets += each.packets if each.start == start else 0
    return packets


def replay_once(lake: Path, begun: float) -> dict[str, float]:
    """Seconds of everything, in the process that was started at an instant (s); its first imports are those below."""
    from lowwater.instants import HOUR, parse_instant
    from lowwater.replay.interval import replay
    from lowwater.replay.job import Job
    from lowwater.replay.progress import Progress

    found = {"imports": time.time() - begun}
    start = parse_instant("2026-01-01T00:00:00Z")
    progress = Progress(quiet=True)
    job = Job.open(lake, "demo", ROOT / "queries")
    replay(job, start, start + HOUR, None, progress)
    found |= {stage: progress.seconds[stage] for stage in STAGES}
    # It is waited for within `high`.
    found["session"] = progress.seconds.get("session", 0.0)
    found["high"] -= found["session"]
    mine = psutil.Process()
    spent = [each.cpu_times() for each in (mine, *mine.children(recursive=True))]
    found["cpu"] = sum(each.user + each.system + each.children_user + each.children_system for each in spent)
    begin = time.monotonic()
    replay(job, start + HOUR, start + 2 * HOUR, None, Progress(quiet=True))
    return found | {"later": time.monotonic() - begin}


def measure(lake: Path) -> dict[str, float]:
    """One run in a process of its own, from its start to its end."""
    begin, begun = time.monotonic(), time.time()
    command = [sys.executable, __file__, "--once", str(lake), "--begun", repr(begun)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    ended = time.monotonic()
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    total = ended - begin - found["later"]
    parts = sum(found[name] for name in ("imports", "session", *STAGES))
    figures = {**found, "rest": total - parts, "total": total}
    order = ("imports", "low", "session", "high", "audit", "publish", "rest", "total", "cpu", "later")
    return {name: round(figures[name], 2) for name in order}


def main() -> None:
    """Prints a line a run; `session` is how long the run waited for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.5, help="packets/s of a busy link")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--once", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--begun", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(replay_once(options.once, options.begun)))
        return
    folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    runs = []
    try:
        packets = prepare(folder / "lake", options.rate)
        print(f"{packets:,} packets of {len(LINKS)} links; seconds")
        for number in range(options.repeat):
            lake = shutil.copytree(folder / "lake", folder / f"lake-{number}")
            runs.append(measure(lake))
            if number == 0:
                print("".join(f"{name:>9}" for name in runs[0]))
            print("".join(f"{value:>9.2f}" for value in runs[-1].values()), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "packets": packets}
    figures |= {"runs": runs, "least": min(runs, key=lambda run: run["total"])}
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
