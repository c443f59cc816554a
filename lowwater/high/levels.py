"""The two levels of an interval as streams of tasks: one description of each, which both runners follow.

A level says which tasks have become due: chunks of packets that are visible, then parts that punctuation has closed. A
runner evaluates them, in threads (`process`) or in the tasks of a streaming query (`lowwater.spark.levels`), and gives
their outcomes back, until the level has its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Protocol

from lowwater.cluster import TaskRun

LOOK = 0.05
"""Seconds between two looks for files of the level below."""
TELL = 2.0
"""Seconds between two looks how far a level is."""


@dataclass(frozen=True, eq=False)
class Task:
    """The call of a function of plain values, which gives the same wherever it runs, and again."""

    function: Callable[[Any], Any]
    argument: Any

    def __call__(self) -> Any:
        return self.function(self.argument)

    @property
    def label(self) -> str:
        """What it reads, as people call it; perhaps empty."""
        return getattr(self.argument, "label", "")

    @property
    def weight(self) -> int:
        """The packets that it reads; 0 for unknown."""
        return getattr(self.argument, "weight", 0)


Done = Mapping[str, int | str]
"""How far a level is, as people read it: name -> number, or instant."""


@dataclass(frozen=True)
class Step:
    """Tasks that have become due, perhaps none, and how far the level is."""

    tasks: Sequence[Task] = ()
    done: Done = field(default_factory=dict)


Outcomes = Mapping[Task, Any]
"""Those of the tasks that have ended since the last step."""

Steps = Generator[Step, Any, Any]
"""The work of a level: yields steps, is sent `Outcomes`, and returns its result. It waits for nothing by itself: where
a step has no task, and none is at work, files of the level below are missing."""


class Level(Protocol):
    """The description of a level: plain values, which can be sent to another process.

    Attributes:
        what: the level, as errors say it.
        folder: for what Spark keeps of the level, of the lake where tasks run on other machines; the caller removes it.
    """

    @property
    def what(self) -> str: ...

    @property
    def folder(self) -> PurePath: ...

    def steps(self) -> Steps:
        """Begins the work."""


def every(function: Callable[[Any], Any], arguments: Iterable[Any], what: str) -> Generator[Step, Outcomes, list[Any]]:
    """Steps that call a function with each of the arguments, of which there are some; returns what it gives, in order.
    `what` are the tasks, as people call them."""
    tasks = [Task(function, each) for each in arguments]
    outcomes: dict[Task, Any] = {}
    due = tasks
    while len(outcomes) < len(tasks):
        outcomes.update((yield Step(due, {what: len(outcomes), "of": len(tasks)})))
        due = []
    return [outcomes[task] for task in tasks]


class Running:
    """A level at work. `runs`: where its tasks ran, once it has ended, if they may run on other machines."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.done: Done = {}
        self.runs: list[TaskRun] = []

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


Start = Callable[[Level], Running]
"""Begins a level; those that were begun are at work at the same time."""
