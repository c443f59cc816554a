"""Times the graph challenge, and checks its rows: `python -m benchmarks.graph [--rate 300] [--seed 11]`.

It makes an hour of one link, runs `queries/graph/statistics.gsql` with anonymised addresses, and compares every row of
`statistics` with those of `challenge.py`. It prints the table of docs/graph-challenge.md.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.graph.challenge import STATISTICS, anonymised, statistics, valid_packets

QUERY = Path(__file__).parents[2] / "queries" / "graph" / "statistics.gsql"
KEY = bytes(range(32))


def run(capture: Path, out: Path, query: Path = QUERY, engine: str = "spark") -> list[dict[str, int]]:
    """Runs the query over a capture with anonymised addresses; returns the rows of `statistics` in order of `wid`.

    Args:
        capture: of the link `main1`.
        out: folder for results and settings.
        query: the query file.
        engine: `spark` or `reference`.
    """
    out.mkdir(parents=True, exist_ok=True)
    key, links = out / "key", out / "links.toml"
    key.write_bytes(KEY)
    key.chmod(0o600)
    links.write_text(f'[links.main1]\nanonymise = "{key}"\n')
    words = [sys.executable, "-m", "lowwater.cli.main", "run", query, "--capture", f"main1={capture}"]
    words += ["--links", links, "--out", out, "--engine", engine]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
    with (out / "statistics.csv").open(newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["wid"]))
    return [{name: int(row[name]) for name in STATISTICS} for row in rows]


def _processor_seconds() -> float:
    """Processor time of the ended child processes, s; other work on the machine hardly changes it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Generates, runs, compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = [sys.executable, "-m", "lowwater.cli.main", "generate", "--out", folder / "captures"]
        words += ["--links", "main1", "--rate", options.rate, "--seed", options.seed, "--skew", "main1=0"]
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)
        capture = min((folder / "captures" / "main1").iterdir())
        run(capture, folder / "warm")  # compiles the reader
        begin, before = time.monotonic(), _processor_seconds()
        rows = run(capture, folder / "results")
        seconds, processor = time.monotonic() - begin, _processor_seconds() - before
        sources, destinations = valid_packets(capture)
        begin = time.monotonic()
        plain = statistics(sources, destinations)
        counting = time.monotonic() - begin
        right = statistics(anonymised(sources, KEY), anonymised(destinations, KEY))
    assert rows == right == plain, "the rows are not those of the challenge"
    rate = f"{len(sources) / seconds:,.0f} packets/s"
    print(f"{len(sources):,} valid packets, {len(rows)} windows: {seconds:.1f} s, {rate}, {processor:.1f} s of a core")
    print(f"numpy counts the same windows in {counting:.2f} s, once packets are arrays")
    for number, row in enumerate(rows):
        print(f"| {number} | " + " | ".join(f"{row[name]:,}" for name in STATISTICS) + " |")


if __name__ == "__main__":
    main()
