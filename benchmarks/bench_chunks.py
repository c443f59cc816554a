"""The low level over one large link, from the lake to its streams: in one chunk, and in a chunk a core.

Run `python benchmarks/bench_chunks.py [--packets N] [--repeat N] [--json FILE]`. The two alternate; each figure is the
best of its rounds. Chunks of a link run in parallel on one machine or on a cluster by the same tasks (docs/adr/0012).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_ingest import concurrent

from lowwater.config import Config
from lowwater.high.process import InProcess
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.low import LowSettings
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.plan.temporal import END_OF_TIME
from lowwater.replay.stages.engines import low_level, low_stage
from lowwater.replay.stages.inputs import LowInputs

FLOWS = """
SELECT tb, srcIP, destIP, srcPort, destPort, protocol, count(*) AS cnt, sum(len) AS bytes
FROM main1.DataProtocol GROUP BY time/10 AS tb, srcIP, destIP, srcPort, destPort, protocol
"""


def low(lake: Lake, packets: int, threads: int, folder: Path) -> tuple[float, float]:
    """Elapsed and processor seconds of one low stage, which leaves its streams."""
    plan = plan_texts([("flows.gsql", FLOWS)], Links(("main1",)), 1 << 16)
    inputs = LowInputs(lake, plan, Config(), 0, END_OF_TIME, read_captures(lake, ["main1"]))
    size, runner = -(-packets // threads) + (threads == 1), InProcess(threads)
    shutil.rmtree(folder, ignore_errors=True)
    begin, spent = time.monotonic(), time.process_time()
    low_stage(low_level(inputs, LowSettings(0, task_packets=size), folder), runner)
    return time.monotonic() - begin, time.process_time() - spent


def measure(packets: int, repeat: int, folder: Path) -> list[dict[str, Any]]:
    """A row for one chunk, and one for a chunk a core."""
    lake = open_lake(folder / "lake")
    capture = folder / "concurrent.pcap"
    concurrent(capture, packets, 100_000)
    ingest(lake, "main1", [capture], Config())
    cores = os.cpu_count() or 1
    low(lake, packets, 1, folder / "low")  # compiles
    rounds = [{chunks: low(lake, packets, chunks, folder / "low") for chunks in (1, cores)} for _ in range(repeat)]
    rows = []
    for chunks in (1, cores):
        seconds, spent = (min(each[chunks][at] for each in rounds) for at in range(2))
        shown = {"chunks": chunks, "seconds": round(seconds, 2), "cpu_s": round(spent, 2)}
        rows.append({**shown, "packets_per_s": round(packets / seconds)})
    return [{**row, "ratio": round(rows[0]["seconds"] / row["seconds"], 2)} for row in rows]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=8_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        rows = measure(given.packets, given.repeat, Path(folder))
    for row in rows:
        print(", ".join(f"{name} {value:,}" for name, value in row.items()))
    if given.json:
        given.json.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
