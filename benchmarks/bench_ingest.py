"""Packets per second of ingest (hash, decode, parquet, commit), beside nfpcapd and tshark on the same file in one run.

`make bench-ingest`, or `python benchmarks/bench_ingest.py [--packets N] [--rounds N] [--json FILE]`. Every figure is
that of a process of its own, the best of the rounds, which alternate; each ends with its files written.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowwater.capture.generate import generate
from lowwater.config import parse_instant

START = parse_instant("2026-01-01T00:00:00Z")
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "udp.srcport", "frame.len")
TSHARK_PACKETS = 100_000

INGEST = """
import resource, sys, time
from pathlib import Path
from lowwater.config import Config
from lowwater.lake.ingest import ingest
from lowwater.lake.layout import open_lake
warm, path = map(Path, sys.argv[2:])
ingest(open_lake(Path(sys.argv[1]) / "warm"), "main1", [warm], Config())
lake = open_lake(Path(sys.argv[1]) / "lake")
begin = time.monotonic()
(done,) = ingest(lake, "main1", [path], Config())
print(time.monotonic() - begin, done.capture.packets, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
"""Kernels are compiled once for all captures of a process, so a small one goes first and does not count."""


def lowwater(folder: Path, warm: Path, path: Path) -> dict[str, Any]:
    """Packets/s, peak memory and bytes on disk of one ingest into a new lake."""
    words = [sys.executable, "-c", INGEST, str(folder), str(warm), str(path)]
    seconds, packets, peak = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    stored = sum(file.stat().st_size for file in (folder / "lake" / "packets").rglob("*.parquet"))
    return {
        "lowwater_packets_per_s": round(int(packets) / float(seconds)),
        "packets": int(packets),
        "peak_memory_mib": int(peak) >> 10,
        "bytes_per_packet_on_disk": round(stored / int(packets), 1),
    }


def peer(name: str, packets: int, words: Sequence[str | Path]) -> int | None:
    """Packets/s of another program; None where it is not installed."""
    if shutil.which(name) is None:
        return None
    begin = time.monotonic()
    subprocess.run([name, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return round(packets / (time.monotonic() - begin))


def one_round(folder: Path, warm: Path, path: Path) -> dict[str, Any]:
    """All programs, one after another."""
    flows = folder / "flows"
    flows.mkdir(parents=True)
    figures = lowwater(folder, warm, path)
    figures["nfpcapd_packets_per_s"] = peer("nfpcapd", figures["packets"], ["-r", path, "-w", flows])
    fields = [part for name in FIELDS for part in ("-e", name)]
    words = ["-n", "-r", path, "-c", str(TSHARK_PACKETS), "-T", "fields", *fields]
    figures["tshark_packets_per_s"] = peer("tshark", min(TSHARK_PACKETS, figures["packets"]), words)
    return figures


def best(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best speed of each program over the rounds, and the most memory."""
    found = {name: None if value is None else max(each[name] for each in rounds) for name, value in rounds[0].items()}
    for name in ("nfpcapd", "tshark"):
        speed = found[f"{name}_packets_per_s"]
        found[f"times_{name}"] = round(found["lowwater_packets_per_s"] / speed, 1) if speed else None
    return found


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=10_000_000, help="in the capture, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    try:
        captures = generate(folder / "captures", START, 1, ("main1",), options.packets / 3600, seed=2, cut=())
        path, warm = captures[0].path, captures[1].path
        figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores"}
        figures["file_bytes"] = path.stat().st_size
        rounds = []
        for number in range(options.rounds):
            rounds.append(one_round(folder / str(number), warm, path))
            shutil.rmtree(folder / str(number))
        figures |= best(rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, value in figures.items():
        shown = "not installed" if value is None else f"{value:,}" if isinstance(value, int) else value
        print(f"{name:26} {shown}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
