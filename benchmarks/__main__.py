"""`make bench`: every benchmark in turn, each beside its peer in the same run; figures as a table and as JSON."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
STAGES = (
    "plan",
    "capture",
    "low",
    "chunks",
    "heartbeats",
    "ingest",
    "files",
    "records",
    "high",
    "questions",
    "answers",
    "run",
    "first_run",
    "interval",
    "history",
    "review",
)
BENCHMARKS = tuple(f"bench_{stage}.py" for stage in STAGES)


def main() -> int:
    """Runs the benchmarks one after another; results go to `var/bench/<name>.json`."""
    results = FOLDER.parent / "var" / "bench"
    results.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in BENCHMARKS:
        print(f"\n== {name}", flush=True)
        target = results / f"{Path(name).stem}.json"
        command = [sys.executable, str(FOLDER / name), "--json", str(target)]
        failed |= subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": str(FOLDER.parent)}).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
