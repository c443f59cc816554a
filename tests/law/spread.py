"""The law on a cluster: `python -m tests.law.spread --cases 200`, case by case, from a ledger of seeds.

Drawn cases are published by a driver whose tasks run on workers that share nothing but an S3 server with it, and are
held against the reference engine, which reads a lake in a folder. A run goes on behind the last seed of the ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.lake.layout import open_lake
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from scripts.machines import cluster
from tests.law.cases import Case, case
from tests.law.compare import LAKES, SPARK
from tests.law.fuzz import DIFFERENT, REFUSED, Outcome, accepted, following, rows_of
from tests.law.killed import compare_rows, expected, intervals_of, job_of, published, with_kills

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / "var" / "fuzz" / "cluster.jsonl"
ENGINE = "cluster"


def uploaded(folder: Path, target: ObjectPath) -> None:
    """Copies a lake into the store, the logs of its tables last."""
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: "_delta_log" in path.parts)
    for file in files:
        paths.send(file, 0, None, target / file.relative_to(folder).as_posix())


def check(drawn: Case, spark: SparkSession, target: ObjectPath) -> int:
    """Publishes a case on the cluster, and holds its tables against the reference engine; how many rows there were.

    Args:
        drawn: the case.
        spark: session on the cluster.
        target: prefix of the store that nobody has used.

    Raises:
        Difference: they are not equal.
    """
    whole, _ = LAKES.of(drawn.world)
    folder = Path(whole.root)
    uploaded(folder, target)
    far, near = job_of(drawn, open_lake(target), folder), job_of(drawn, whole, folder)
    intervals = intervals_of(drawn, near)
    published(far, intervals, with_kills(drawn), spark)
    theirs = expected(near, intervals, drawn)
    compare_rows(far, theirs, "published on a cluster beside reference")
    left = [*paths.files_below(far.lake.work)]
    if left:
        raise AssertionError(f"staging is left: {left[0]}")
    return sum(rows.total() for rows in theirs.values())


def run(seed: int, spark: SparkSession, lakes: ObjectPath) -> Outcome:
    """Runs the case of a number; never raises what the case is to blame for."""
    drawn, why = accepted(case(seed), SPARK)
    outcome = Outcome(seed, ENGINE, refused=why, families=tuple(question.family for question in drawn.asked))
    if not drawn.asked:
        return replace(outcome, outcome=REFUSED)
    began, target = time.monotonic(), lakes / f"case-{seed}"
    try:
        outcome.rows = check(drawn, spark, target)
    except Exception as error:  # noqa: BLE001 - whatever a case does is its outcome
        outcome.outcome, outcome.why = DIFFERENT, f"{type(error).__name__}: {error}"
    paths.remove_tree(target)
    outcome.seconds = round(time.monotonic() - began, 2)
    return outcome


def main() -> int:
    """Runs cases on a cluster of this machine; 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200, help="cases to run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no case begins after so many")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument("--begin", type=int, default=0, help="least seed")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "cluster-law", help="for the cluster's logs")
    options = parser.parse_args()
    options.ledger.parent.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + options.seconds
    with cluster(options.folder.absolute(), packages=str(ROOT)) as machines:  # functions of cases are of the tests
        os.environ.update(machines.environment())
        from lowwater.high.session import SessionSettings, build_session

        spark = build_session("lowwater law", SessionSettings(quick_start=False))
        for seed in following(options.cases, ENGINE, options.ledger, options.begin):
            if time.monotonic() > ends:
                break
            outcome = run(seed, spark, machines.lake("law"))
            with options.ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps(vars(outcome)) + "\n")
            if outcome.outcome == DIFFERENT:
                print(f"seed {seed}: {outcome.why}", flush=True)
        spark.stop()
    rows = rows_of(options.ledger)
    ran = [row for row in rows if row["outcome"] != REFUSED]
    different = [row for row in ran if row["outcome"] == DIFFERENT]
    total = sum(row["rows"] for row in ran)
    print(f"{len(ran)} cases on a cluster beside the reference engine: {total} rows, {len(different)} differences")
    return 1 if different else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of Arrow that still read ahead would abort the process while Python ends
