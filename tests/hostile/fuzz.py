"""More worlds: `python -m tests.hostile.fuzz --reference 32 --process 8 --spark 8 --first 1000`; each has 16 cases."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile.compare import CASES_OF_A_WORLD, run_world


def main() -> int:
    """Runs the worlds, prints what differs; 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=int, default=32, help="worlds for the reference engine")
    parser.add_argument("--process", type=int, default=8, help="worlds for the runner of a process")
    parser.add_argument("--spark", type=int, default=8, help="worlds for Spark")
    parser.add_argument("--first", type=int, default=1000, help="seed of the first world")
    asked = parser.parse_args()
    total = wrong = 0
    for engine, count in (("reference", asked.reference), ("process", asked.process), ("spark", asked.spark)):
        for seed in range(asked.first, asked.first + count):
            with tempfile.TemporaryDirectory() as folder:
                compared, different = run_world(seed, engine, Path(folder))
            total, wrong = total + compared, wrong + len(different)
            print(f"{engine} world {seed}: {CASES_OF_A_WORLD} cases, {compared:,} rows, {len(different)} different")
            for each in different:
                print(each)
    print(
        f"{(asked.reference + asked.process + asked.spark) * CASES_OF_A_WORLD} cases, {total:,} rows, {wrong} different"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
