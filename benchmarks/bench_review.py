"""Seconds and bytes of the review pages over a year of hourly intervals of three links: 8,760 intervals.

Every page is asked for twice: first when nothing is known of the ledgers, then again. `cpu` is the process's own time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowwater_review import Board, render  # noqa: E402

from lowwater.instants import HOUR  # noqa: E402
from lowwater.lake.tables import interval_label  # noqa: E402
from tests.review.ledgers import START, make  # noqa: E402


def main() -> int:
    """Prints a line a page; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=8760)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, queries = make(Path(folder), chosen.hours, frozenset({chosen.hours - 25}))
        board = Board(root, queries)
        begin = START + (chosen.hours - 25) * HOUR
        label = interval_label(begin, begin + HOUR)
        pages = ["index.html", "set/q.html", "query/q/flows.html", "skew/index.html", "skew/main1.html"]
        pages.append(f"interval/q/{label}.html")
        rows = []
        for again in (False, True):
            for address in pages:
                wall, cpu = time.perf_counter(), time.process_time()
                page = render(board.now(), address) or ""
                seconds = time.perf_counter() - wall, time.process_time() - cpu
                rows.append({"page": address, "warm": again, "bytes": len(page), "wall": seconds[0], "cpu": seconds[1]})
                state = "again" if again else "first"
                print(f"{address:66} {state}  {len(page):>9,} bytes  {seconds[0]:6.3f} s  cpu {seconds[1]:6.3f} s")
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
