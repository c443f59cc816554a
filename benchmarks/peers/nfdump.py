"""nfpcapd, then nfdump to CSV by five-tuple: `python -m benchmarks.peers.nfdump CAPTURES OUT`; prints JSON.

It answers a smaller question: one row a five-tuple, without epochs of ten seconds. nfpcapd runs once a link, as many
links at a time as there are processors.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROGRAMS = ("nfpcapd", "nfdump")
_PACKETS = 11  # column `ipkt` of nfdump's CSV


def collect(link: Path, out: Path) -> Path:
    """Flow records of all captures of a link."""
    folder = out / link.name
    folder.mkdir(parents=True)
    for capture in sorted(link.iterdir()):
        words = ["nfpcapd", "-r", str(capture), "-w", str(folder)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def main(captures: Path, out: Path) -> dict[str, float | int]:
    """Seconds of both programs, rows and packets of the CSV."""
    links = sorted(each for each in captures.iterdir() if each.is_dir())
    begin = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        folders = list(pool.map(lambda link: collect(link, out), links))
    collected = time.monotonic()
    file = out / "flows.csv"
    with file.open("wb") as target:
        # -n 0: all rows, not the first ten.
        several = ":".join(
            [str(folders[0]), *(folder.name for folder in folders[1:])]
        )  # the others stand beside the first
        words = ["nfdump", "-q", "-M", several, "-R", ".", "-n", "0", "-o", "csv"]
        words += ["-A", "proto,srcip,dstip,srcport,dstport"]
        subprocess.run(words, check=True, stdout=target, stderr=subprocess.DEVNULL)
    seconds = {"collect": round(collected - begin, 2), "aggregate": round(time.monotonic() - collected, 2)}
    return {**seconds, **_read(file)}


def _read(file: Path) -> dict[str, int]:
    """Rows and packets; `-q` leaves out header and summary."""
    rows = packets = 0
    with file.open(encoding="ascii", newline="") as source:
        for row in csv.reader(source):
            rows, packets = rows + 1, packets + int(row[_PACKETS])
    return {"rows": rows, "counted": packets}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
