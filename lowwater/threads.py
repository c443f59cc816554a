"""Runs work on threads, and gives the results in order; how many threads and how much memory a process may use.

Below every stage: Arrow and the kernels release the lock of the interpreter. The runners of `replay.stages` take the
same functions to Spark.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeGuard, TypeVar

from lowwater.limits import THREAD_BYTES

T = TypeVar("T")
TaskMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a picklable function to each argument; yields results in the order of the arguments, as soon as possible."""


class Elsewhere(Protocol):
    """A `TaskMap` of other processes: it begins when all arguments are known.

    Attributes:
        far: whether they may be on other machines.
    """

    far: bool

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any], /) -> Iterable[Any]: ...

    def give_up(self) -> None:
        """Ends the tasks that other threads wait for, and lets them begin no others: they raise an error."""


def elsewhere(tasks: TaskMap) -> TypeGuard[Elsewhere]:
    """Whether tasks run in other processes."""
    return hasattr(tasks, "far")


CGROUP = Path("/sys/fs/cgroup")
"""The limits of a container."""


def thread_count(most: int = 0) -> int:
    """Returns the number of threads: one a core of this process, fewer where one would have less than THREAD_BYTES.

    Args:
        most: bytes of memory that they share; 0 for those of the machine or of its container.
    """
    return max(1, min(cores(), (min(most, memory()) if most else memory()) // THREAD_BYTES))


def cores() -> int:
    """Returns the number of cores that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _first_line(CGROUP / "cpu.max").partition(" ")
    return max(1, min(allowed, -(-int(quota) // int(period)))) if quota.isdigit() else allowed


def memory() -> int:
    """Returns the bytes of memory that this process may use: of the machine, or of its container."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _first_line(CGROUP / "memory.max")
    return min(whole, int(limit)) if limit.isdigit() else whole


def _first_line(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def on_threads(work: Iterable[Callable[[], T]], ahead: int, threads: int = 0) -> Iterator[T]:
    """Yields the results of functions in their order; while one is waited for, others run.

    Args:
        work: functions, taken when they are needed.
        ahead: most functions that run or wait behind the one whose result is next.
        threads: number of threads; 0 for `thread_count`.
    """
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads or thread_count()) as pool:
        try:
            for function in work:
                waiting.append(pool.submit(function))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def each_on_threads(function: Callable[[Any], Any], arguments: Iterable[Any], threads: int = 0) -> Iterator[Any]:
    """Yields what a function makes of each argument, in order; for functions that release the interpreter's lock.

    Those of a sequence are taken at once, so that no thread waits behind a long one. Others are taken as threads become
    free, with one for every thread in advance, so that they can be computed meanwhile.

    Args:
        threads: number of threads; 0 for `thread_count`.
    """
    work = (partial(function, argument) for argument in arguments)
    ahead = len(arguments) if isinstance(arguments, Sequence) else 2 * (threads or thread_count())
    return on_threads(work, ahead, threads)


def in_order(work: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yields the results of functions in their order; few of them wait at a time.

    The first function runs at once: a small file needs no thread.
    """
    functions = iter(work)
    first = next(functions, None)
    if first is None:
        return
    yield first()
    yield from on_threads(functions, thread_count())
