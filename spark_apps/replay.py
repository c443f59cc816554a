"""Runs an interval of a query set, or what is due of a range, in a process of its own, started by a task of Airflow.

It calls the same functions as the command line, and writes its outcome as JSON for the caller.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowwater import errors
from lowwater.errors import LowwaterError
from lowwater.instants import parse_instant
from lowwater.storage import paths
from lowwater.storage.failures import outages
from lowwater.storage.paths import lake_path

if TYPE_CHECKING:
    from lowwater.replay.job import Job
    from lowwater.replay.schedule.backfill import IntervalResult


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
    parser.add_argument("--due", action="store_true", help="what of the range is due and can run, in batches")
    parser.add_argument("--only", action="append", default=[], help="with --due: of the intervals in this state")
    parser.add_argument(
        "--edition", default="", help="with --ask or --due: only by the queries and settings of this digest"
    )
    parser.add_argument("--by", default="", help="address of the task, for the ledger")
    parser.add_argument("--outcome", type=Path, required=True, help="file to which the outcome goes, as JSON")
    chosen = parser.parse_args(arguments)
    report: dict[str, Any]
    try:
        with outages():
            report = {"outcome": _outcomes(chosen)}
    except LowwaterError as error:
        report = _error(error)
    chosen.outcome.write_text(json.dumps(report), encoding="utf-8")
    return 1 if "error" in report else 0


def _error(error: LowwaterError) -> dict[str, str]:
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    return {"error": name, "message": str(error)}


def _outcomes(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """The outcome of each interval that ran; with --due an error in the place of one that failed."""
    if chosen.stage == "audit":
        from lowwater.quality import judge

        judge.begin()  # it loads for seconds, beside imports; with other stages before it, it is there by then
    from lowwater.replay.interval import replay
    from lowwater.replay.job import Job
    from lowwater.replay.progress import Progress
    from lowwater.replay.schedule.looks import edited, waits_for

    job = replace(Job.open(chosen.lake, chosen.query_set, chosen.queries), by=chosen.by)
    left = edited(job, chosen.start, chosen.end, chosen.edition) if chosen.edition else None
    left = left or (waits_for(job, chosen.start, chosen.end) if chosen.ask else None)
    if left is not None:
        return [asdict(left)]
    if chosen.due:
        return _due(job, chosen)
    found = replay(job, chosen.start, chosen.end, chosen.stage, Progress(), hold=chosen.hold, ask=chosen.ask)
    return [asdict(outcome) for outcome in found]


def _due(job: Job, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    from lowwater.instants import range_words
    from lowwater.replay.interval import unchanged
    from lowwater.replay.progress import Progress
    from lowwater.replay.schedule.backfill import BackfillListener, backfill
    from lowwater.replay.schedule.looks import asked
    from lowwater.replay.stages.runners import runner_of

    job.require_suites()
    progress = Progress()

    def ends(tried: IntervalResult) -> None:
        title = range_words(tried.due.start, tried.due.end, tried.due.intervals)
        progress.say(f"{job.query_set} {title}: {tried.state} {tried.reason}".rstrip())

    work = asked(job, chosen.start, chosen.end, time.time_ns(), chosen.only).runs
    runner = runner_of("lowwater replay", job.config, progress)
    # Another process is waited for without a slot of Airflow: by the task.
    tried = backfill([job], work, watch=BackfillListener(ends=ends), runner=runner, patience=0.0)
    found = list[dict[str, Any]]()
    for each in sorted(tried, key=lambda each: each.due.start):
        if isinstance(each.result, LowwaterError):
            found.append({"start": each.due.start, "end": each.due.end, **_error(each.result)})
        else:
            found.append(asdict(each.result or unchanged(each.due.start, each.due.end, each.state, each.reason)))
    return found


if __name__ == "__main__":
    with paths.private():
        code = main()
    gc.freeze()  # else Python looks for garbage once more when it ends, for half a second
    sys.exit(code)
