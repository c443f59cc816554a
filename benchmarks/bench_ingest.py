"""Packets per second of ingest (hash, decode, parquet, commit), in process and on Spark, beside tshark.

Run `python benchmarks/bench_ingest.py [--packets N] [--json FILE]`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from lowwater.capture.generate import generate
from lowwater.config import Config, Link, parse_instant
from lowwater.high.session import build_session
from lowwater.high.tasks import spark_runner
from lowwater.lake.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.tasks import Runner, in_process

START = parse_instant("2026-01-01T00:00:00Z")
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "udp.srcport", "frame.len")
TSHARK_PACKETS = 100_000


def timed(folder: Path, name: str, path: Path, runner: Runner) -> tuple[float, int]:
    """Seconds and packets of one ingest into a new lake."""
    lake = open_lake(folder / name)
    begin = time.monotonic()
    (done,) = ingest(lake, "main1", [path], Config(links={"main1": Link()}), runner=runner)
    return time.monotonic() - begin, done.capture.packets


def tshark(path: Path) -> float | None:
    """Packets/s of tshark on the first packets of the file; None where it is not installed."""
    if shutil.which("tshark") is None:
        return None
    fields = [part for name in FIELDS for part in ("-e", name)]
    begin = time.monotonic()
    subprocess.run(
        ["tshark", "-n", "-r", str(path), "-c", str(TSHARK_PACKETS), "-T", "fields", *fields],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return TSHARK_PACKETS / (time.monotonic() - begin)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=4_000_000, help="in the capture, about")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    try:
        captures = generate(folder / "captures", START, 1, ("main1",), options.packets / 3600, seed=2, cut=())
        path = captures[0].path
        figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}
        figures["file_bytes"] = path.stat().st_size
        timed(folder, "compile", captures[1].path, in_process)
        spent, figures["packets"] = timed(folder, "process", path, in_process)
        figures["in_process_packets_per_s"] = round(figures["packets"] / spent)
        spark = build_session("lowwater bench")
        timed(folder, "warm", captures[1].path, spark_runner(spark))
        spent, _ = timed(folder, "spark", path, spark_runner(spark))
        spark.stop()
        figures["spark_packets_per_s"] = round(figures["packets"] / spent)
        stored = sum(file.stat().st_size for file in (folder / "spark" / "packets").rglob("*.parquet"))
        figures["bytes_per_packet"] = round(stored / figures["packets"], 1)
        peer = tshark(path)
        figures["tshark_packets_per_s"] = round(peer) if peer else None
        figures["ratio_to_tshark"] = round(figures["spark_packets_per_s"] / peer, 1) if peer else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, value in figures.items():
        print(f"{name:28} {value:,}" if isinstance(value, int) else f"{name:28} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
