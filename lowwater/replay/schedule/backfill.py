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
from threading import Lock, Semaphore
from typing import Any

from lowwater import errors, limits, processes
from lowwater.high.runner import Runner
from lowwater.lake import locks, words
from lowwater.lake.words import WAITING
from lowwater.replay.interval import BEHIND, Result, run_batch
from lowwater.replay.job import Job
from lowwater.replay.progress import Progress
from lowwater.replay.schedule.due import Due, who_works
from lowwater.replay.stages.batches import LONGEST, divides
from lowwater.replay.stages.runners import runner_of

PATIENCE, PAUSE = 600.0, 1.0
"""Seconds without an end of any interval for which a backfill waits for those that run elsewhere, unless it is told
otherwise, and between two tries to take them up."""


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
    seconds: float = 0.0  # duration, s; of an interval of a batch its part
    more: int = 0  # intervals of its batch that have ended too, and are told next
    result: Result | None = None  # what became of it, of one that ran

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
    patience: float | None = None,
) -> list[IntervalResult]:
    """Runs intervals; a failure stops only later intervals of the same chained set. Returns their results in the order
    in which they ended.

    While one is audited and published, which keeps few cores busy, the next one is evaluated. With one worker each is
    audited after the one before is published, with which it is compared.

    An interval on which another process is at work is taken up at the end: if that has published it by then, it is
    confirmed; if that has failed, it is run. While others are at work, it is waited for them, for `patience` seconds
    without an end of any interval, None for PATIENCE. One is not published of which a person must approve the warnings.

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
        shared = _Backfill(
            by_name, runner, listener, stopped, 2 * workers, *turns, PATIENCE if patience is None else patience
        )
        tried = shared.all(_ordered(by_name, work, order))
    if stopped():
        raise KeyboardInterrupt
    return tried


Batch = tuple[Due, ...]
"""Intervals of a query set, each of which begins where the one before ends, that run together; often one."""


def batches(job: Job, work: Iterable[Due]) -> list[Batch]:
    """Divides the due intervals of a query set, oldest first, into batches: what follows one another, and has few
    packets. A stretch, and what cannot start, is a batch of its own."""
    found: list[list[Due]] = []
    for due in work:
        if not (found and _joins(job, found[-1], due)):
            found.append([])
        found[-1].append(due)
    return [tuple(batch) for batch in found]


def _joins(job: Job, batch: Sequence[Due], due: Due) -> bool:
    alone = any(each.intervals > 1 or each.blocked or each.running for each in (batch[-1], due))
    return (
        not alone
        and divides(job.length)
        and batch[-1].end == due.start
        and due.end - batch[0].start <= LONGEST
        and len(batch) < limits.BATCH_INTERVALS
        and sum(each.packets for each in batch) + due.packets <= limits.BATCH_PACKETS
    )


def _ordered(jobs: dict[str, Job], work: Iterable[Due], order: Order) -> list[tuple[Batch, ...]]:
    """Divides the work into units that may run in parallel: single batches, or all batches of a chained set."""
    by_set: dict[str, list[Due]] = {}
    for interval in sorted(work, key=lambda due: due.start):
        by_set.setdefault(interval.query_set, []).append(interval)
    chains, units = list[tuple[Batch, ...]](), list[Batch]()
    for name, mine in sorted(by_set.items()):
        of_set = batches(jobs[name], mine)
        if jobs[name].chained:
            chains.append(tuple(of_set))
        else:
            units += of_set
    units.sort(key=lambda batch: (batch[0].start, batch[0].query_set))
    if order is Order.NEWEST:
        units.reverse()
    elif order is Order.RANDOM:
        random.shuffle(units)
    return [*chains, *((unit,) for unit in units)]


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
    patience: float  # seconds without an end of any interval for which others are waited for
    over: bool = False
    tried: list[IntervalResult] = field(default_factory=list)
    busy: list[tuple[tuple[Batch, ...], str]] = field(default_factory=list)  # units that others began, and who

    def all(self, units: Sequence[tuple[Batch, ...]]) -> list[IntervalResult]:
        """Runs every unit; after an interruption only units that have started. Those of others come last."""
        self._round(units)
        ended, since, told = len(self.tried), time.monotonic(), ""
        while self.busy and not self.stopped():
            waiting, self.busy = self.busy, []
            if waiting[0][1] != told:
                told = waiting[0][1]
                self.watch.waits([due for unit, _ in waiting for batch in unit for due in batch], told)
            processes.pause(PAUSE, self.stopped)
            if time.monotonic() - since > self.patience:
                for unit, reason in waiting:
                    for due in (due for batch in unit for due in batch):
                        self._ended(IntervalResult(due, words.RUNNING, reason))
                break
            self._round([unit for unit, _ in waiting])
            if len(self.tried) > ended:
                ended, since = len(self.tried), time.monotonic()
        return self.tried

    def _round(self, units: Sequence[tuple[Batch, ...]]) -> None:
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

    def _unit(self, unit: tuple[Batch, ...]) -> None:
        broken = ""
        for number, batch in enumerate(unit):
            with self._turn() as evaluated:
                if self.over or self.stopped():
                    return
                if reason := broken or batch[0].blocked:
                    tried = [IntervalResult(due, WAITING, reason) for due in batch]
                else:
                    for due in batch:
                        self.watch.begins(due)
                    try:
                        tried = self._free(batch, evaluated)
                    except errors.BusyError as error:  # the rest of a chain follows it
                        for due in batch:
                            self.watch.leaves(due)
                        self.busy.append((unit[number:], error.message))
                        return
            if not all(each.published for each in tried):
                broken = broken or BEHIND
            for each in tried:
                self._ended(each)

    @contextmanager
    def _turn(self) -> Iterator[Callable[[], None]]:
        """Waits for a turn to evaluate, and yields what exchanges it for one to audit and publish."""
        with ExitStack() as held:
            held.enter_context(self.evaluating)

            exchanged = Lock()

            def evaluated() -> None:
                if exchanged.acquire(blocking=False):  # once: what remains of a batch follows in the same turn
                    self.publishing.acquire()
                    held.close()
                    held.callback(self.publishing.release)

            yield evaluated

    def _ended(self, tried: IntervalResult) -> None:
        self.tried.append(tried)
        self.watch.ends(tried)

    def _free(self, batch: Batch, evaluated: Callable[[], None]) -> list[IntervalResult]:
        """Runs a batch; where another process is at work on some of its intervals, the others, and leaves these.
        Raises BusyError where that is all of them, or the rest of a chain."""
        job = self.jobs[batch[0].query_set]
        try:
            return self._run(batch, evaluated)
        except errors.BusyError as error:
            at_work = locks.at_work(job.lake, job.query_set)
            held = [due for due in batch if who_works(at_work, due.start, due.end)]
            if job.chained or len(held) in (0, len(batch)):
                raise
            for due in held:
                self.watch.leaves(due)
            self.busy += [((part,), error.message) for part in batches(job, held)]
        free = [due for due in batch if due not in held]
        return [each for part in batches(job, free) for each in self._run(part, evaluated)]

    def _run(self, batch: Batch, evaluated: Callable[[], None]) -> list[IntervalResult]:
        """Runs a batch; each interval of it is said to have taken its part of the time."""
        begin, job = time.monotonic(), self.jobs[batch[0].query_set]
        spans = [(due.start, due.end) for due in batch]
        results: Sequence[Result]
        try:
            results = run_batch(job, spans, Progress(quiet=True), self.runner, ask=True, evaluated=evaluated)
        except errors.BusyError:
            raise
        except errors.LowwaterError as error:
            results = [error] * len(batch)
        seconds, tried = (time.monotonic() - begin) / len(batch), list[IntervalResult]()
        for more, (due, result) in zip(range(len(batch))[::-1], zip(batch, results, strict=True), strict=True):
            about: dict[str, Any] = {"seconds": seconds, "more": more, "result": result}
            if not isinstance(result, errors.LowwaterError):
                tried.append(IntervalResult(due, result.state, result.reason, result.rows, **about))
            elif self.runner.broken(result):
                raise result
            else:
                tried.append(IntervalResult(due, words.FAILED, str(result), **about))
        return tried
