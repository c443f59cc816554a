"""Runs work on threads, and gives the results in order.

Between the parsers and `reader`, and below the task runners of the lake. Arrow and the kernels release the lock of the
interpreter.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
TaskMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a picklable function to each argument; yields results in the order of the arguments, as soon as possible."""

CGROUP = Path("/sys/fs/cgroup")
"""The limits of a container."""

MEMORY = 1 << 29
"""Bytes of memory for each thread: what the tasks of ingest and of both levels take, and results that wait."""


def thread_count() -> int:
    """Returns the number of threads: one a core of this process, fewer where a thread would have less than MEMORY."""
    return max(1, min(cores(), memory() // MEMORY))


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

    Arguments are taken as threads become free, with one for every thread in advance, so that they can be computed
    meanwhile.

    Args:
        function: the function.
        arguments: its arguments.
        threads: number of threads; 0 for `thread_count`.
    """
    work = (partial(function, argument) for argument in arguments)
    return on_threads(work, 2 * (threads or thread_count()), threads)


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
