"""Where the time goes: processor seconds of a warm run of the five-tuple flows, by part.

`python -m benchmarks.bench_profile [--packets 10] [--folder FOLDER] [--json FILE]`. The captures are those of
`bench_end`. The first of two lakes compiles the query's kernels, the second gives the figures. Seconds of a part are
those of all threads, with the process of Great Expectations. `python -m benchmarks.performance --profile FILE` writes
them into docs/performance.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from benchmarks.bench_end import FOLDER, SIZES, captures, say
from benchmarks.ours import Home
from benchmarks.subjects import SUBJECTS
from benchmarks.watch import watch


def sampled(words: list[str | Path], scratch: Path) -> dict[str, Any]:
    """Runs one command under the sampler."""
    target = scratch / "sampled.json"
    watch([sys.executable, "-m", "benchmarks.sampled", target, *words], Home(None, scratch).variables())
    found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return found


def profiled(source: Path, folder: Path) -> dict[str, Any]:
    """Figures of `init`, `ingest` and `backfill`; whatever they wrote is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    figures: dict[str, Any] = {}
    try:
        for state in ("kernels", "warm"):
            lake = folder / f"lake-{state}"
            commands = {
                "init": ["init", source, "--lake", lake, "--query", SUBJECTS["flows"].file],
                "ingest": ["ingest", "--lake", lake],
                "backfill": ["backfill", "--lake", lake],
            }
            for name, words in commands.items():
                say(f"{state}: {name}")
                figures[name] = sampled(words, folder / "scratch")
            shutil.rmtree(lake)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def main() -> None:
    """Prints the parts and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=10, choices=SIZES, help="millions")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="holds the captures; all work is done there")
    parser.add_argument("--json", type=Path, help="of the figures (FOLDER/profile.json)")
    options = parser.parse_args()
    target = options.json or options.folder / "profile.json"
    source = captures(options.packets, options.folder, say)
    figures = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cores": os.cpu_count() or 1,
        "load_average": round(os.getloadavg()[0], 1),
        "millions": options.packets,
        "commands": profiled(source, options.folder / "profile"),
    }
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    say(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
