"""Runs the work of a parser on threads, and gives the results in order.

Between the parsers and `reader`. Arrow and the kernels release the interpreter's lock.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

MOST_THREADS = 4
"""More threads would wait for the one that reads the file and judges times."""


def in_order(work: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yields the results of functions in their order; few of them wait at a time.

    The first function runs at once: a small file needs no thread.
    """
    functions = iter(work)
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    first = next(functions, None)
    if first is None:
        return
    yield first()
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for function in functions:
                waiting.append(pool.submit(function))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
