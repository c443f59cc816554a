"""Backfill: runs due intervals of query sets by one runner, several at once.

`lowwater backfill` calls it. A killed backfill loses only intervals that were running and not yet visible. A new one
reads from the ledgers which intervals remain (SEMANTICS S1, S4).
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Semaphore

from lowwater import errors, processes
from lowwater.high.runner import Runner
from lowwater.lake import words
from lowwater.lake.words import WAITING
from lowwater.replay.interval import run_interval
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import Due
from lowwater.replay.stages.runners import runner_of

PATIENCE, PAUSE = 600.0, 1.0
"""Seconds without an end of any interval for which a backfill waits for those that run elsewhere, and between two tries
to take them up."""


class Order(StrEnum):
    """The order in which intervals start; tables do not depend on it."""

    OLDEST = "oldest"
    NEWEST = "newest"
    RANDOM = "random"


@dataclass(frozen=True)
class IntervalResult:
    """The result of an interval in a backfill."""

    due: Due
    state: str  # state of the publication, failed, waiting, held, or running, by another process
    reason: str = ""  # why the interval is not done, or the whole error message
    rows: dict[str, int] = field(default_factory=dict)  # query -> number of rows published
    seconds: float = 0.0  # duration, s

    @property
    def published(self) -> bool:
        """Whether the interval is visible now."""
        return self.state not in (words.FAILED, WAITING, words.HELD, words.RUNNING)


@dataclass(frozen=True)
class BackfillListener:
    """Callbacks of a backfill, called from any thread: `begins` with an interval, `ends` with its result, `leaves`
    with one that runs elsewhere and is taken up later, `waits` with all of these and the reason of one, `stops` once a
    user has interrupted it while intervals run."""

    begins: Callable[[Due], None] = lambda due: None
    ends: Callable[[IntervalResult], None] = lambda tried: None
    leaves: Callable[[Due], None] = lambda due: None
    waits: Callable[[Sequence[Due], str], None] = lambda due, reason: None
    stops: Callable[[], None] = lambda: None


def backfill(
    jobs: Sequence[Job],
    work: Sequence[Due],
    workers: int = 1,
    order: Order = Order.OLDEST,
    watch: BackfillListener | None = None,
    runner: Runner | None = None,
) -> list[IntervalResult]:
    """Runs intervals; a failure stops only later intervals of the same chained set. Returns their results in the order
    in which they ended.

    While one is audited and published, which keeps few cores busy, the next one is evaluated. With one worker each is
    audited after the one before is published, with which it is compared.

    An interval on which another process is at work is taken up at the end: if that has published it by then, it is
    confirmed; if that has failed, it is run. While others are at work, it is waited for them. One is not published of
    which a person must approve the warnings.

    A chained set always starts oldest first, one at a time. `workers`: number of intervals that are evaluated at once.
    `runner`: None for the one that the settings name.
    Raises LowwaterError if Spark cannot be started, and KeyboardInterrupt if the user interrupted the backfill; running
    intervals were finished first, or given up where the user interrupted it again."""
    by_name = {job.query_set: job for job in jobs}
    for job in jobs:
        job.prepare()
    runner = runner or runner_of("lowwater backfill", jobs[0].config, Progress(quiet=True))
    if any(interval.packets for interval in work if not interval.blocked):
        runner.begin()
    listener = watch or BackfillListener()
    with processes.until_stopped(listener.stops, () if processes.in_background() else (signal.SIGINT,)) as stopped:
        turns = Semaphore(workers), Semaphore(workers)
        tried = _Backfill(by_name, runner, listener, stopped, 2 * workers, *turns).all(_ordered(by_name, work, order))
    if stopped():
        raise KeyboardInterrupt
    return tried


def _ordered(jobs: dict[str, Job], work: Iterable[Due], order: Order) -> list[tuple[Due, ...]]:
    """Divides the work into units that may run in parallel: single intervals, or all intervals of a chained set."""
    chains: dict[str, list[Due]] = {}
    units: list[tuple[Due, ...]] = []
    for interval in sorted(work, key=lambda due: (due.start, due.query_set)):
        if jobs[interval.query_set].chained:
            chains.setdefault(interval.query_set, []).append(interval)
        else:
            units.append((interval,))
    if order is Order.NEWEST:
        units.reverse()
    elif order is Order.RANDOM:
        random.shuffle(units)
    return [*map(tuple, chains.values()), *units]


@dataclass
class _Backfill:
    """The state that the threads of one backfill share."""

    jobs: dict[str, Job]
    runner: Runner
    watch: BackfillListener
    stopped: Callable[[], bool]
    most: int  # units at work
    evaluating: Semaphore  # turns of these to be evaluated
    publishing: Semaphore  # turns to be audited and published
    over: bool = False
    tried: list[IntervalResult] = field(default_factory=list)
    busy: list[tuple[tuple[Due, ...], str]] = field(default_factory=list)  # units that others began, and who

    def all(self, units: Sequence[tuple[Due, ...]]) -> list[IntervalResult]:
        """Runs every unit; after an interruption only units that have started. Those of others come last."""
        self._round(units)
        ended, since, told = len(self.tried), time.monotonic(), ""
        while self.busy and not self.stopped():
            waiting, self.busy = self.busy, []
            if waiting[0][1] != told:
                told = waiting[0][1]
                self.watch.waits([due for unit, _ in waiting for due in unit], told)
            processes.pause(PAUSE, self.stopped)
            if time.monotonic() - since > PATIENCE:
                for unit, reason in waiting:
                    for due in unit:
                        self._ended(IntervalResult(due, words.RUNNING, reason))
                break
            self._round([unit for unit, _ in waiting])
            if len(self.tried) > ended:
                ended, since = len(self.tried), time.monotonic()
        return self.tried

    def _round(self, units: Sequence[tuple[Due, ...]]) -> None:
        # No `with`: it would wait for the threads after an interruption too, which says not to wait for them.
        pool = ThreadPoolExecutor(self.most, thread_name_prefix="lowwater-backfill")
        waiting: set[Future[None]] = set()
        remaining = iter(units)
        try:
            while True:
                # Only as many units are submitted as can run, so that an interruption has nothing to cancel.
                while len(waiting) < self.most and not self.stopped() and (unit := next(remaining, None)) is not None:
                    waiting.add(pool.submit(self._unit, unit))
                if not waiting:
                    break
                finished, waiting = wait(waiting, processes.STEP, FIRST_COMPLETED)
                for future in finished:
                    future.result()
        except Exception:
            self.over = True
            wait(waiting)
            raise
        finally:
            pool.shutdown(wait=False)

    def _unit(self, unit: tuple[Due, ...]) -> None:
        broken = ""
        for number, interval in enumerate(unit):
            with self._turn() as evaluated:
                if self.over or self.stopped():
                    return
                if reason := broken or interval.blocked:
                    tried = IntervalResult(interval, WAITING, reason)
                else:
                    self.watch.begins(interval)
                    try:
                        tried = self._one(interval, evaluated)
                    except errors.BusyError as error:  # the rest of a chain follows it
                        self.watch.leaves(interval)
                        self.busy.append((unit[number:], error.message))
                        return
            if not tried.published:
                broken = broken or "an earlier interval of its chain was not published"
            self._ended(tried)

    @contextmanager
    def _turn(self) -> Iterator[Callable[[], None]]:
        """Waits for a turn to evaluate, and yields what exchanges it for one to audit and publish."""
        with ExitStack() as held:
            held.enter_context(self.evaluating)

            def evaluated() -> None:
                self.publishing.acquire()
                held.close()
                held.callback(self.publishing.release)

            yield evaluated

    def _ended(self, tried: IntervalResult) -> None:
        self.tried.append(tried)
        self.watch.ends(tried)

    def _one(self, due: Due, evaluated: Callable[[], None]) -> IntervalResult:
        begin = time.monotonic()
        try:
            job, progress = self.jobs[due.query_set], Progress(quiet=True)
            outcome = run_interval(job, due.start, due.end, progress, self.runner, ask=True, evaluated=evaluated)
        except errors.BusyError:
            raise
        except errors.LowwaterError as error:
            if self.runner.broken(error):
                raise
            return IntervalResult(due, words.FAILED, str(error), seconds=time.monotonic() - begin)
        return IntervalResult(due, outcome.state, outcome.reason, outcome.rows, time.monotonic() - begin)
