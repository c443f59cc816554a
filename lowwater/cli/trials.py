"""Implements `lowwater try`: runs a trial, prints how its rows differ, and promotes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

from lowwater.cli.commands.results import row_text
from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.lake.layout import Lake
from lowwater.replay.job import TrialChanges
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult
from lowwater.replay.schedule.due import open_jobs
from lowwater.replay.trial import Trial, describe_trial, open_trial, trials
from lowwater.terminal import say

DIFFER = 3
"""Exit code: the rows differ from those that are published."""

SIGNS = {"added": "+", "gone": "-", "changed": "~"}


@dataclass(frozen=True)
class TrialOptions:
    """Options of `lowwater try`.

    Attributes:
        queries: folder of query sets.
        query_set: query set to change; None for the one that has the files.
        changes: query files and skews to try; empty for those of an existing trial.
        start: first instant of the intervals, ns since the epoch; None for no bound.
        end: end of the intervals, ns since the epoch, exclusive; None for no bound.
        workers: number of intervals that run at once.
        limit: most rows to print.
        promote: whether to publish the intervals of the trial.
    """

    name: str
    lake: PurePath
    queries: Path
    query_set: str | None
    changes: TrialChanges
    start: int | None
    end: int | None
    workers: int
    limit: int
    promote: bool


def list_trials(lake: Lake) -> None:
    """Prints the trials of a lake."""
    names = trials(lake)
    for name in names:
        say(f"{name}: {describe_trial(lake, name)}")
    if not names:
        say(f"no trial: make one with `lowwater try NAME --lake {lake.root} --with FILE`, or --skew LINK=DURATION")


def run_trial(options: TrialOptions) -> int:
    """Runs, compares or promotes a trial. Returns the exit code.

    Raises:
        LowwaterError: the trial cannot be opened or run.
    """
    query_set = options.query_set or _set_of(options)
    trial = open_trial(options.lake, options.name, options.queries, query_set, options.changes or None)
    if options.promote:
        return _promote(trial)
    results = trial.run(options.start, options.end, options.workers, BackfillListener(ends=_tell))
    failed = [result for result in results if not result.published]
    intervals = [each for each in trial.intervals() if _within(each, options)]
    differ = _compare(trial, intervals, options.limit)
    if not intervals and not failed:
        say("nothing to run: every interval is published from the same inputs")
    return 1 if failed else DIFFER if differ else 0


def _within(bounds: tuple[int, int], options: TrialOptions) -> bool:
    return (options.start is None or bounds[0] >= options.start) and (options.end is None or bounds[1] <= options.end)


def _set_of(options: TrialOptions) -> str | None:
    """Finds the query set that has the files of --with; None without files."""
    if not options.changes.files:
        return None
    jobs = open_jobs(options.lake, (), options.queries, lambda name, error: None)
    options.changes.require_used([file for job in jobs for file in job.files])
    names = {file.name for file in options.changes.files}
    found = [job.query_set for job in jobs if names & {file.name for file in job.files}]
    return found[0] if len(found) == 1 else None


def _tell(result: IntervalResult) -> None:
    text = f"{format_instant(result.due.start)}: {result.state}, {result.seconds:.1f} s"
    details = result.reason if not result.published else ", ".join(f"{k} {v:,}" for k, v in result.rows.items())
    say(f"{text}: {details}" if details else text, err=True)


def _compare(trial: Trial, intervals: list[tuple[int, int]], limit: int) -> bool:
    """Prints how the rows of a trial differ from those that are published. Returns whether they do."""
    differ = False
    for query in trial.tried.plan.queries if intervals else ():
        found = trial.compared(query.name, intervals)
        differ = differ or not found.equal
        say(
            f"{query.name}, {len(intervals):,} interval{'' if len(intervals) == 1 else 's'}: {found.added:,} added, "
            f"{found.gone:,} gone, {found.changed:,} changed, {found.same:,} the same"
        )
        for kind, old, new in found.examples[:limit]:
            say(f"{SIGNS[kind]} {row_text(found.columns, old, new)}")
    return differ


def _promote(trial: Trial) -> int:
    """Publishes what a trial has computed. Returns the exit code."""
    waiting = [each for each in trial.intervals() if not trial.same(each)]
    if not waiting:
        say("nothing to promote: every interval of the trial is published from the same inputs")
        return 0
    code = 0
    for bounds in waiting:
        start = format_instant(bounds[0])
        if reasons := trial.obstacles(bounds):
            say(f"{start}: not promoted: {'; '.join(reasons)}", err=True)
            code = 1
            continue
        try:
            say(f"{start}: {trial.promote(bounds, Progress(quiet=True))}")
        except LowwaterError as error:
            say(f"{start}: not promoted: {error}", err=True)
            code = 1
    if code:
        say(
            f"hint: the lake must have what was tried: {describe_trial(trial.lake, trial.name)}; put these files into "
            "the place of those with their names, and these skews into lowwater.toml",
            err=True,
        )
    return code
