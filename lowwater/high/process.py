"""The runner of this process: threads, as many as it has cores and memory for. It needs no Spark and no JVM."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any

from lowwater import errors, limits
from lowwater.high.levels import LOOK, Level, Running, Start, Task
from lowwater.threads import TaskMap, each_on_threads, thread_count


def process_bounds(memory: int = 0, threads: int = 0) -> tuple[int, int]:
    """Returns the number of threads of a process, and of the rows that an operator may keep in each (`rows_within`).

    Args:
        memory: bytes that they share; 0 for those of the machine or of its container.
        threads: 0 for one a core, as far as memory allows.
    """
    number = threads or thread_count(memory)
    return number, limits.rows_within(memory // number)


class InProcess:
    """Does the work of a command on threads; arguments as of `process_bounds`."""

    name = "process"
    far = again = False

    def __init__(self, threads: int = 0, memory: int = 0) -> None:
        self.threads, self.most = process_bounds(memory, threads)

    def begin(self) -> None:
        """Nothing has to start."""

    def broken(self, error: errors.LowwaterError) -> bool:
        """An error here is one of its interval."""
        return False

    def about(self, interval: str) -> InProcess:
        return self

    def tasks(self, what: str) -> TaskMap:
        """Returns what runs tasks on the threads."""
        return partial(each_on_threads, threads=self.threads)

    @contextmanager
    def levels(self) -> Iterator[Start]:
        """Yields what begins levels, whose tasks share the threads."""
        stopped = Event()
        with ThreadPoolExecutor(self.threads) as pool, ThreadPoolExecutor(thread_name_prefix="lowwater-level") as each:

            def start(level: Level) -> Running:
                running = Running()
                running.future = each.submit(_followed, level, running, pool, stopped)
                return running

            try:
                yield start
            finally:
                stopped.set()


def _followed(level: Level, running: Running, pool: ThreadPoolExecutor, stopped: Event) -> Any:
    """Evaluates the tasks of a level as they become due; returns its result."""
    steps, at_work = level.steps(), dict[Future[Any], Task]()
    try:
        step = next(steps)
        while not stopped.is_set():
            running.done = step.done
            at_work |= {pool.submit(task): task for task in step.tasks}
            if not at_work:
                stopped.wait(LOOK)
            ended, _ = wait(at_work, LOOK, FIRST_COMPLETED)
            step = steps.send({at_work.pop(each): each.result() for each in ended})
    except StopIteration as end:
        return end.value
    finally:
        for future in at_work:
            future.cancel()
    raise errors.LowwaterError(f"{level.what}: was interrupted", "run the command again")
