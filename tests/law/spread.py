"""The law on a cluster: `python -m tests.law.spread --cases 200`, case by case, from a ledger of seeds.

Drawn cases are published by a driver whose tasks run on workers that share nothing but an S3 server with it, and are
held against the reference engine, which reads a lake in a folder. A run goes on behind the last seed of the ledger.
With `--kills SECONDS`, an executor or a Python worker is killed that often.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING

import psutil

from lowwater.lake.layout import open_lake
from lowwater.storage import paths
from lowwater.storage.object_paths import ObjectPath
from scripts.machines import Cluster, cluster
from tests.law.cases import Case, case
from tests.law.compare import LAKES, SPARK, Rows
from tests.law.fuzz import DIFFERENT, REFUSED, Outcome, accepted, following, rows_of
from tests.law.killed import PlainJob, compare_rows, expected, intervals_of, job_of, published, with_kills

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


@dataclass
class Prepared:
    """A case with the rows that it should publish.

    Attributes:
        outcome: its outcome so far.
        drawn: the case, without what no engine runs.
        folder: copy of its lake; None where nothing runs.
        near: its job over the lake in a folder.
        theirs: query -> rows of the reference engine.
    """

    outcome: Outcome
    drawn: Case
    folder: TemporaryDirectory[str] | None = None
    near: PlainJob | None = None
    theirs: dict[str, Rows] = field(default_factory=dict)


def prepared(seed: int) -> Prepared:
    """Draws the case of a number and evaluates it in this process."""
    drawn, why = accepted(case(seed), SPARK)
    outcome = Outcome(seed, ENGINE, refused=why, families=tuple(question.family for question in drawn.asked))
    if not drawn.asked:
        return Prepared(replace(outcome, outcome=REFUSED), drawn)
    whole, _ = LAKES.of(drawn.world)
    folder = TemporaryDirectory(prefix="lowwater-spread-")
    try:
        shutil.copytree(whole.root, folder.name, dirs_exist_ok=True)
        near = job_of(drawn, open_lake(Path(folder.name)), Path(folder.name))
        theirs = expected(near, intervals_of(drawn, near), drawn)
        return Prepared(outcome, drawn, folder, near, theirs)
    except Exception as error:  # noqa: BLE001 - whatever a case does is its outcome
        return Prepared(replace(outcome, outcome=DIFFERENT, why=f"{type(error).__name__}: {error}"), drawn, folder)


def run(ready: Prepared, spark: SparkSession, target: ObjectPath) -> Outcome:
    """Publishes a case on the cluster, and holds its tables against the reference engine.

    Args:
        ready: the case.
        spark: session on the cluster.
        target: prefix of the store that nobody has used.
    """
    outcome, near, began = ready.outcome, ready.near, time.monotonic()
    if near is not None and ready.folder is not None:
        try:
            uploaded(Path(ready.folder.name), target)
            far = replace(near, lake=open_lake(target))
            published(far, intervals_of(ready.drawn, near), with_kills(ready.drawn), spark)
            compare_rows(far, ready.theirs, "published on a cluster beside reference")
            if left := [*paths.files_below(far.lake.work)]:
                raise AssertionError(f"staging is left: {left[0]}")
            outcome.rows = sum(rows.total() for rows in ready.theirs.values())
        except Exception as error:  # noqa: BLE001
            outcome.outcome, outcome.why = DIFFERENT, f"{type(error).__name__}: {error}"
        paths.remove_tree(target)
    if ready.folder is not None:
        ready.folder.cleanup()
    outcome.seconds = round(time.monotonic() - began, 2)
    return outcome


@contextmanager
def killing(machines: Cluster, seconds: float) -> Iterator[list[str]]:
    """Kills an executor or a Python worker in turns, so often; yields what was killed. Seconds of 0: nothing."""
    over, killed = Event(), list[str]()

    def kill() -> None:
        chance = Random(0)
        for number in count():
            if over.wait(seconds):
                return
            words = ("CoarseGrainedExecutorBackend", "lowwater.spark.workers")[number % 2]
            if found := machines.processes(words):
                with suppress(psutil.NoSuchProcess):
                    chance.choice(found).kill()
                    killed.append(words)

    thread = Thread(target=kill, daemon=True)
    if seconds:
        thread.start()
    yield killed
    over.set()


def main() -> int:
    """Runs cases on a cluster of this machine; 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200, help="cases to run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no case begins after so many")
    parser.add_argument("--at-once", type=int, default=6, help="cases at once, most of which wait for the store")
    parser.add_argument("--workers", type=int, default=3, help="of the cluster")
    parser.add_argument("--kills", type=float, default=0.0, help="seconds between two kills; 0 for none")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument("--begin", type=int, default=0, help="least seed")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "cluster-law", help="for the cluster's logs")
    options = parser.parse_args()
    options.ledger.parent.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + options.seconds
    about = {"workers": options.workers, "packages": str(ROOT)}  # functions of cases are of the tests
    with cluster(options.folder.absolute(), **about) as machines:
        os.environ.update(machines.environment())
        from lowwater.spark.session import build_session
        from tests.runners import spark_runner

        spark = build_session("lowwater law", machines.master)
        runner = spark_runner(spark, machines.master)
        seeds = iter(following(options.cases, ENGINE, options.ledger, options.begin))
        waiting, spread = deque[Future[Outcome]](), False
        with ThreadPoolExecutor(options.at_once) as pool, killing(machines, options.kills) as killed:
            while True:
                while len(waiting) < options.at_once and time.monotonic() < ends and (seed := next(seeds, -1)) >= 0:
                    ready = prepared(seed)  # not in threads: cases of a world share its lake
                    waiting.append(pool.submit(run, ready, runner, machines.lake("law") / f"case-{seed}"))
                if not waiting:
                    break
                outcome = waiting.popleft().result()  # in the order of seeds: a run goes on behind the last one
                with options.ledger.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(vars(outcome)) + "\n")
                if outcome.outcome == DIFFERENT:
                    print(f"seed {outcome.seed}: {outcome.why}", flush=True)
                spread |= bool(machines.executors())
        spark.stop()
    print(f"killed: {dict(Counter(killed))}")
    rows = rows_of(options.ledger)
    ran = [row for row in rows if row["outcome"] != REFUSED]
    different = [row for row in ran if row["outcome"] == DIFFERENT]
    total = sum(row["rows"] for row in ran)
    print(f"{len(ran)} cases on a cluster beside the reference engine: {total} rows, {len(different)} differences")
    if ran and not spread:
        print("no worker of the cluster had an executor")
    return 1 if different or (ran and not spread) else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of Arrow that still read ahead would abort the process while Python ends
