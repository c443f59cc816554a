"""Fixed and marginal cost of an interval: seconds of every stage for a small and a larger hour of three links.

Run `python benchmarks/bench_run.py [--json FILE]`. Rows/s of the high stage are those of the LFTA rows that it reads;
the peer is DuckDB doing the whole query on the decoded packets in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
from lowwater_generator import generate

from lowwater.config import Config, Link
from lowwater.high.process import InProcess
from lowwater.instants import HOUR, parse_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.runs import read_replays
from lowwater.lake.tables import live_files, open_table
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_files
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress

ROOT = Path(__file__).resolve().parents[1]
START = parse_instant("2026-01-01T00:00:00Z")
LINKS = ("control", "main1", "main2")
FLOWS = """
SELECT timestamp // 10000000000 AS tb, protocol, srcIP_hi, srcIP_lo, destIP_hi, destIP_lo, srcPort, destPort, count(*)
FROM read_parquet(?) WHERE ipversion IS NOT NULL GROUP BY ALL
"""


def measure(rate: float, query: str, runner: InProcess, folder: Path) -> dict[str, Any]:
    """One hour of three links at a rate, replayed twice by one query set; the second run has everything warm."""
    captures = generate(folder / "captures", START, 1, LINKS, rate, seed=3, cut=())
    config = Config(links={name: Link() for name in LINKS}, sets={"main0_and_control": ("control", "main1")})
    lake = open_lake(folder / "lake")
    begin = time.monotonic()
    for each in captures:
        ingest(lake, each.link, [each.path], config, (each.start, each.end), runner.tasks("ingest"))
    ingested = time.monotonic() - begin
    packets = sum(row.packets for rows in read_captures(lake, LINKS).values() for row in rows)
    plan = plan_files([ROOT / "queries" / f"{query}.gsql"], Links(LINKS, config.sets))
    found: dict[str, Any] = {"query": query, "packets": packets, "ingest_s": round(ingested, 2)}
    for run in ("first", "warm"):
        # Another name of the query set makes the second run compute everything again.
        shutil.rmtree(lake.root / "tables", ignore_errors=True)
        shutil.rmtree(lake.root / "streams", ignore_errors=True)
        job = Job(lake, config, f"{query}_{run}", plan, HOUR)
        progress = Progress(quiet=True)
        replay(job, START, START + HOUR, None, progress, runner)
        found |= {f"{stage}_{run}_s": round(spent, 2) for stage, spent in progress.seconds.items()}
    rows = sum(row.rows or 0 for row in read_replays(lake, f"{query}_warm") if row.stage == "low")
    found["lfta_rows"] = rows
    found["high_rows_per_s"] = round(rows / found["high_warm_s"])
    found["low_packets_per_s"] = round(packets / found["low_warm_s"])
    table = open_table(lake.packets)
    assert table is not None
    files = [str(lake.packets / row["path"]) for row in live_files(table)]
    begin = time.monotonic()
    with duckdb.connect(config={"threads": os.cpu_count() or 1}) as connection:
        connection.sql(FLOWS, params=[files]).to_arrow_table()
    found["duckdb_flows_s"] = round(time.monotonic() - begin, 3)
    found["bytes_per_packet"] = round(sum(Path(file).stat().st_size for file in files) / packets, 1)
    return found


def main() -> None:
    """Prints the figures of a small and of a larger hour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--rates", default="0.5,300", help="packets/s of a busy link, comma separated")
    options = parser.parse_args()
    runner = InProcess()
    figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    figures["runs"] = []
    for rate in (float(text) for text in options.rates.split(",")):
        for query in ("flows", "full_flow"):
            folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
            try:
                found = {"rate": rate, **measure(rate, query, runner, folder)}
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            figures["runs"].append(found)
            print(", ".join(f"{key} {value}" for key, value in found.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
