"""Runs work on threads, and gives the results in order.

Between the parsers and `reader`, and below the task runners of the lake. Arrow and the kernels release the lock of the
interpreter.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MOST_THREADS = 4
"""More threads would wait for the one that takes the results, and hold more of them in memory."""


def thread_count() -> int:
    """Returns the number of threads: one a core, at most MOST_THREADS."""
    return min(os.cpu_count() or 1, MOST_THREADS)


def on_threads(work: Iterable[Callable[[], T]], ahead: int) -> Iterator[T]:
    """Yields the results of functions in their order; while one is waited for, others run.

    Args:
        work: functions, taken when they are needed.
        ahead: most functions that run or wait behind the one whose result is next.
    """
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(thread_count()) as pool:
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
