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
from typing import Any

from lowwater.errors import LowwaterError
from lowwater.instants import parse_instant
from lowwater.storage import paths
from lowwater.storage.paths import lake_path


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
    parser.add_argument("--outcome", type=lake_path, required=True, help="where the outcome goes, as JSON")
    chosen = parser.parse_args(arguments)
    from lowwater.replay.interval import replay
    from lowwater.replay.job import Job
    from lowwater.replay.progress import Progress

    report: dict[str, Any]
    try:
        job = Job.open(chosen.lake, chosen.query_set, chosen.queries)
        outcomes = replay(job, chosen.start, chosen.end, chosen.stage, Progress(), hold=chosen.hold)
        report = {"outcome": [asdict(outcome) for outcome in outcomes]}
    except LowwaterError as error:
        report = {"error": type(error).__name__, "message": str(error)}
    paths.write(chosen.outcome, json.dumps(report).encode())
    return 1 if "error" in report else 0


if __name__ == "__main__":
    with paths.private():
        code = main()
    gc.freeze()  # else Python looks for garbage once more when it ends, for half a second
    sys.exit(code)
