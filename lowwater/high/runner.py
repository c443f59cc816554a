"""What a level is, and a runner: on threads of this process (`process`), or Spark (`lowwater.spark.runner`).

The tasks of the low level, chunks of packets that are visible, are due from the beginning; the high level says which
parts have become due, as punctuation closes them. A runner evaluates tasks and gives their outcomes back, until the
level has its result. Rows do not depend on how the work is divided (replay invariance).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from lowwater import errors, threads
from lowwater.cluster import TaskRun

LOOK, SELDOM = 0.05, 2.0
"""Seconds between two looks for what is awaited, such as files of the level below, at least and at most."""
TELL = 2.0
"""Seconds between two looks how far a level is."""

Task = partial[Any]
"""A function with its argument, plain values: it gives the same wherever it is called, and again. Its `label` and its
`weight`, the packets or rows that it reads, are those of the argument."""
Outcomes = Mapping[Task, Any]
"""What tasks have given that have ended since the last step, or the exceptions that they have raised."""


class Step(NamedTuple):
    """Tasks that have become due, perhaps none, and how far a level is, as people read it: name -> number or instant.
    A runner waits a moment where no task is at work: then files of the level below are missing."""

    tasks: Sequence[Task] = ()
    done: Mapping[str, int | str] = MappingProxyType({})


Steps = Generator[Step, Outcomes, Any]
"""The work of a level: yields steps, is sent outcomes, and returns its result."""


def pause(waited: float) -> float:
    """Seconds until the next look of what has waited so long: each look asks a store, or a server."""
    return min(max(LOOK, waited / 10), SELDOM)


class Level(Protocol):
    """The description of a level: plain values, which can be sent to another process.

    Attributes:
        what: the level, as errors say it.
        folder: for its files, of the lake where tasks run on other machines; the caller removes it.
    """

    @property
    def what(self) -> str: ...

    @property
    def folder(self) -> PurePath: ...

    def steps(self) -> Steps:
        """Begins the work."""


@dataclass(frozen=True)
class Tasks:
    """A level whose tasks are due from the beginning; its result is what they give, in order."""

    what: str
    folder: PurePath
    tasks: Sequence[Task]

    def done(self, ended: Iterable[Task]) -> dict[str, int | str]:
        """How far the level is, as of `Step`."""
        weights = [task.args[0].weight for task in ended]
        return {"chunks": len(weights), "of": len(self.tasks), "packets": sum(weights)}

    def steps(self) -> Steps:
        due, outcomes = self.tasks, dict[Task, Any]()
        while len(outcomes) < len(self.tasks):
            outcomes.update((yield Step(due, self.done(outcomes))))
            due = ()
            for outcome in outcomes.values():
                if isinstance(outcome, Exception):
                    raise outcome
        return [outcomes[task] for task in self.tasks]


class Running:
    """A level at work. `done`: how far it is; `ended`: set where nobody waits for it any more; `runs`: where its tasks
    have run, once it has ended, if they may run on other machines."""

    def __init__(self, level: Level) -> None:
        self.level, self.ended = level, Event()
        self.done: Mapping[str, int | str] = {}
        self.runs: list[TaskRun] = []
        self.future: Future[Any]

    def interrupted(self) -> errors.LowwaterError:
        """The error of a level that was ended."""
        return errors.LowwaterError(f"{self.level.what}: was interrupted", "run the command again")

    def result(self, tell: Callable[[str], None] = lambda _: None) -> Any:
        """Waits for the result of the level, and tells how far it is.
        Raises LowwaterError if the level or one of its tasks fails, or the runner."""
        while not self.future.done():
            with suppress(TimeoutError):
                self.future.exception(TELL)
            if self.done:
                tell(", ".join(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}"
                               for name, value in self.done.items()))  # fmt: skip
        return self.future.result()


class Runner(Protocol):
    """Does the work of a command.

    Attributes:
        name: of the runner in summaries.
        far: whether its tasks may run on machines that do not see the disk of this one.
        most: rows that an operator keeps in memory in a task; 0 for the usual number.
    """

    name: str
    far: bool
    most: int

    def begin(self) -> None:
        """Prepares for work in the background; its errors come where it is needed."""
        return

    def broken(self, error: errors.LowwaterError) -> bool:
        """Whether an error is of the runner itself, and so of every interval."""
        return False

    def about(self, interval: str) -> Runner:
        """Returns the runner whose tasks say that they are for an interval of a query set."""
        return self

    def tasks(self, what: str) -> threads.TaskMap:
        """Returns what runs tasks of an ingest or an audit, as `what` says."""

    def follow(self, running: Running) -> Any:
        """Has the tasks of a level evaluated as they become due, until it has its result, which is returned.
        Raises LowwaterError if it fails or is ended."""

    @contextmanager
    def levels(self) -> Iterator[Callable[[Level], Running]]:
        """Yields what begins a level of an interval, of which several are at work at once; those that have not ended at
        its end are ended."""
        begun: list[Running] = []
        with ThreadPoolExecutor(thread_name_prefix="lowwater-level") as pool:

            def begin(level: Level) -> Running:
                running = Running(level)
                begun.append(running)
                running.future = pool.submit(self.follow, running)
                return running

            try:
                yield begin
            finally:
                for running in begun:
                    running.ended.set()

    def run(self, level: Level) -> Any:
        """Returns the result of a level by itself; errors as of `follow`."""
        with self.levels() as begin:
            return begin(level).result()
