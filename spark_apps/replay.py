"""Runs one interval of a query set in a process of its own, started by a task of Airflow.

It calls the same functions as the command line, and writes its outcome as JSON for the caller.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowwater import errors
from lowwater.errors import LowwaterError
from lowwater.instants import parse_instant
from lowwater.storage import paths
from lowwater.storage.failures import outages
from lowwater.storage.paths import lake_path

if TYPE_CHECKING:
    from lowwater.replay.interval import Outcome


def main(arguments: list[str] | None = None) -> int:
    """Runs the interval; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("query_set")
    parser.add_argument("--lake", type=lake_path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--from", dest="start", type=parse_instant, required=True)
    parser.add_argument("--to", dest="end", type=parse_instant, required=True)
    parser.add_argument("--stage", choices=["low", "high", "audit", "publish"])
    parser.add_argument("--hold", action="store_true", help="all but publishing")
    parser.add_argument("--ask", action="store_true", help="all stages; not publishing where a person must approve")
    parser.add_argument("--edition", default="", help="with --ask: only by the queries and settings of this digest")
    parser.add_argument("--outcome", type=Path, required=True, help="file to which the outcome goes, as JSON")
    chosen = parser.parse_args(arguments)
    report: dict[str, Any]
    try:
        with outages():
            report = {"outcome": [asdict(outcome) for outcome in _outcomes(chosen)]}
    except LowwaterError as error:
        name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        report = {"error": name, "message": str(error)}
    chosen.outcome.write_text(json.dumps(report), encoding="utf-8")
    return 1 if "error" in report else 0


def _outcomes(chosen: argparse.Namespace) -> list[Outcome]:
    if chosen.stage == "audit":
        from lowwater.quality import judge

        judge.begin()  # it loads for seconds, beside imports; with other stages before it, it is there by then
    from lowwater.replay.interval import replay
    from lowwater.replay.job import Job
    from lowwater.replay.progress import Progress
    from lowwater.replay.schedule.looks import edited, waits_for

    job = Job.open(chosen.lake, chosen.query_set, chosen.queries)
    left = edited(job, chosen.start, chosen.end, chosen.edition) if chosen.edition else None
    left = left or (waits_for(job, chosen.start, chosen.end) if chosen.ask else None)
    if left is not None:
        return [left]
    return replay(job, chosen.start, chosen.end, chosen.stage, Progress(), hold=chosen.hold, ask=chosen.ask)


if __name__ == "__main__":
    with paths.private():
        code = main()
    gc.freeze()  # else Python looks for garbage once more when it ends, for half a second
    sys.exit(code)
