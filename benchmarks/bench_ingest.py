"""Packets per second of ingest (hash, decode, parquet, commit), beside nfpcapd and tshark on the same file in one run.

`make bench-ingest`, or `python benchmarks/bench_ingest.py [--packets N] [--rounds N] [--flows N]... [--json FILE]`.
Every figure is that of a process of its own, the best of the rounds, which alternate; each ends with its files written.

What a program that keeps flows costs depends on how many there are at a time. So there are several captures: the
generator's, an hour of short flows of which some thousands are alive at any time, and for each `--flows` one in which
so many TCP flows all send from the beginning to the end, in no order, at a million packets a second.
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

import numpy as np
from lowwater_generator import generate

from lowwater.capture.formats.capture_file import FILE_HEADER
from lowwater.instants import parse_instant

START = parse_instant("2026-01-01T00:00:00Z")
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "udp.srcport", "frame.len")
TSHARK_PACKETS = 100_000

INGEST = """
import sys, time
from pathlib import Path
from lowwater.config import Config
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from tests.memory import peak_memory
warm, path = map(Path, sys.argv[2:])
ingest(open_lake(Path(sys.argv[1]) / "warm"), "main1", [warm], Config())
lake = open_lake(Path(sys.argv[1]) / "lake")
begin = time.monotonic()
(done,) = ingest(lake, "main1", [path], Config())
print(time.monotonic() - begin, done.capture.packets, peak_memory() >> 10)
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


def concurrent(path: Path, packets: int, flows: int) -> Path:
    """Writes a capture of TCP packets (96 bytes of each), each of any of so many flows."""
    random = np.random.default_rng(flows)
    header = [("seconds", "<u4"), ("micros", "<u4"), ("captured", "<u4"), ("wire", "<u4")]
    ip = [("shape", ">u2"), ("total", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"), ("protocol", "u1"),
          ("sum", ">u2"), ("source", ">u4"), ("dest", ">u4")]  # fmt: skip
    tcp = [("sport", ">u2"), ("dport", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("flags", ">u2"), ("window", ">u2")]
    record = np.dtype([*header, ("macs", "S12"), ("type", ">u2"), *ip, *tcp, ("rest", "V46")])
    first, most = START // 1_000_000_000, 1 << 18
    with path.open("wb") as file:
        file.write(np.array([0xA1B2C3D4, 2 | 4 << 16, 0, 0, 96, 1], "<u4").tobytes()[:FILE_HEADER])
        for begin in range(0, packets, most):
            number = np.arange(begin, min(begin + most, packets))
            rows, flow = np.zeros(len(number), record), random.integers(0, flows, len(number))
            rows["seconds"], rows["micros"] = first + number // 1_000_000, number % 1_000_000
            rows["captured"], rows["type"], rows["shape"], rows["ttl"], rows["protocol"] = 96, 0x0800, 0x4500, 64, 6
            rows["total"] = random.integers(52, 1500, len(number))
            rows["wire"], rows["macs"], rows["id"] = rows["total"] + np.uint32(14), b"\2\1\1\1\1\1\2\2\2\2\2\2", number
            rows["source"], rows["dest"] = 0x0A000000 + flow // 16, 0xC0A80000 + flow % 4096
            rows["sport"], rows["dport"], rows["window"] = 1024 + flow % 60_000, 443, 501
            rows["seq"], rows["ack"] = random.integers(0, 1 << 32, (2, len(number)))
            rows["flags"] = 0x5010  # five words, ACK
            file.write(rows.tobytes())
    return path


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
    parser.add_argument(
        "--flows", type=int, action="append", help="flows at a time in another capture (1,000 and 200,000)"
    )
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    options.flows = options.flows or [1_000, 200_000]
    folder = Path(tempfile.mkdtemp(prefix="lowwater-bench-"))
    try:
        captures = generate(folder / "captures", START, 1, ("main1",), options.packets / 3600, seed=2, cut=())
        paths, warm = {"short flows": captures[0].path}, captures[1].path
        for flows in options.flows:
            name = f"{flows:,} flows"
            paths[name] = concurrent(folder / f"{flows}.pcap", options.packets, flows)
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in paths}
        for number in range(options.rounds):
            for name, path in paths.items():
                rounds[name].append(one_round(folder / str(number), warm, path))
                shutil.rmtree(folder / str(number))
        sizes = {name: path.stat().st_size for name, path in paths.items()}
        figures = {name: {"file_bytes": sizes[name], **best(found)} for name, found in rounds.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    print(machine)
    for name, found in figures.items():
        print(name)
        for key, value in found.items():
            shown = "not installed" if value is None else f"{value:,}" if isinstance(value, int) else value
            print(f"  {key:26} {shown}")
    if options.json:
        options.json.write_text(
            json.dumps({"machine": machine, "captures": figures}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
