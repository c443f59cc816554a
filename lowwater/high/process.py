"""The runner of this process: threads, as many as it has cores and memory for. It needs no Spark and no JVM."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

from lowwater import limits
from lowwater.high.runner import LOOK, Outcomes, Runner, Running, Task
from lowwater.threads import TaskMap, each_on_threads, thread_count


def process_bounds(memory: int = 0, threads: int = 0) -> tuple[int, int]:
    """Returns the number of threads of a process, and of the rows that an operator may keep in each (`rows_within`).
    `memory`: bytes that they share, 0 for those of the machine or of its container; `threads`: 0 for one a core, as far
    as memory allows."""
    number = threads or thread_count(memory)
    return number, limits.rows_within(memory // number)


class InProcess(Runner):
    """Does the work of a command on threads, which all levels share; arguments as of `process_bounds`."""

    name = "process"
    far = False

    def __init__(self, threads: int = 0, memory: int = 0) -> None:
        self.threads, self.most = process_bounds(memory, threads)
        self._pool = ThreadPoolExecutor(self.threads, "lowwater-task")

    def tasks(self, what: str) -> TaskMap:
        """Returns what runs tasks on threads."""
        return partial(each_on_threads, threads=self.threads)

    def follow(self, running: Running) -> Any:
        """See `Runner`."""
        steps, at_work = running.level.steps(), dict[Future[Any], Task]()
        outcomes: Outcomes | None = None
        try:
            while not running.ended.is_set():
                tasks, running.done = steps.send(outcomes)  # type: ignore[arg-type]
                at_work |= {self._pool.submit(task): task for task in tasks}
                if not at_work:
                    running.ended.wait(LOOK)
                over, _ = wait(at_work, LOOK, FIRST_COMPLETED)
                outcomes = {at_work.pop(each): each.exception() or each.result() for each in over}
        except StopIteration as end:
            return end.value
        finally:
            wait([each for each in at_work if not each.cancel()])
        raise running.interrupted()
