"""Seconds of the processor for many small captures, by their number: ingest, plan, and `run` by the reference engine.

`make bench-files`, or `python benchmarks/bench_files.py [--files N]... [--json FILE]`. Each figure is that of a process
of its own, with the start of Python. What takes ten times as long for ten times as many files is linear.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from lowwater.capture.formats.capture_file import pcap_header, pcap_record
from lowwater.instants import SECOND, parse_instant

START = parse_instant("2026-01-01T00:00:00Z")
PERIOD, PACKETS = 10 * SECOND, 10
FRAME = bytes(12) + b"\x08\x00" + bytes.fromhex("45000028000000004011000000000000c0000201c6336401") + bytes(20)
QUERY = "SELECT tb, count(*) AS packets FROM main1.DataProtocol GROUP BY time/3600 AS tb\n"
SETTINGS = """[links.main1]
captures = "captures/s_%Y%m%dT%H%M%SZ.pcap"
rotation = "10s"
skew = "100ms"
[query_sets.hours]
files = ["hours.gsql"]
"""


def captures(folder: Path, count: int) -> list[Path]:
    """Writes captures of ten packets, one for each ten seconds."""
    folder.mkdir(parents=True)
    paths = []
    for number in range(count):
        begin = START + number * PERIOD
        path = folder / f"s_{datetime.fromtimestamp(begin // SECOND, UTC):%Y%m%dT%H%M%SZ}.pcap"
        records = [pcap_record(begin + at * SECOND, len(FRAME), FRAME, True) for at in range(PACKETS)]
        path.write_bytes(pcap_header(1, True) + b"".join(records))
        paths.append(path)
    return paths


def seconds(*words: object) -> float:
    """Runs `lowwater` with some words; returns the seconds of the processor, of all its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", "from lowwater.cli.main import main; main()", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 1)


def measured(folder: Path, count: int) -> dict[str, float]:
    """The seconds of each command over so many captures."""
    lake, query = folder / "lake", folder / "lake" / "hours.gsql"
    paths = captures(lake / "captures", count)
    (lake / "lowwater.toml").write_text(SETTINGS, encoding="utf-8")
    query.write_text(QUERY, encoding="utf-8")
    words = [word for path in paths for word in ("--capture", f"main1={os.path.relpath(path)}")]
    return {
        "files": count,
        "ingest": seconds("ingest", "--lake", lake),
        "ingest again": seconds("ingest", "--lake", lake),
        "plan": seconds("plan", "--lake", lake),
        "run": seconds("run", query, *words, "--engine", "reference", "--out", folder / "out"),
    }


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, action="append")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for count in options.files or [300, 1_000, 3_000, 10_000]:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(Path(folder), count))
        print("  ".join(f"{name} {value:,}" for name, value in rows[-1].items()), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
