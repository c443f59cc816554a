"""Plays many schedules: `python -m tests.simulation FIRST COUNT`; prints those that fail, with their stories."""

from __future__ import annotations

import sys
import time

from tests.simulation.lake import schedule
from tests.simulation.world import Violation


def main(first: int, count: int) -> int:
    begin, failed = time.process_time(), 0
    for seed in range(first, first + count):
        try:
            schedule(seed)
        except Violation as found:
            failed += 1
            print(f"seed {seed}: {found}", flush=True)
            if failed == 1:
                try:
                    schedule(seed, story=True)
                except Violation as again:
                    print("\n".join(again.__notes__), flush=True)
        done = seed + 1 - first
        if done % 10_000 == 0 or done == count:
            spent = time.process_time() - begin
            print(f"{done:,} schedules, {failed} with a violation, {spent:.0f} processor seconds", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
