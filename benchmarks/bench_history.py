"""What history costs: hours of few packets from ingested captures to audited tables, by `backfill` and `watch --once`.

`python benchmarks/bench_history.py [--hours 100] [--more 0] [--airflow] [--json FILE]` makes a lake of two links with
720 packets an hour each, and copies of it for each command, which is a process of its own: its start counts. Processor
seconds are of all its processes, and fair on a busy machine. With `--more N` a backfill of N hours tells what a further
hour costs, files and bytes, and with it a year. `--airflow` has Airflow's own backfill run days of the same hours.
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
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

LINKS = ("main1", "main2")
RATE = 0.2
YEAR = 8760
BEGIN = "2026-01-01T00:00:00Z"
QUERY = """DEFINE {{ query_name '{name}'; }}
SELECT tb, srcIP, destIP, count(*) AS cnt FROM [all].DataProtocol GROUP BY time/10 AS tb, srcIP, destIP
"""


def make(folder: Path, hours: int) -> Path:
    """A lake with so many hours, of which nothing has run."""
    from lowwater_generator import generate

    from lowwater.config import load_config
    from lowwater.instants import parse_instant
    from lowwater.lake.ingestion.ingest import ingest
    from lowwater.lake.layout import open_lake

    lake = folder / "lake"
    lake.mkdir(parents=True)
    (folder / "queries").mkdir()
    (folder / "queries" / "flows.gsql").write_text(QUERY.format(name="flows"), encoding="utf-8")
    made = generate(folder / "captures", parse_instant(BEGIN), hours, LINKS, RATE, seed=7, cut=())
    lines = [f'[sets]\nall = {json.dumps(LINKS)}\n[replay]\npatience = "0s"\n[schedule]\nlook_back = "36500d"']
    lines += [
        f'[links.{link}]\ncaptures = "{folder}/captures/{link}/{link}_%Y%m%dT%H%M%SZ.pcap"\nrotation = "1h"\n'
        f'since = "{BEGIN}"\nuntil = "{ends(hours)}"'
        for link in LINKS
    ]
    (lake / "lowwater.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    opened, config = open_lake(lake), load_config(lake)
    for link in LINKS:
        ingest(opened, link, [each.path for each in made if each.link == link], config)
    return lake


def ends(hours: int) -> str:
    """The instant at which the links end."""
    from lowwater.instants import HOUR, format_instant, parse_instant

    return format_instant(parse_instant(BEGIN) + hours * HOUR)


def measured(lake: Path, *command: str) -> dict[str, Any]:
    """A command over a copy of a lake, in a process of its own: seconds, memory, and what it has added."""
    copy = Path(shutil.copytree(lake, lake.parent / f"lake-{command[0]}"))
    queries = ["--queries", str(lake.parent / "queries")]
    line = [str(Path(sys.executable).with_name("lowwater")), *command, "--lake", str(copy), *queries]
    before, began, begin = files_of(copy), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    took, ended = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stdout[-2000:] + done.stderr[-4000:])
    processor = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    added = files_of(copy) - before
    commits = sum(name.endswith(".json") and "_delta_log" in name for name in added)
    found = {"seconds": round(took, 1), "processor_seconds": round(processor, 1), "files": len(added)}
    found |= {"bytes": added.total(), "commits": commits, "pages": sum(name.endswith(".html") for name in added)}
    states = Counter(row.state for row in _statuses(copy, lake.parent / "queries"))
    shutil.rmtree(copy)
    return {**found, "states": dict(states)}


def _statuses(lake: Path, queries: Path) -> Any:
    from lowwater.replay.schedule.due import statuses

    return statuses(lake, queries)


def files_of(folder: Path) -> Counter[str]:
    """Name -> bytes of the files of a folder."""
    return Counter({str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()})


def main() -> None:
    """Prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=100)
    parser.add_argument("--more", type=int, default=0, help="hours of a second lake, for what a further hour costs")
    parser.add_argument("--airflow", action="store_true", help="also by a backfill of Airflow")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    found: dict[str, Any] = {"machine": machine, "load": round(os.getloadavg()[0], 1), "hours": chosen.hours}
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as scratch:
        lake = make(Path(scratch) / "few", chosen.hours)
        found["backfill"] = measured(lake, "backfill", "--query-set", "flows")
        print("backfill", found["backfill"], flush=True)
        found["watch"] = measured(lake, "watch", "--once")
        print("watch --once", found["watch"], flush=True)
        if chosen.more:
            many = measured(make(Path(scratch) / "many", chosen.more), "backfill", "--query-set", "flows")
            print(f"backfill of {chosen.more:,} hours", many, flush=True)
            found["more"] = {"hours": chosen.more, **many}
            found["year"] = a_year(chosen.hours, found["backfill"], chosen.more, many)
            print(f"{YEAR:,} hours", found["year"])
    if chosen.airflow:
        from benchmarks.bench_schedule import history

        found["airflow"] = history(chosen.hours)
        print("Airflow", found["airflow"])
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def a_year(few: int, of_few: dict[str, Any], many: int, of_many: dict[str, Any]) -> dict[str, int]:
    """What a year costs, by a line through two backfills."""
    return {
        name: round(of_few[name] + (of_many[name] - of_few[name]) / (many - few) * (YEAR - few))
        for name in ("seconds", "processor_seconds", "files", "bytes", "commits")
    }


if __name__ == "__main__":
    main()
