"""How a lake grows in a year: a month of hours after the other, and what asking it takes then.

`python benchmarks/bench_year.py [--months 12] [--rate 0.02] [--folder F] [--json FILE]` keeps two links and one query
of one set, with an hour of a few packets from each link. Each month, 730 hours, is ingested, backfilled and maintained;
then `status`, `plan`, `report`, `metrics`, `ingest` and `watch --once` are asked as processes of their own, whose start
counts: first as after a change, then again with nothing new. Processor seconds are of all processes, and fair on a busy
machine. `--months 0` asks the lake that a run before has left in a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from benchmarks.bench_history import BEGIN, LINKS, QUERY, ends, files_of  # noqa: E402
from lowwater.caches import cache_folder  # noqa: E402

ASKED = {
    "status": ("status",),
    "by day": ("status", "--by-day"),
    "plan": ("plan",),
    "report": ("report",),
    "metrics": ("metrics",),
    "ingest": ("ingest",),
    "watch": ("watch", "--once"),
}
"""What a person or a schedule asks of a lake of which all is published."""

MONTH = 730
"""Hours of a month: twelve are a year."""


def make(folder: Path) -> Path:
    """A lake without captures."""
    (folder / "queries").mkdir(parents=True)
    (folder / "queries" / "flows.gsql").write_text(QUERY.format(name="flows"), encoding="utf-8")
    (folder / "lake").mkdir()
    return folder / "lake"


def settle(folder: Path, hours: int) -> None:
    """Settings by which the links end after so many hours: what comes later is missing to nobody."""
    lines = [f'[sets]\nall = {json.dumps(LINKS)}\n[replay]\npatience = "0s"\n[schedule]\nlook_back = "36500d"']
    for link in LINKS:
        pattern = f"{folder}/captures/{link}/{link}_%Y%m%dT%H%M%SZ.pcap"
        lines.append(f'[links.{link}]\ncaptures = "{pattern}"\nrotation = "1h"\npolicy = "publish"')
        lines.append(f'since = "{BEGIN}"\nuntil = "{ends(hours)}"')
    (folder / "lake" / "lowwater.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def asked(lake: Path, *command: str) -> dict[str, float]:
    """Seconds and processor seconds of a command."""
    line = [str(Path(sys.executable).with_name("lowwater")), *command, "--lake", str(lake)]
    if command[0] not in ("ingest", "maintain"):
        line += ["--queries", str(lake.parent / "queries")]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    took, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(line)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(took, 2), "processor_seconds": round(processor, 2)}


def month(folder: Path, lake: Path, first: int, hours: int, rate: float) -> dict[str, Any]:
    """A month of captures that come, are published and maintained: what it took, what it left, what asking takes."""
    from lowwater_generator import generate

    from lowwater.instants import HOUR, parse_instant

    generate(folder / "captures", parse_instant(BEGIN) + first * HOUR, hours, LINKS, rate, seed=first, cut=())
    settle(folder, first + hours)
    found: dict[str, Any] = {}
    for name in (("ingest",), ("backfill", "--query-set", "flows"), ("maintain",)):
        found[name[0]] = asked(lake, *name)
    return found | figures(lake, first + hours)


def figures(lake: Path, hours: int) -> dict[str, Any]:
    """Files and bytes of a lake, and what asking takes where no answer stands, and again."""
    files = files_of(lake)
    found = {"hours": hours, "files_an_hour": round(len(files) / hours, 2)}
    found |= {"kilobytes_an_hour": round(files.total() / hours / 1000, 1)}
    shutil.rmtree(cache_folder() / "answers", ignore_errors=True)
    turns = [{name: asked(lake, *command) for name, command in ASKED.items()} for _ in range(2)]
    return found | dict(zip(("first", "again"), turns, strict=True))


def main() -> None:
    """Prints a line for each month."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--rate", type=float, default=0.02, help="packets a second of each link")
    parser.add_argument("--folder", type=Path, help="where the lake stays, to ask it more; else it is removed")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    found: dict[str, Any] = {"machine": machine, "load": round(os.getloadavg()[0], 1), "months": []}
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as scratch:
        folder = chosen.folder or Path(scratch)
        lake = make(folder) if chosen.months else folder / "lake"
        for number in range(chosen.months):
            found["months"].append(month(folder, lake, number * MONTH, MONTH, chosen.rate))
            print(json.dumps(found["months"][-1]), flush=True)
        if not chosen.months:
            hours = len([*(folder / "captures" / LINKS[0]).iterdir()])
            found["months"].append(figures(lake, hours))
            print(json.dumps(found["months"][-1]), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
