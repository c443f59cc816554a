"""What the first `lowwater run` costs: whole commands over a small capture, with empty caches and again.

Run `python benchmarks/bench_first_run.py [--json FILE] [--packets N] [--queries 1,20,140] [--outputs]`. Three states of
the machine: `bare`, nothing is compiled, not even the reader of captures (for the first number of queries only);
`first`, no kernel of these queries; `again`, the same command once more. Seconds of the wall, of the processors with
all children, and of each stage. 140 queries are 20 chains of seven.
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
from pathlib import Path
from typing import Any

from lowwater.capture.generate import generate
from lowwater.instants import parse_instant

START = parse_instant("2026-01-01T00:00:00Z")
COLUMNS = ("srcIP", "destIP", "srcPort", "destPort", "protocol", "ttl", "tos", "len", "id", "caplen")
CHAINS, LENGTH = 20, 7


def queries(count: int, outputs: bool = False) -> str:
    """So many queries, no two with the same kernel; above twenty, chains of seven of which the last is read, unless
    each shall be an output."""
    apart = outputs or count <= CHAINS
    chains = count if apart else max(1, count // LENGTH)
    return ";\n".join(text for number in range(chains) for text in _chain(number, 1 if apart else LENGTH))


def _chain(number: int, length: int) -> list[str]:
    keys = f"{COLUMNS[number % 10]}, {COLUMNS[(number * 3 + 1) % 10]}"
    found = [
        f"DEFINE {{ query_name 'q{number}_0'; }}\n"
        f"SELECT tb, {keys}, count(*) AS n, sum(len) AS s, max(ttl) AS m FROM IPV4 WHERE len > {10 * number} AND "
        f"ttl > {number} GROUP BY time/{10 + number} AS tb, {keys}"
    ]
    for at in range(1, length):
        found.append(
            f"DEFINE {{ query_name 'q{number}_{at}'; }}\n"
            f"SELECT tb, max(n) AS n, sum(s) AS s, max(m) AS m FROM q{number}_{at - 1} GROUP BY tb/2 AS tb"
        )
    hidden = [text.replace("'; }", "'; visibility 'internal'; }", 1) for text in found[:-1]]
    return [*hidden, found[-1]]


def command(folder: Path, text: str, capture: Path, engine: str, caches: dict[str, str]) -> dict[str, float]:
    """Seconds of one command and of its stages."""
    file, out = folder / "queries.gsql", folder / "out"
    file.write_text(text, encoding="utf-8")
    lowwater = Path(sys.executable).with_name("lowwater")
    arguments = [str(lowwater), "run", str(file), "--capture", f"main1={capture}", "--out", str(out)]
    arguments += ["--engine", engine]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(arguments, check=True, capture_output=True, env={**os.environ, **caches})
    spent, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stages = json.loads((out / "summary.json").read_text(encoding="utf-8"))["seconds"]
    shutil.rmtree(out)
    return {"wall": round(spent, 1), "cpu": round(cpu, 1), **{name: round(each, 2) for name, each in stages.items()}}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--packets", type=int, default=200, help="of the capture, about")
    parser.add_argument("--queries", default="1,20,140", help="how many, comma separated")
    parser.add_argument("--engine", default="process", help="process; reference has no kernel")
    parser.add_argument("--outputs", action="store_true", help="so many outputs, whatever their number")
    options = parser.parse_args()
    figures: dict[str, Any] = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "runs": []}
    counts = [int(text) for text in options.queries.split(",")]
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as name:
        folder = Path(name)
        made = generate(folder / "captures", START, 1, ("main1",), options.packets / 3600, seed=3, cut=())
        figures["packets"] = made[0].packets
        for count in counts:
            for state in (*(["bare"] if count == counts[0] else []), "first", "again"):
                caches = {"LOWWATER_CACHE": str(folder / f"kernels-{count}-{state == 'bare'}")}
                if state == "bare":
                    caches["NUMBA_CACHE_DIR"] = str(folder / "numba")
                spent = command(folder, queries(count, options.outputs), made[0].path, options.engine, caches)
                found = {"queries": count, "state": state, **spent}
                figures["runs"].append(found)
                print(", ".join(f"{key} {value}" for key, value in found.items()), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
