"""Task runners without a cluster: one task after another, or on the cores of this process.

The lowest module of the lake beside `tables`. `high.spark_tasks` has the runner of Spark.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a picklable function to each argument; yields results in the order of the arguments, as soon as possible."""

MOST_THREADS = 4
"""More threads would hold more decoded packets at a time than the memory of a worker has room for."""


def in_process(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
    """Runs tasks without workers."""
    return [function(argument) for argument in arguments]


def on_threads(function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
    """Runs tasks on threads; for functions that release the interpreter's lock: kernels, Arrow, hashing.

    Arguments are taken as threads become free, with one for every thread in advance, so that they can be computed
    meanwhile.
    """
    threads = min(os.cpu_count() or 1, MOST_THREADS)
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for argument in arguments:
                waiting.append(pool.submit(function, argument))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
