"""Runs the queries that other projects published over records of their schemas, and prints what became of them.

`python -m tests.public FOLDER` for checkouts of `com-gs-lite`, `tigon` and `ric-app-mc` in a folder, on both engines;
`--reference` leaves Spark out. Ends with 1 where rows are not equal. Nothing of the checkouts belongs to this project.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from lowwater.high.process import InProcess
from tests.public.recorded import compare_recorded
from tests.public.runs import Outcome, checked
from tests.public.sources import found, planned

HEAD = (
    "repository",
    "queries",
    "planned",
    "ran",
    "equal to DuckDB",
    "to the batch evaluator",
    "recorded files",
    "equal",
    "lines",
    "equal",
)


def main() -> int:
    """Runs all sets of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reference", action="store_true", help="without Spark")
    parser.add_argument("--seed", type=int, default=0, help="of the records")
    options = parser.parse_args()
    runner = None if options.reference else InProcess()
    outcomes: dict[str, list[tuple[str, Outcome]]] = {}
    for queries in found(options.folder):
        names, why = planned(queries)
        outcome = checked(queries, names, why, runner, options.seed)
        compare_recorded(queries, names, runner, outcome)
        outcomes.setdefault(queries.repository, []).append((queries.name, outcome))
        print(f"{queries.repository} {queries.name}: {len(outcome.ran)} ran, {outcome.rows} rows", flush=True)
        for text in outcome.different:
            print(f"  {text}", flush=True)
    print("", " | ".join(HEAD), " | ".join("---" for _ in HEAD), sep="\n")
    for repository, sets in outcomes.items():
        print(" | ".join(map(str, _row(repository, [outcome for _, outcome in sets]))))
    for repository, sets in outcomes.items():
        for name, outcome in sets:
            for query, why in outcome.unplanned.items():
                print(f"{repository} {name}: {query} does not plan: {why}")
        reasons = Counter(why for _, outcome in sets for why in outcome.no_sql.values())
        for why, count in reasons.items():
            print(f"{repository}: {count} without SQL: {why}")
    return 1 if any(outcome.different for sets in outcomes.values() for _, outcome in sets) else 0


def _row(repository: str, every: list[Outcome]) -> tuple[object, ...]:
    counted = (
        sum(outcome.queries for outcome in every),
        *(
            sum(len(getattr(outcome, name)) for outcome in every)
            for name in ("planned", "ran", "beside_sql", "beside_batch")
        ),
        *(sum(getattr(outcome, name)[at] for outcome in every) for name in ("files", "lines") for at in (0, 1)),
    )
    return repository, *counted


if __name__ == "__main__":
    sys.exit(main())
