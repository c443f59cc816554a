"""The seconds of real parts, and the same parts on more cores than this machine has.

`Measured` is the runner of a process that does one task at a time and notes its processor seconds. `simulated` gives
tasks to cores that are not there: each to the first core that is free, the longest first, once the steps before its own
are over.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from lowwater.high.part import PartOutcome
from lowwater.high.process import InProcess
from lowwater.high.runner import Level, Running
from lowwater.threads import TaskMap

Value = TypeVar("Value")


@dataclass(frozen=True)
class Round:
    """Tasks that may run side by side.

    Attributes:
        stage: ingest, low, high or audit.
        of: whose they are: rounds of the high stage over the same queries follow each other.
        seconds: processor seconds of each task.
        rows: rows that each read, of the high stage.
    """

    stage: str
    of: str
    seconds: list[float]
    rows: list[int]


class Measured(InProcess):
    """Does one task after another.

    Args:
        times: how often a part is evaluated; the shortest counts, as other programs run beside.

    Attributes:
        rounds: what was done.
        spent: processor seconds of all tasks.
    """

    def __init__(self, times: int = 1) -> None:
        super().__init__(1)
        self._times = times
        self._one = Lock()
        self.rounds: list[Round] = []
        self.spent = 0.0

    def tasks(self, what: str) -> TaskMap:
        """See `Measured`."""
        return lambda function, arguments: self._done(what, [partial(function, each) for each in arguments])

    def follow(self, running: Running) -> Any:
        """See `Measured`."""
        steps, outcomes = running.level.steps(), None
        try:
            while True:
                due = steps.send(outcomes).tasks
                outcomes = dict(zip(due, self._done(running.level.what, due), strict=True))
        except StopIteration as end:
            return end.value

    @contextmanager
    def levels(self) -> Iterator[Callable[[Level], Running]]:
        """See `Measured`: a level is over before the next one begins."""

        def begin(level: Level) -> Running:
            running = Running(level)
            running.future = Future()
            running.future.set_result(self.follow(running))
            return running

        yield begin

    def _done(self, what: str, work: Sequence[Callable[[], Any]]) -> list[Any]:
        stage, _, of = what.partition(" level of ")
        noted, outcomes = Round(stage, of, [], []), []
        for each in work:
            outcomes.append(self._timed(noted, each))
            if isinstance(outcomes[-1], PartOutcome):
                noted.rows.append(outcomes[-1].read)
        # All parts once more, and not each several times at once: who else uses the machine, does so for seconds.
        for _ in range(1, self._times if stage == "high" else 1):
            again = Round("", "", [], [])
            for each in work:
                self._timed(again, each)
            noted.seconds[:] = map(min, noted.seconds, again.seconds)
        if noted.seconds:
            self.rounds.append(noted)
        return outcomes

    def _timed(self, noted: Round, work: Callable[[], Value]) -> Value:
        with self._one:
            begin = time.process_time()
            value = work()
            taken = time.process_time() - begin
            self.spent += taken
        noted.seconds.append(taken)
        return value


@dataclass(frozen=True)
class Step:
    """Tasks that may run side by side once other steps are over.

    Attributes:
        seconds: of each task.
        after: numbers of the steps before it, all lower than its own.
    """

    seconds: Sequence[float]
    after: Collection[int] = ()


def simulated(steps: Sequence[Step], cores: int) -> tuple[float, float]:
    """Returns the seconds until the last task is over, and the share of them in which the cores are busy.

    Example:
        >>> simulated([Step([2.0, 1.0, 1.0]), Step([1.0], [0])], 2)
        (3.0, 0.8333333333333334)
    """
    waits = [len(step.after) for step in steps]
    left = [len(step.seconds) for step in steps]
    behind: list[list[int]] = [[] for _ in steps]
    for number, step in enumerate(steps):
        for before in step.after:
            behind[before].append(number)
    ready: list[tuple[int, float]] = []  # (step, -seconds): an earlier step first, then the longest task
    running: list[tuple[float, int]] = []
    now, free = 0.0, cores
    over = [number for number, wait in enumerate(waits) if wait == 0]

    def begin(numbers: Iterable[int]) -> None:
        for number in numbers:
            if left[number]:
                for seconds in steps[number].seconds:
                    heapq.heappush(ready, (number, -seconds))
            else:
                end(number)

    def end(number: int) -> None:
        for later in behind[number]:
            waits[later] -= 1
            if waits[later] == 0:
                begin([later])

    begin(over)
    while ready or running:
        while ready and free:
            number, seconds = heapq.heappop(ready)
            heapq.heappush(running, (now - seconds, number))
            free -= 1
        now, number = heapq.heappop(running)
        free += 1
        left[number] -= 1
        if left[number] == 0:
            end(number)
    total = sum(sum(step.seconds) for step in steps)
    return now, total / (cores * now) if now else 1.0
