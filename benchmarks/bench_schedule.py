"""What an hour costs in Airflow: a backfill of small hours, their ingest, and the time from a trigger to the rows.

`python benchmarks/bench_schedule.py [--hours 48] [--slots N] [--json FILE]` starts an Airflow of its own over SQLite
and a lake of three links, and lets it work. Goals: 2.5 s an interval in the backfill, 4 s from the trigger of a
quiet hour to its publication. `--history N` measures a backfill of days with N hours of two links, and nothing else.
Processor seconds are those of all processes of Airflow; other programs disturb them little.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from home import Home  # noqa: E402
from lowwater_generator import generate  # noqa: E402

from lowwater.instants import HOUR, format_instant, parse_instant  # noqa: E402
from lowwater.lake.layout import lake_to_read, open_lake  # noqa: E402
from lowwater.lake.ledgers.runs import PUBLISH, read_replays  # noqa: E402

START = parse_instant("2026-01-01T00:00:00Z")
LINKS = ("control", "main1", "main2")
QUERY = """DEFINE { query_name 'flows'; }
SELECT tb, srcIP, destIP, count(*) AS cnt FROM [all].DataProtocol GROUP BY time/10 AS tb, srcIP, destIP
"""


def prepare(folder: Path, hours: int) -> Home:
    """Makes captures, a query and settings, and the Airflow over them."""
    generate(folder / "captures", START, hours + 1, LINKS, rate=0.2, seed=7)
    (folder / "queries").mkdir()
    (folder / "queries" / "flows.gsql").write_text(QUERY, encoding="utf-8")
    lake = folder / "lake"
    lake.mkdir()
    sets = f"[sets]\nall = {json.dumps(LINKS)}\ntwo = {json.dumps(LINKS[1:])}"
    lines = [f'{sets}\n[replay]\npatience = "0s"\n[schedule]\nlook_back = "36500d"']
    lines += [
        f'[links.{link}]\ncaptures = "../captures/{link}/{link}_%Y%m%dT%H%M%SZ.pcap"\nrotation = "1h"\n'
        f'since = "{format_instant(START)}"'
        for link in LINKS
    ]
    (lake / "lowwater.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    open_lake(lake)
    return Home(folder / "airflow", lake, folder / "queries")


def spent(home: Home) -> float:
    """Processor seconds of an Airflow and of all that it has started."""
    seconds = 0.0
    for process in psutil.process_iter():
        try:
            if process.environ().get("AIRFLOW_HOME") == str(home.folder):
                used = process.cpu_times()
                seconds += used.user + used.system + used.children_user + used.children_system
        except psutil.Error:
            continue
    return seconds


def backfilled(home: Home, dag: str, hours: int) -> dict[str, float]:
    """Seconds and processor seconds of a backfill of the first hours."""
    begin, before = time.monotonic(), spent(home)
    home.backfill(dag, format_instant(START), format_instant(START + (hours - 1) * HOUR), parallel=hours)
    while True:
        runs = home.runs(dag)
        if len(runs) >= hours and all(run["state"] in ("success", "failed") for run in runs):
            break
        time.sleep(1)
    for run in runs:
        if run["state"] == "failed":
            print(dag, run["logical_date"], run["note"])
    failed = sum(run["state"] == "failed" for run in runs)
    took, used = time.monotonic() - begin, spent(home) - before
    return {"seconds": took / hours, "processor_seconds": used / hours, "failed": failed}


def history(hours: int, slots: int | None = None) -> dict[str, float]:
    """Seconds and processor seconds of Airflow's backfill of days of so many hours, whose captures are ingested, from
    the request to the end of the last run."""
    from lowwater.config import load_config
    from lowwater.lake.ingestion.ingest import ingest

    with tempfile.TemporaryDirectory() as scratch:
        home = prepare(Path(scratch), hours)
        lake, config = open_lake(home.lake), load_config(home.lake)
        for link in LINKS[1:]:
            ingest(lake, link, sorted((Path(scratch) / "captures" / link).glob("*.pcap")), config)
        home.queries.joinpath("flows.gsql").write_text(QUERY.replace("[all]", "[two]"), encoding="utf-8")
        home.prepare()
        home.start()
        try:
            home.ready("backfill_flows", slots=slots)
            begin, before = time.monotonic(), spent(home)
            home.backfill("backfill_flows", format_instant(START), format_instant(START + (hours - 1) * HOUR))
            days = (hours + 23) // 24
            ended, runs = {"success", "failed"}, home.runs("backfill_flows")
            while len(runs) < days or not {run["state"] for run in runs} <= ended:
                time.sleep(0.5)
                runs = home.runs("backfill_flows")
            took, used = time.monotonic() - begin, spent(home) - before
            published = {row.interval for row in read_replays(lake_to_read(home.lake), "flows", stage=PUBLISH)}
            failed = sum(run["state"] == "failed" for run in runs)
            for run in runs:
                print(run["logical_date"], run["state"], run["note"])
        finally:
            home.stop()
    found = {"runs": len(runs), "failed": failed, "hours": len(published)}
    return found | {"seconds": round(took, 1), "processor_seconds": round(used, 1)}


def triggered(home: Home, at: int) -> dict[str, float]:
    """Seconds from the trigger of one run to the publication of its hour."""
    begin = time.time_ns()
    bounds = {"logical_date": format_instant(at), "data_interval_start": format_instant(at)}
    home.ask("POST", "dags/replay_flows/dagRuns", bounds | {"data_interval_end": format_instant(at + HOUR)})
    while True:
        rows = read_replays(lake_to_read(home.lake), "flows", (at, at + HOUR), PUBLISH)
        if rows:
            return {"seconds": (rows[0].finished_at - begin) / 1e9}
        time.sleep(0.5)


def main() -> int:
    """Prints a line for each figure; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=48)
    parser.add_argument("--slots", type=int, help="of the pool; one a core unless given")
    parser.add_argument("--history", type=int, help="hours of a backfill of days, and nothing else")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count(), "hours": chosen.hours, "slots": chosen.slots}
    if chosen.history:
        print("history", history(chosen.history, chosen.slots))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        home = prepare(Path(scratch), chosen.hours)
        home.prepare()
        home.start()
        try:
            home.ready("capture_ingest", "replay_flows", slots=chosen.slots)
            found["ingest"] = backfilled(home, "capture_ingest", chosen.hours)
            found["replay"] = backfilled(home, "replay_flows", chosen.hours - 1)
            found["triggered"] = triggered(home, START + (chosen.hours - 1) * HOUR)
        finally:
            home.stop()
    for name in ("ingest", "replay", "triggered"):
        print(name, {key: round(value, 2) for key, value in found[name].items()}, "an hour")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
