"""Records the archive of Java classes that sessions start from, by a small replay at set-up.

`make setup` runs `python -m lowwater.replay.setup.training`. A JVM that maps Spark's classes from one verified file is
ready seconds earlier than one that reads 270 jars (docs/adr/0007).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lowwater.capture.generate import generate
from lowwater.config import load_config
from lowwater.errors import LowwaterError
from lowwater.instants import HOUR, parse_instant
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.replay.command.run_command import RunRequest, run
from lowwater.replay.interval import replay
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.tempfolders import make_folder, remove_folder
from lowwater.terminal import say

if TYPE_CHECKING:
    from lowwater.spark.runner import OnSpark

START = parse_instant("2026-01-01T00:00:00Z")
LINKS = ("a", "b")
QUERIES = """
DEFINE { query_name 'loud'; }
SELECT time, srcIP, destPort, len FROM DataProtocol WHERE len > 100 AND destPort > 0;
DEFINE { query_name 'left_flow'; visibility 'internal'; }
SELECT tb, srcIP, destIP, count(*) AS cnt, sum(len) AS bytes FROM a.DataProtocol
GROUP BY time/10 AS tb, srcIP, destIP HAVING count(*) > 0;
DEFINE { query_name 'right_flow'; visibility 'internal'; }
SELECT tb, srcIP, destIP, count(*) AS cnt, avg(len) AS mean FROM b.DataProtocol GROUP BY time/10 AS tb, srcIP, destIP;
DEFINE { query_name 'both'; }
SELECT left_flow.tb, left_flow.srcIP, left_flow.destIP, left_flow.cnt AS cnt1, right_flow.cnt AS cnt2, mean
OUTER_JOIN FROM left_flow, right_flow
WHERE left_flow.srcIP = right_flow.srcIP AND left_flow.destIP = right_flow.destIP AND left_flow.tb = right_flow.tb
"""
"""Queries with each kind of operator, so that their classes are recorded."""


def train(folder: Path) -> Path:
    """Records the classes of a replay into an archive that replaces older ones, whole or not at all.

    Raises:
        LowwaterError: if the archive cannot be recorded.
    """
    from lowwater.spark.runner import OnSpark
    from lowwater.spark.session import SessionSettings, archive_of, build_session, end_jvm
    from lowwater.spark.sessions import Sessions

    recorded = folder / f"recorded-{os.getpid()}.jsa"
    work = make_folder("lowwater-training-")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        spark = build_session("lowwater training", SessionSettings("local[*]", record=recorded))
        try:
            _replay(OnSpark(Sessions("lowwater training", "local[*]", Progress(quiet=True).stage, spark)), work)
        finally:
            end_jvm(spark)
        if not recorded.exists():
            raise LowwaterError("the JVM wrote no archive of its classes", "does `java` support class data sharing?")
        for old in folder.glob("classes-*.jsa"):
            old.unlink()
        return recorded.rename(archive_of(recorded, folder))
    except OSError as error:
        raise LowwaterError(f"{folder} cannot be written: {error.strerror}", "make room on the disk") from error
    finally:
        with suppress(OSError):
            recorded.unlink()
        remove_folder(work)


def _replay(runner: OnSpark, folder: Path) -> None:
    """Runs an interval of few rows with audit and publishing, then the same queries as `lowwater run --spark`."""
    (folder / "training.gsql").write_text(QUERIES, encoding="utf-8")
    captures = generate(folder / "captures", START, 1, LINKS, rate=0.2, seed=1, cut=())
    lake = open_lake(folder / "lake")
    for capture in captures:
        ingest(lake, capture.link, [capture.path], load_config(lake.root), (capture.start, capture.end))
    job = Job.open(lake.root, "training", folder)
    replay(job, START, START + HOUR, None, Progress(quiet=True), runner)
    files = [(capture.link, capture.path) for capture in captures]
    run(RunRequest(job.plan, job.config, files, folder / "out"), Progress(quiet=True), runner)


def main() -> None:
    """Entry of `python -m lowwater.replay.setup.training`."""
    from lowwater.spark.jars import jars_folder

    try:
        say(str(train(jars_folder().parent)))
    except LowwaterError as error:
        # Only time is lost without the archive.
        say(f"no archive of Java classes, every session starts some seconds slower: {error}", err=True)


if __name__ == "__main__":
    main()
