"""Implements `plan`, `backfill`, `watch`, `try` and `ingest --watch`: which intervals are due, and running them, once
or again and again, or on trial.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path, PurePath
from threading import Lock

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lowwater.config import Config, load_config
from lowwater.errors import LowwaterError
from lowwater.instants import SECOND, format_duration, format_instant, spoken_duration
from lowwater.lake.ingestion.arrivals import Watch
from lowwater.lake.ingestion.folders import look
from lowwater.lake.ingestion.replacement import LedgerFiles
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.files import location, told_files, unread_lines
from lowwater.lake.ledgers.intervals import RUNNING, range_words
from lowwater.lake.ledgers.missing import outside_lines
from lowwater.lake.query_sets import WAITING
from lowwater.lake.results.publish import pin
from lowwater.processes import pause, until_stopped
from lowwater.replay.job import Job, TrialChanges
from lowwater.replay.progress import Progress as ReplayProgress
from lowwater.replay.schedule.backfill import BackfillListener, IntervalResult, Order, backfill
from lowwater.replay.schedule.due import Due, DueSelection, due, open_jobs, outdated_audits
from lowwater.replay.schedule.ingesting import Ingesting, lying
from lowwater.replay.schedule.looks import BEHIND, Left, Looker, LookResult, keep_told, pause_after
from lowwater.replay.stages.runners import runner_of
from lowwater.replay.trial import Trial, describe_trial, open_trial, trials
from lowwater.storage.failures import away
from lowwater.terminal import open_console, say, styled

# Implements `lowwater ingest --watch`: ingests what comes, until a signal stops it. It holds no lock between two
# ingests and keeps nothing but the lake, so it may be killed and started again at any time.

LOOK = 60.0
"""Seconds between two looks into the folders of the links while no file is ingested."""


def say_line(line: str, problem: bool) -> None:
    """Prints a line, of a problem on standard error."""
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
    """Ingests the new and changed files of all patterns until SIGINT or SIGTERM; what is at work is finished first.
    Raises ConfigError: at the start, the settings are wrong, or no link has a pattern.

    Args:
        link: the only link to watch; None for all.
        settle: time without a write after which a file may be complete, ns.
        span: only files that cover some of [start, end), ns, count; None for no bound.
    """
    config, lake = load_config(root), open_lake(root, make=False)
    with until_stopped() as stopped:
        watching = Ingesting(lake, Watch(lake, settle, growing, link, span), say_line, stopped, spark=spark)
        folders = _Folders(lake, watching.complain)
        arrivals = watching.watch.look(config)
        names = ", ".join(arrival.link for arrival in arrivals)
        say(f"watching {names}; ends with SIGINT or SIGTERM", err=True)
        while True:
            busy = watching.take(arrivals, config)
            folders.look(config, busy)
            if not busy:
                pause(every / SECOND, stopped)
            if stopped():
                break
            try:
                config = load_config(root)
                arrivals = watching.watch.look(config)
            except LowwaterError as error:  # settings that are being edited, or a disk that comes back
                watching.complain(error)
                arrivals = []
        say(f"stopped: {watching.files:,} files ingested, {watching.refused:,} refused", err=True)


class _Folders:
    """What lies in the folders of the links and is not read, told while it is new."""

    def __init__(self, lake: Lake, complain: Callable[[LowwaterError], None]) -> None:
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
        except LowwaterError as error:
            self._complain(error)
            return
        self._looked_at = time.monotonic()
        for line in lines:
            if line not in self._told:
                say(line, err=True)
        self._told = lines


# Plan and backfill.

DIGITS = 3
"""Number of digits of an estimate."""

SHOWN = 3
"""Maximum number of reasons of an interval in a table; JSON has all."""


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")

STOPS = "stopping: intervals that run are finished first; Ctrl-C again gives them up"


@dataclass(frozen=True)
class IntervalSelection:
    """Selects intervals of query sets: the options that `plan` and `backfill` share."""

    lake: PurePath
    start: int | None  # first instant, ns since the epoch; None for no bound
    end: int | None  # end, ns since the epoch, exclusive; None for no bound
    names: tuple[str, ...]  # names of query sets; empty for all of the settings
    kinds: tuple[str, ...]  # states of `due.KINDS` to include; empty for all
    through_end: bool  # whether to include intervals that captures cover only in part, where a link begins or ends
    queries: Path
    changes: TrialChanges | None = None  # query files and skews to try; None for none


def show_plan(selection: IntervalSelection, form: str) -> None:
    """Prints the intervals that are due, as `text` or `json`."""
    jobs, work, _ = _due(selection)
    unread = [*_lying(jobs), *_unread(jobs)]
    if form == "json":
        say(_as_json(work, unread))
        return
    if not work:
        say(_nothing(selection.lake, jobs))
    else:
        _show_table(work, _counted(jobs))
    for line in (*outside_lines(jobs[0].lake, jobs[0].config), *unread):
        say(line)
    for job in jobs:
        if others := outdated_audits(job, DueSelection(selection.start, selection.end)):
            where, first, last = (
                shlex.quote(str(selection.lake)),
                format_instant(others[0][0]),
                format_instant(others[-1][1]),
            )
            say(
                f"{job.query_set}: {_intervals(len(others))} audited by suites that have changed since; to audit "
                f"the same rows again: lowwater replay {job.query_set} --lake {where} --stage audit "
                f"--from {first} --to {last}"
            )


def _nothing(root: PurePath, jobs: Sequence[Job]) -> str:
    """Says that nothing is due; where that is because the lake holds no captures, what to do."""
    links = sorted({link for job in jobs for link in job.plan.links})
    if not links or any(read_captures(jobs[0].lake, links).values()):
        return "nothing is due"
    command = f"lowwater ingest --lake {shlex.quote(str(root))}"
    named = any(jobs[0].config.link(link).captures for link in links)
    more = (
        "` takes in those that its settings name" if named else f" --link {shlex.quote(links[0])} FILE` takes in a file"
    )
    many = "s" if len(links) > 1 else ""
    return f"nothing is due: the lake has no captures of link{many} {', '.join(links)}\n  hint: `{command}{more}"


def _lying(jobs: Sequence[Job]) -> list[str]:
    """Says which files lie in the folders of links that no ingest has seen yet: what is due follows from them, too."""
    if not jobs:
        return []
    lake, links = jobs[0].lake, {link for job in jobs for link in job.plan.links}
    known = {location(lake, key) for key in told_files(lake)}
    files: dict[str, list[str]] = {}
    ledgers: dict[str, LedgerFiles] = {}
    for link, path in lying(lake, jobs[0].config, links, time.time_ns()):
        ledger = ledgers.setdefault(link, LedgerFiles(lake, link, jobs[0].config.link(link)))
        # What was ingested while its last write was new is looked at once more, and is no news.
        seen = any(file.row.bytes == path.stat().st_size for file in ledger.at(path))
        if not seen and str(path.absolute()) not in known:
            files.setdefault(link, []).append(path.name)
    return [
        f"link {link!r}: {len(names):,} file{'' if len(names) == 1 else 's'} not ingested yet, {sorted(names)[0]}"
        f"{' the first' if len(names) > 1 else ''}: lowwater ingest --lake {shlex.quote(str(lake.root))}"
        for link, names in sorted(files.items())
    ]


def _unread(jobs: Sequence[Job]) -> list[str]:
    """Says which files that lie in the folders of the links of query sets are not read."""
    links = {link for job in jobs for link in job.plan.links}
    return unread_lines(jobs[0].lake, jobs[0].config, links) if jobs else []


def _counted(jobs: Sequence[Job]) -> str:
    """Names what the links of query sets hold: packets, or records where some links hold others."""
    kinds = {job.config.link(link).kind for job in jobs for link in job.plan.links}
    return "packets" if kinds <= {"pcap"} else "records"


def _show_table(work: Sequence[Due], counted: str) -> None:
    table = Table("interval", "query set", "state", counted, "seconds", "why", box=None)
    for group in _alike(work, _why):
        first, known = group[0], [each.seconds for each in group if each.seconds is not None]
        cells = (
            range_words(first.start, group[-1].end, _number(group)),
            first.query_set,
            RUNNING if first.running else first.state,
            _packets(sum(each.packets for each in group), all(each.exact for each in group)),
            f"{sum(known):,.1f}" if len(known) == len(group) else "?",
            _together(group, _why(first)),
        )
        table.add_row(*(styled(cell) for cell in cells))
    open_console().print(table)
    say(_total(work, counted))


def _alike(work: Sequence[Due], why: Callable[[Due], str]) -> list[list[Due]]:
    """Puts intervals together that follow each other and cannot start for causes that differ in their instants only."""
    groups: list[list[Due]] = []
    for interval in sorted(work, key=lambda due: (due.query_set, due.start)):
        last = groups[-1] if groups else []
        if (
            last
            and interval.blocked
            and (last[-1].query_set, last[-1].end, last[-1].state, bool(last[-1].running))
            == (interval.query_set, interval.start, interval.state, bool(interval.running))
            and _timeless(why(last[-1])) == _timeless(why(interval))
        ):
            last.append(interval)
        else:
            groups.append([interval])
    return sorted(groups, key=lambda group: (group[0].start, group[0].query_set))


def _timeless(why: str) -> list[str]:
    return list(dict.fromkeys(_INSTANT.sub("", part) for part in re.split(r"; |\. Cannot start: ", why)))


def _together(group: Sequence[Due], why: str) -> str:
    """Adds to the cause of the first interval of a group that the others have others of its kind."""
    return why if len(group) == 1 else f"{why}; and so in each, at its own instants"


def _as_json(work: Sequence[Due], unread: Sequence[str]) -> str:
    """Formats intervals as JSON, one object each, with bounds in ns and as text, and the lines about unread files."""
    rows = [
        {**asdict(interval), "from": format_instant(interval.start), "to": format_instant(interval.end)}
        for interval in work
    ]
    return json.dumps({"intervals": rows, "files": list(unread)}, indent=2, ensure_ascii=False)


def _due(selection: IntervalSelection) -> tuple[list[Job], list[Due], bool]:
    """Finds the intervals that are due, and prints the errors of query sets that cannot be planned. Returns the query
    sets, their due intervals, and whether all configured query sets can be planned."""
    start, end = selection.start, selection.end
    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")
    refused: list[str] = []

    def tell(name: str, error: LowwaterError) -> None:
        refused.append(name)
        say(f"query set {name}: {error}", err=True)

    jobs = [
        replace(job, through_end=selection.through_end)
        for job in open_jobs(selection.lake, selection.names, selection.queries, tell, selection.changes)
    ]
    if selection.changes is not None:
        selection.changes.require_used([file for job in jobs for file in job.files])
    return (
        jobs,
        [interval for job in jobs for interval in due(job, DueSelection(start, end, selection.kinds))],
        not refused,
    )


def _why(interval: Due) -> str:
    text = "; ".join(interval.reasons[:SHOWN])
    more = len(interval.reasons) - SHOWN
    text += f"; and {more} more" if more > 0 else ""
    text = f"{interval.running}; {text}" if interval.running else text
    return f"{text}. Cannot start: {interval.blocked}" if interval.blocked else text


def _left_out(work: Sequence[Due], counted: str) -> str:
    """Describes the intervals that cannot start because captures begin or end inside them; empty if there are none."""
    edges = [interval for interval in work if interval.at_edge]
    if not edges:
        return ""
    packets = _packets(sum(interval.packets for interval in edges), all(interval.exact for interval in edges))
    return (
        f"; not run: {_intervals(_number(edges))}, {packets} {counted}, in which captures begin or end: "
        "add since and until to the links, or --through-end"
    )


def _total(work: Sequence[Due], counted: str) -> str:
    startable = [interval for interval in work if not interval.blocked]
    packets = _packets(sum(interval.packets for interval in startable), all(interval.exact for interval in startable))
    durations = [interval.seconds for interval in startable if interval.seconds is not None]
    unknown = len(startable) - len(durations)
    spent = f"about {_duration(sum(durations))} one after another" if durations else "no earlier run tells how long"
    spent += f", {unknown} of them unknown" if durations and unknown else ""
    written = [interval.bytes for interval in startable if interval.bytes is not None]
    spent += f", about {_bytes(sum(written))} between the stages" if sum(written) else ""
    waiting = _number(work) - _number(startable)
    rest = f"; {waiting:,} cannot start" if waiting else ""
    running = _number([interval for interval in startable if interval.running])
    rest += f"; {running:,} of them {'run' if running > 1 else 'runs'} now" if running else ""
    rest += _left_out([interval for interval in work if interval.blocked], counted)
    return f"{_intervals(_number(startable))} to run{_in_runs(startable)}, {packets} {counted}, {spent}{rest}"


def _number(work: Sequence[Due]) -> int:
    return sum(interval.intervals for interval in work)


def _in_runs(work: Sequence[Due]) -> str:
    """Says in how many runs intervals are run, where stretches of them run as one."""
    return "" if _number(work) == len(work) else f" in {len(work):,} run{'' if len(work) == 1 else 's'}"


def _bytes(count: int) -> str:
    """Formats a number of bytes with its unit.

    Example:
        >>> _bytes(999), _bytes(4_200_000), _bytes(17_000_000_000)
        ('1 kB', '4.2 MB', '17 GB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.2g} {unit}" if count < 100 * size else f"{count / size:,.0f} {unit}"
    return f"{count / 1000:.0f} kB"


def _packets(count: int, exact: bool) -> str:
    """Formats a number of packets; an estimate is rounded to three digits."""
    if exact:
        return f"{count:,}"
    unit = max(10 ** (len(str(count)) - DIGITS), 1)
    return f"about {round(count / unit) * unit:,}"


def run_backfill(selection: IntervalSelection, workers: int, order: str, spark: str | None = None) -> bool:
    """Runs the due intervals and prints their results. Returns whether each was published, or runs elsewhere. `order`:
    a value of `backfill.Order`."""
    jobs, work, sound = _due(selection)
    if not work:
        _pin(jobs)
        say(_nothing(selection.lake, jobs))
        return sound
    runner = runner_of("lowwater backfill", jobs[0].config, ReplayProgress(quiet=True), spark)
    say(_total(work, _counted(jobs)), err=True)
    with _watched(work, workers) as watch:
        ended: list[IntervalResult] = []

        def ends(result: IntervalResult) -> None:
            ended.append(result)
            watch.ends(result)

        try:
            results = backfill(jobs, work, workers, Order(order), replace(watch, ends=ends), runner)
        except KeyboardInterrupt:
            _summary(ended, _counted(jobs))
            raise
    _pin(jobs)
    _summary(results, _counted(jobs))
    return sound and all(result.published or result.state == RUNNING for result in results)


def _pin(jobs: Sequence[Job]) -> None:
    """Writes the pins of query sets, which a process that died may have left behind."""
    for job in jobs:
        pin(job.lake, job.query_set, [query.name for query in job.plan.queries])


def _summary(results: Sequence[IntervalResult], counted: str) -> None:
    """Says what could not start, and how many intervals are in each state; what ran was said when it ended."""
    reasons = {result.due: result.reason for result in results if result.state == WAITING}
    for group in _alike(list(reasons), reasons.__getitem__):
        words = range_words(group[0].start, group[-1].end, _number(group))
        why = _together(group, reasons[group[0]])
        say(f"{group[0].query_set} {words}: {WAITING}: {why}", err=True)
    counts = Counter(result.state for result in results)
    counts_text = ", ".join(f"{state} {count:,}" for state, count in sorted(counts.items()))
    say(counts_text + _left_out([result.due for result in results if result.state == WAITING], counted))


@contextmanager
def _watched(work: Sequence[Due], workers: int) -> Iterator[BackfillListener]:
    """Shows progress: a bar with the running intervals on a terminal, else one line an interval."""
    clock = _Clock(len(work), workers)
    console = open_console(stderr=True)
    if not console.is_terminal:
        yield BackfillListener(
            ends=lambda result: _say_ended(clock.line(result), result),
            waits=lambda due, why: say(_waits(due, why), err=True),
            stops=lambda: say(STOPS, err=True),
        )
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.fields[left]}", markup=False), console=console) as bar:
        task = bar.add_task("", total=len(work), left="")
        at_work: dict[tuple[str, int], str] = {}

        def begins(interval: Due) -> None:
            at_work[interval.query_set, interval.start] = interval_name(interval)
            bar.update(task, description=", ".join(list(at_work.values())))

        def ends(result: IntervalResult) -> None:
            at_work.pop((result.due.query_set, result.due.start), None)
            line = clock.line(result)
            if not result.published and result.state != WAITING:
                bar.console.print(line)
            bar.update(task, advance=1, description=", ".join(list(at_work.values())), left=clock.left)

        def leaves(interval: Due) -> None:
            at_work.pop((interval.query_set, interval.start), None)

        yield BackfillListener(
            begins,
            ends,
            leaves,
            lambda due, why: bar.console.print(_waits(due, why)),
            lambda: bar.console.print(STOPS),
        )


def _waits(due: Sequence[Due], why: str) -> str:
    several = _number(due) > 1
    return (
        f"{_intervals(_number(due))} {'run' if several else 'runs'} elsewhere, and {'are' if several else 'is'} waited "
        f"for: {why}"
    )


def _say_ended(line: str, result: IntervalResult) -> None:
    if result.state != WAITING:  # they are said together at the end
        say(line, err=True)


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
            self._ran += result.state != WAITING
            rest = self._total - self._done
            pace = (time.monotonic() - self._begin) / max(self._ran, 1)
            self.left = f"about {_duration(rest * pace)} left" if rest and self._ran else ""
            done = f"{self._done} of {self._total}" + (f", {self.left}" if self.left else "")
        rows = ", ".join(f"{count:,} rows of {name}" for name, count in result.rows.items())
        details = result.reason if not result.published else rows
        text = f"{interval_name(result.due)}: {result.state}, {result.seconds:.1f} s ({done})"
        return f"{text}: {details}" if details else text


def interval_name(interval: Due) -> str:
    """Names an interval, or a stretch of them, with its query set."""
    return f"{interval.query_set} {range_words(interval.start, interval.end, interval.intervals)}"


def _intervals(count: int) -> str:
    return f"{count:,} interval{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# Looks, one after another.


def watch_lake(
    root: PurePath, names: Sequence[str], queries: Path, workers: int, once: bool, spark: str | None
) -> bool:
    """Looks at a lake once, or until SIGINT or SIGTERM. Returns whether the only look was sound. Raises ConfigError: at
    the start, the settings are wrong. `names`: query sets; empty for those of the settings."""
    config = load_config(root)
    told = _Told(config.schedule.look_back)
    with until_stopped() as stopped:
        listener = BackfillListener(ends=told.result, waits=told.elsewhere)
        looker = Looker(root, names, queries, say_line, listener, workers, spark, stopped, alone=once)
        if not once:
            every = format_duration(config.schedule.every)
            say(f"looks at {root} every {every}; ends with SIGINT or SIGTERM", err=True)
        hindered = 0
        while True:
            try:
                found = looker.look()
                told.look(found, once)
                for one in found.found:
                    keep_told(root, one.query_set, (left for left in one.stuck if left.news))
                hindered = hindered + 1 if found.hindered is not None else 0
                if once:
                    return found.sound
                if found.more and not stopped():
                    continue
                config = load_config(root)
            except LowwaterError as error:  # settings that are being edited, or a store that is away
                if once:
                    raise
                hindered += away(error)
                told.once(f"error: {error}")
            pause(pause_after(hindered, config) / SECOND, stopped)
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

    def look(self, found: LookResult, once: bool) -> None:
        """Says what cannot run, and why: on standard error what is new of it, which cron mails."""
        for name, error in found.unplanned.items():
            self.once(f"query set {name}: {error}")
        for one in found.found:
            for left in one.stuck:
                if left.news or (self._first and not once):
                    self.once(_line(left, "stays" if left.failed else "cannot start"))
            behind = [left for left in one.waits if left.why.startswith(BEHIND)]
            for left in one.waits:
                if left not in behind:
                    self.once(_line(left, "waits"), problem=False)
            if behind:
                count = sum(left.due.intervals for left in behind)
                self.once(f"{one.query_set}: {count:,} later intervals of the chain wait for it", problem=False)
            for failed, state in ((False, "cannot start"), (True, "have failed")):
                old = sum(each.due.intervals for each in one.stuck if not each.news and each.failed == failed)
                if once and old:
                    line = f"{one.query_set}: {old:,} more {state}, as before: `lowwater plan` lists them"
                    self.once(line, problem=False)
        ran = any(one.runs or one.waits or one.stuck for one in found.found)
        if once and not ran and not found.unplanned and found.hindered is None:
            say(f"nothing of the last {spoken_duration(self._look_back)} is due")
        self._said, self._now, self._first = self._now, set(), False

    def result(self, result: IntervalResult) -> None:
        rows = ", ".join(f"{count:,} rows of {name}" for name, count in result.rows.items())
        details = result.reason if not result.published or not rows else "; ".join(filter(None, (rows, result.reason)))
        line = f"{interval_name(result.due)}: {result.state}, {result.seconds:.1f} s"
        say(f"{line}: {details}" if details else line, err=not result.published)

    def elsewhere(self, due: Sequence[Due], why: str) -> None:
        for each in due:
            self.once(f"{interval_name(each)}: runs elsewhere: {why}")


def _line(left: Left, state: str) -> str:
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


def list_trials(lake: Lake) -> None:
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
        start = format_instant(bounds[0])
        if reasons := trial.obstacles(bounds):
            say(f"{start}: not promoted: {'; '.join(reasons)}", err=True)
            code = 1
            continue
        try:
            say(f"{start}: {trial.promote(bounds, ReplayProgress(quiet=True))}")
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
