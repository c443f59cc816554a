"""Implements `backfill`, `watch`, `try` and `ingest --watch`: running the intervals that are due, once
or again and again, or on trial.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePath
from threading import Lock

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lowwater import errors, instants, processes
from lowwater.cli import plans
from lowwater.cli.plans import total
from lowwater.config import Config, load_config
from lowwater.lake import layout, words
from lowwater.lake.ingestion.arrivals import Watch
from lowwater.lake.ingestion.folders import look
from lowwater.lake.ledgers.files import unread_lines
from lowwater.lake.ledgers.intervals import StatusRow, merged
from lowwater.lake.results.pins import pin
from lowwater.lake.words import RUNNING
from lowwater.replay.job import Job, TrialChanges
from lowwater.replay.progress import Progress as ReplayProgress
from lowwater.replay.schedule import ingesting, looks
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult, Order, backfill
from lowwater.replay.schedule.due import Due, DueSelection, open_jobs
from lowwater.replay.stages.runners import runner_of
from lowwater.replay.trial import Trial, describe_trial, open_trial, trials
from lowwater.storage.failures import away
from lowwater.terminal import open_console, say

# Implements `lowwater ingest --watch`: ingests what comes, until a signal stops it. It holds no lock between two
# ingests and keeps nothing but the lake, so it may be killed and started again at any time.

LOOK = 60.0
"""Seconds between two looks into the folders of the links while no file is ingested."""


def _say(line: str, problem: bool) -> None:
    say(line, err=problem)


def watch_patterns(
    root: PurePath,
    link: str | None,
    growing: bool,
    settle: int,
    every: int,
    span: tuple[int | None, int | None],
    spark: str | None = None,
) -> None:
    """Ingests the new and changed files of all patterns, or of one link's, until SIGINT or SIGTERM; what is at work is
    finished first. Raises ConfigError: at the start, the settings are wrong, or no link has a pattern."""
    config, lake = load_config(root), layout.open_lake(root, make=False)
    with processes.until_stopped() as stopped:
        watching = ingesting.Ingesting(lake, Watch(lake, settle, growing, link, span), _say, stopped, spark=spark)
        folders = _Folders(lake, watching.complain)
        arrivals = watching.watch.look(config)
        names = ", ".join(arrival.link for arrival in arrivals)
        say(f"watching {names}; ends with SIGINT or SIGTERM", err=True)
        while True:
            busy = watching.take(arrivals, config)
            folders.look(config, busy)
            if not busy:
                processes.pause(every / instants.SECOND, stopped)
            if stopped():
                break
            try:
                config = load_config(root)
                arrivals = watching.watch.look(config)
            except errors.LowwaterError as error:  # settings that are being edited, or a disk that comes back
                watching.complain(error)
                arrivals = []
        say(f"stopped: {watching.files:,} files ingested, {watching.refused:,} refused", err=True)


class _Folders:
    """What lies in the folders of the links and is not read, told while it is new."""

    def __init__(self, lake: layout.Lake, complain: Callable[[errors.LowwaterError], None]) -> None:
        self._lake, self._complain = lake, complain
        self._looked_at = -LOOK
        self._told: list[str] = []

    def look(self, config: Config, busy: bool) -> None:
        """Looks into the folders of the links after an ingest, and else from time to time; says what is new of it."""
        if not busy and time.monotonic() - self._looked_at < LOOK:
            return
        try:
            look(self._lake, config)
            lines = unread_lines(self._lake, config, hint=False)
        except errors.LowwaterError as error:
            self._complain(error)
            return
        self._looked_at = time.monotonic()
        for line in lines:
            if line not in self._told:
                say(line, err=True)
        self._told = lines


# Backfill.

STOPS = "stopping: intervals that run are finished first; Ctrl-C again gives them up"


def run_backfill(selection: plans.IntervalSelection, workers: int, order: str, spark: str | None = None) -> bool:
    """Runs the due intervals and prints their results. Returns whether each was published, or runs elsewhere. `order`:
    a value of `backfill.Order`."""
    kept: list[StatusRow] = []
    jobs, work, sound = plans.find_due(selection, runs=True, kept=kept)
    for line in plans.kept_lines(kept):
        say(line, err=True)
    if not work:
        _pin(jobs)
        say(plans.nothing_due(selection.lake, jobs))
        _tell_unread(jobs)
        return sound
    runner = runner_of("lowwater backfill", jobs[0].config, ReplayProgress(quiet=True), spark)
    say(total(work, plans.counted_word(jobs)), err=True)
    with _watched(work, workers) as watch:
        ended: list[IntervalResult] = []

        def ends(result: IntervalResult) -> None:
            ended.append(result)
            watch.ends(result)

        try:
            results = backfill(jobs, work, workers, Order(order), replace(watch, ends=ends), runner)
        except KeyboardInterrupt:
            _summary(ended, plans.counted_word(jobs))
            raise
    _pin(jobs)
    _summary(results, plans.counted_word(jobs))
    _tell_unread(jobs)
    return sound and all(result.published or result.state == RUNNING for result in results)


def _tell_unread(jobs: Sequence[Job]) -> None:
    """Names the files of the links that nobody reads: their hours are not among what ran, or not done by it."""
    for line in unread_lines(jobs[0].lake, jobs[0].config, {link for job in jobs for link in job.plan.links}):
        say(line, err=True)


def _pin(jobs: Sequence[Job]) -> None:
    """Writes the pins of query sets, which a process that died may have left behind."""
    for job in jobs:
        pin(job.lake, job.query_set, [query.name for query in job.plan.queries])


def _summary(results: Sequence[IntervalResult], counted: str) -> None:
    """Says what could not start, and how many intervals are in each state; what ran was said when it ended."""
    reasons = {result.due: result.reason for result in results if result.state == words.WAITING}
    for group in plans.alike(list(reasons), reasons.__getitem__):
        span = instants.range_words(group[0].start, group[-1].end, plans.number_of(group))
        why = plans.together(group, reasons[group[0]])
        say(f"{group[0].query_set} {span}: {words.WAITING}: {why}", err=True)
    counts: Counter[str] = Counter()
    for result in results:
        counts[result.state] += result.due.intervals  # one run may be of thousands
    counts_text = ", ".join(f"{state} {count:,}" for state, count in sorted(counts.items()))
    say(counts_text + plans.left_out([result.due for result in results if result.state == words.WAITING], counted))


@contextmanager
def _watched(work: Sequence[Due], workers: int) -> Iterator[BackfillListener]:
    """Shows progress: a bar with the running intervals on a terminal, else one line an interval."""
    clock = _Clock(len(work), workers)
    console = open_console(stderr=True)
    if not console.is_terminal:

        def say_ended(result: IntervalResult) -> None:
            line = clock.line(result)
            if result.state != words.WAITING:  # they are said together at the end
                say(line, err=True)

        yield BackfillListener(
            ends=say_ended,
            waits=lambda due, why: say(_waits(due, why), err=True),
            stops=lambda: say(STOPS, err=True),
        )
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.fields[left]}", markup=False), console=console) as bar:
        task = bar.add_task("", total=len(work), left="")
        at_work: dict[tuple[str, int], Due] = {}

        def begins(interval: Due) -> None:
            at_work[interval.query_set, interval.start] = interval
            bar.update(task, description=names_of([*at_work.values()]))

        def leaves(interval: Due) -> None:
            at_work.pop((interval.query_set, interval.start), None)

        def ends(result: IntervalResult) -> None:
            leaves(result.due)
            line = clock.line(result)
            if not result.published and result.state != words.WAITING:
                bar.console.print(line)
            bar.update(task, advance=1, description=names_of([*at_work.values()]), left=clock.left)

        def waits(due: Sequence[Due], why: str) -> None:
            bar.console.print(_waits(due, why))

        yield BackfillListener(begins, ends, leaves, waits, lambda: bar.console.print(STOPS))


def _waits(due: Sequence[Due], why: str) -> str:
    run, are = ("run", "are") if plans.number_of(due) > 1 else ("runs", "is")
    return f"{plans.in_intervals(plans.number_of(due))} {run} elsewhere, and {are} waited for: {why}"


class _Clock:
    """Counts finished intervals, and estimates the remaining time from their pace."""

    def __init__(self, total: int, workers: int) -> None:
        self._total, self._workers = total, workers
        self._done = self._ran = 0
        self._begin = time.monotonic()
        self._lock = Lock()
        self.left = ""

    def line(self, result: IntervalResult) -> str:
        """Formats the result of an interval and the overall progress."""
        with self._lock:
            self._done += 1
            self._ran += result.state != words.WAITING
            rest = self._total - self._done
            pace = (time.monotonic() - self._begin) / max(self._ran + result.more, 1)
            left = plans.duration_text((rest - result.more) * pace)
            self.left = f"about {left} left" if rest > result.more and self._ran else ""
            done = f"{self._done} of {self._total}" + (f", {self.left}" if self.left else "")
        rows = ", ".join(f"{count:,} rows of {name}" for name, count in result.rows.items())
        details = result.reason if not result.published else rows
        text = f"{interval_name(result.due)}: {result.state}, {result.seconds:.1f} s ({done})"
        return f"{text}: {details}" if details else text


def interval_name(interval: Due) -> str:
    """Names an interval, or a stretch of them, with its query set."""
    return f"{interval.query_set} {instants.range_words(interval.start, interval.end, interval.intervals)}"


def names_of(work: Iterable[Due]) -> str:
    """Names intervals; those that follow one another, as in a batch, together."""
    of_set: dict[str, list[Due]] = defaultdict(list)
    for each in work:
        of_set[each.query_set].append(each)
    names = list[str]()
    for name, mine in of_set.items():
        for start, end in merged((each.start, each.end) for each in mine):
            count = plans.number_of([each for each in mine if start <= each.start < end])
            names.append(f"{name} {instants.range_words(start, end, count)}")
    return ", ".join(names)


# Looks, one after another.


def watch_lake(
    root: PurePath, names: Sequence[str], queries: Path, workers: int, once: bool, spark: str | None
) -> bool:
    """Looks at a lake once, or until SIGINT or SIGTERM. Returns whether the only look was sound. Raises ConfigError: at
    the start, the settings are wrong. `names`: query sets; empty for those of the settings."""
    config = load_config(root)
    told = _Told(config.schedule.look_back)
    with processes.until_stopped() as stopped:
        listener = BackfillListener(ends=told.result, waits=told.elsewhere)
        looker = looks.Looker(root, names, queries, _say, listener, workers, spark, stopped, alone=once)
        if not once:
            every = instants.format_duration(config.schedule.every)
            say(f"looks at {root} every {every}; ends with SIGINT or SIGTERM", err=True)
        hindered = 0
        while True:
            try:
                found = looker.look()
                told.look(found, once)
                for one in found.found:
                    looks.keep_told(root, one.query_set, (left for left in one.stuck if left.news))
                hindered = hindered + 1 if found.hindered is not None else 0
                if once:
                    return found.sound
                if found.more and not stopped():
                    continue
                if found.hindered is None:  # where the lake is away for a moment, so are its settings
                    config = load_config(root)
            except errors.LowwaterError as error:  # settings that are being edited, or a store that is away
                if once:
                    raise
                hindered += away(error)
                told.once(f"error: {error}")
            processes.pause(looks.pause_after(hindered, config) / instants.SECOND, stopped)
            if stopped():
                return True


class _Told:
    """Says each thing once for as long as it lasts."""

    def __init__(self, look_back: int) -> None:
        self._look_back = look_back
        self._said: set[str] = set()
        self._now: set[str] = set()
        self._first = True  # a process that starts says what it found

    def once(self, line: str, problem: bool = True) -> None:
        """Says a line, of a problem on standard error, unless the look before said it."""
        if line not in self._said | self._now:
            say(line, err=problem)
        self._now.add(line)

    def look(self, found: looks.LookResult, once: bool) -> None:
        """Says what cannot run, and why: on standard error what is new of it, which cron mails."""
        for name, error in found.unplanned.items():
            self.once(f"query set {name}: {error}")
        for one in found.found:
            for left in one.stuck:
                if left.news or (self._first and not once):
                    self.once(_line(left, "stays" if left.failed else words.BLOCKED))
            behind = [left for left in one.waits if left.why.startswith(looks.BEHIND)]
            for left in one.waits:
                if left not in behind:
                    self.once(_line(left, "waits"), problem=False)
            if behind:
                count = sum(left.due.intervals for left in behind)
                self.once(f"{one.query_set}: {count:,} later intervals of the chain wait for it", problem=False)
            for failed, state in ((False, words.BLOCKED), (True, "have failed")):
                old = sum(each.due.intervals for each in one.stuck if not each.news and each.failed == failed)
                if once and old:
                    line = f"{one.query_set}: {old:,} more {state}, as before: `lowwater plan` lists them"
                    self.once(line, problem=False)
        ran = any(one.runs or one.waits or one.stuck for one in found.found)
        if once and not ran and not found.unplanned and found.hindered is None:
            say(f"nothing of the last {instants.spoken_duration(self._look_back)} is due")
        self._said, self._now, self._first = self._now, set(), False

    def result(self, result: IntervalResult) -> None:
        rows = ", ".join(f"{count:,} rows of {name}" for name, count in result.rows.items())
        details = result.reason if not result.published or not rows else "; ".join(filter(None, (rows, result.reason)))
        line = f"{interval_name(result.due)}: {result.state}, {result.seconds:.1f} s"
        say(f"{line}: {details}" if details else line, err=not result.published)

    def elsewhere(self, due: Sequence[Due], why: str) -> None:
        for each in due:
            self.once(f"{interval_name(each)}: runs elsewhere: {why}")


def _line(left: looks.Left, state: str) -> str:
    return f"{interval_name(left.due)}: {state}: {left.why}"


DIFFER = 3
"""Exit code: the rows differ from those that are published."""


@dataclass(frozen=True)
class TrialOptions:
    """Options of `lowwater try`."""

    name: str
    lake: PurePath
    queries: Path
    query_set: str | None  # query set to change; None for the one that has the files
    changes: TrialChanges  # query files and skews to try; empty for those of an existing trial
    start: int | None  # first instant of the intervals, ns since the epoch; None for no bound
    end: int | None  # end of the intervals, ns since the epoch, exclusive; None for no bound
    workers: int
    limit: int  # most rows to print
    promote: bool  # whether to publish the intervals of the trial


def list_trials(lake: layout.Lake) -> None:
    """Prints the trials of a lake."""
    names = trials(lake)
    for name in names:
        say(f"{name}: {describe_trial(lake, name)}")
    if not names:
        say(f"no trial: make one with `lowwater try NAME --lake {lake.root} --with FILE`, or --skew LINK=DURATION")


def run_trial(options: TrialOptions) -> int:
    """Runs, compares or promotes a trial. Returns the exit code.
    Raises LowwaterError if the trial cannot be opened or run."""
    query_set = options.query_set or _set_of(options)
    trial = open_trial(options.lake, options.name, options.queries, query_set, options.changes or None)
    if options.promote:
        return _promote(trial)
    results = trial.run(options.start, options.end, options.workers, BackfillListener(ends=_tell))
    failed = [result for result in results if not result.published]
    chosen = DueSelection(options.start, options.end)
    intervals = [each for each in trial.intervals() if chosen.holds(*each)]
    differ = _compare(trial, intervals, options.limit)
    if not intervals and not failed:
        say("nothing to run: every interval is published from the same inputs")
    return 1 if failed else DIFFER if differ else 0


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
    text = f"{instants.format_instant(result.due.start)}: {result.state}, {result.seconds:.1f} s"
    details = result.reason if not result.published else ", ".join(f"{k} {v:,}" for k, v in result.rows.items())
    say(f"{text}: {details}" if details else text, err=True)


def _compare(trial: Trial, intervals: list[tuple[int, int]], limit: int) -> bool:
    """Prints how the rows of a trial differ from those that are published. Returns whether they do."""
    differ = False
    for query in trial.tried.plan.queries if intervals else ():
        found = trial.compared(query.name, intervals)
        differ = differ or not found.equal
        say(f"{query.name}, {len(intervals):,} interval{'' if len(intervals) == 1 else 's'}: {found}")
        for line in islice(found.lines(), limit):
            say(line)
    return differ


def _promote(trial: Trial) -> int:
    """Publishes what a trial has computed. Returns the exit code."""
    waiting = [each for each in trial.intervals() if not trial.same(each)]
    if not waiting:
        say("nothing to promote: every interval of the trial is published from the same inputs")
        return 0
    code = 0
    for bounds in waiting:
        start = instants.format_instant(bounds[0])
        if reasons := trial.obstacles(bounds):
            say(f"{start}: not promoted: {'; '.join(reasons)}", err=True)
            code = 1
            continue
        try:
            say(f"{start}: {trial.promote(bounds, ReplayProgress(quiet=True))}")
        except errors.LowwaterError as error:
            say(f"{start}: not promoted: {error}", err=True)
            code = 1
    if code:
        say(
            f"hint: the lake must have what was tried: {describe_trial(trial.lake, trial.name)}; put these files into "
            "the place of those with their names, and these skews into lowwater.toml",
            err=True,
        )
    return code
