"""What `lowwater plan` and `lowwater backfill` do: the intervals that are due, shown and run."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lowwater.errors import LowwaterError
from lowwater.instants import format_instant
from lowwater.replay.job import Job
from lowwater.replay.schedule.backfill import WAITING, BackfillListener, IntervalResult, Order, backfill
from lowwater.replay.schedule.due import Due, DueSelection, due, open_jobs, outdated_audits
from lowwater.terminal import open_console, say, styled

DIGITS = 3
"""Of an estimate that are shown."""

SHOWN = 3
"""Reasons of an interval that a table shows; JSON has all."""


@dataclass(frozen=True)
class Asked:
    """Which intervals of which query sets: the options that `plan` and `backfill` share.

    Attributes:
        lake: folder of the lake.
        start: first instant, ns since the epoch; None for no bound.
        end: end of the time, ns, exclusive; None for no bound.
        names: names of query sets; all that the settings have where empty.
        kinds: states that are due, of `due.KINDS`; all where empty.
        through_end: whether intervals count that captures cover in part, where a link begins or ends.
        queries: folder of query sets.
    """

    lake: Path
    start: int | None
    end: int | None
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    through_end: bool
    queries: Path


def show_plan(asked: Asked, form: str) -> None:
    """Prints what is due, as `text` or `json`."""
    jobs, work, _ = _due(asked)
    if form == "json":
        say(_as_json(work))
        return
    if not work:
        say("nothing is due")
    else:
        _show_table(work)
    for job in jobs:
        if others := outdated_audits(job, DueSelection(asked.start, asked.end)):
            where, first, last = (
                shlex.quote(str(asked.lake)),
                format_instant(others[0][0]),
                format_instant(others[-1][1]),
            )
            say(
                f"{job.query_set}: {_intervals(len(others))} audited by other suites than there are now; to judge the "
                f"same rows again: lowwater replay {job.query_set} --lake {where} --stage audit "
                f"--from {first} --to {last}"
            )


def _show_table(work: Sequence[Due]) -> None:
    table = Table("interval", "query set", "state", "packets", "seconds", "why", box=None)
    for each in work:
        seconds = "?" if each.seconds is None else f"{each.seconds:,.1f}"
        cells = (
            format_instant(each.start),
            each.query_set,
            each.state,
            _packets(each.packets, each.exact),
            seconds,
            _why(each),
        )
        table.add_row(*(styled(cell) for cell in cells))
    open_console().print(table)
    say(_total(work))


def _as_json(work: Sequence[Due]) -> str:
    """Work as JSON, one object an interval; bounds in ns and as text."""
    rows = [{**asdict(each), "from": format_instant(each.start), "to": format_instant(each.end)} for each in work]
    return json.dumps({"intervals": rows}, indent=2, ensure_ascii=False)


def _due(asked: Asked) -> tuple[list[Job], list[Due], bool]:
    """The query sets, what of them is due, and whether all that are configured can be planned; says which cannot."""
    start, end = asked.start, asked.end
    if start is not None and end is not None and start >= end:
        raise click.UsageError("--to must be after --from")
    refused: list[str] = []

    def tell(name: str, error: LowwaterError) -> None:
        refused.append(name)
        say(f"query set {name}: {error}", err=True)

    jobs = [
        replace(job, through_end=asked.through_end) for job in open_jobs(asked.lake, asked.names, asked.queries, tell)
    ]
    return jobs, [each for job in jobs for each in due(job, DueSelection(start, end, asked.kinds))], not refused


def _why(each: Due) -> str:
    shown = "; ".join(each.reasons[:SHOWN])
    more = len(each.reasons) - SHOWN
    shown += f"; and {more} more" if more > 0 else ""
    return f"{shown}. Cannot start: {each.blocked}" if each.blocked else shown


def _left_out(work: Sequence[Due]) -> str:
    """What of work was not run since captures begin or end in it, and what runs it; empty where there is none."""
    edges = [each for each in work if each.at_edge]
    if not edges:
        return ""
    packets = _packets(sum(each.packets for each in edges), all(each.exact for each in edges))
    return (
        f"; not run: {_intervals(len(edges))}, {packets} packets, in which captures begin or end: "
        "add since and until to the links, or --through-end"
    )


def _total(work: Sequence[Due]) -> str:
    startable = [each for each in work if not each.blocked]
    packets = _packets(sum(each.packets for each in startable), all(each.exact for each in startable))
    known = [each.seconds for each in startable if each.seconds is not None]
    unknown = len(startable) - len(known)
    spent = f"about {_duration(sum(known))} one after another" if known else "no earlier run tells how long"
    spent += f", {unknown} of them unknown" if known and unknown else ""
    written = [each.bytes for each in startable if each.bytes is not None]
    spent += f", about {_bytes(sum(written))} between the stages" if sum(written) else ""
    waiting = len(work) - len(startable)
    rest = f"; {waiting} cannot start" if waiting else ""
    rest += _left_out([each for each in work if each.blocked])
    return f"{_intervals(len(startable))} to run, {packets} packets, {spent}{rest}"


def _bytes(count: int) -> str:
    """Bytes as people read them.

    Example:
        >>> _bytes(999), _bytes(4_200_000), _bytes(17_000_000_000)
        ('1 kB', '4.2 MB', '17 GB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.2g} {unit}" if count < 100 * size else f"{count / size:,.0f} {unit}"
    return f"{count / 1000:.0f} kB"


def _packets(count: int, exact: bool) -> str:
    """A number of packets as it is, or about so many: three digits of it."""
    if exact:
        return f"{count:,}"
    unit = max(10 ** (len(str(count)) - DIGITS), 1)
    return f"about {round(count / unit) * unit:,}"


def run_backfill(asked: Asked, workers: int, order: str) -> bool:
    """Runs what is due and says what became of it; whether everything was published.

    Args:
        asked: of which intervals.
        workers: how many intervals are at work at once.
        order: a value of `backfill.Order`.
    """
    jobs, work, sound = _due(asked)
    if not work:
        say("nothing is due")
        return sound
    say(_total(work), err=True)
    with _watched(work, workers) as watch:
        tried = backfill(jobs, work, workers, Order(order), watch)
    _summary(tried)
    return sound and all(each.published for each in tried)


def _summary(tried: Sequence[IntervalResult]) -> None:
    for each in sorted(tried, key=lambda one: (one.due.query_set, one.due.start)):
        if not each.published:
            say(f"{_name(each.due)}: {each.state}: {each.reason}", err=True)
    counts = Counter(each.state for each in tried)
    told = ", ".join(f"{state} {count:,}" for state, count in sorted(counts.items()))
    say(told + _left_out([each.due for each in tried if each.state == WAITING]))


@contextmanager
def _watched(work: Sequence[Due], workers: int) -> Iterator[BackfillListener]:
    """A bar with the intervals at work on a terminal, a line an interval elsewhere."""
    clock = _Clock(len(work), workers)
    console = open_console(stderr=True)
    if not console.is_terminal:
        yield BackfillListener(ends=lambda tried: say(clock.line(tried), err=True))
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.fields[left]}", markup=False), console=console) as bar:
        task = bar.add_task("", total=len(work), left="")
        at_work: dict[tuple[str, int], str] = {}

        def begins(each: Due) -> None:
            at_work[each.query_set, each.start] = _name(each)
            bar.update(task, description=", ".join(list(at_work.values())))

        def ends(tried: IntervalResult) -> None:
            at_work.pop((tried.due.query_set, tried.due.start), None)
            line = clock.line(tried)
            if not tried.published:
                bar.console.print(line)
            bar.update(task, advance=1, description=", ".join(list(at_work.values())), left=clock.left)

        yield BackfillListener(begins, ends)


class _Clock:
    """Counts what has ended, and says how long the rest takes at that pace."""

    def __init__(self, total: int, workers: int) -> None:
        self._total, self._workers = total, workers
        self._done = self._ran = 0
        self._begin = time.monotonic()
        self._lock = Lock()
        self.left = ""

    def line(self, tried: IntervalResult) -> str:
        """What became of an interval, and where the whole is."""
        with self._lock:
            self._done += 1
            self._ran += tried.state != WAITING
            rest = self._total - self._done
            pace = (time.monotonic() - self._begin) / max(self._ran, 1)
            self.left = f"about {_duration(rest * pace)} left" if rest and self._ran else ""
            done = f"{self._done} of {self._total}" + (f", {self.left}" if self.left else "")
        rows = ", ".join(f"{name} {count:,}" for name, count in tried.rows.items())
        said = tried.reason.partition("\n")[0] if not tried.published else rows
        text = f"{_name(tried.due)}: {tried.state}, {tried.seconds:.1f} s ({done})"
        return f"{text}: {said}" if said else text


def _name(each: Due) -> str:
    return f"{each.query_set} {format_instant(each.start)}"


def _intervals(count: int) -> str:
    return f"{count:,} interval{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
