"""Task runners without a cluster: one task after another, or on the cores of this process.

The lowest module of the lake beside `tables`. `high.spark_tasks` has the runner of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from lowwater.capture.tables import ordered

Runner = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a picklable function to each argument; yields results in the order of the arguments, as soon as possible."""


def in_process(function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
    """Runs tasks without workers."""
    return [function(argument) for argument in arguments]


def on_threads(function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
    """Runs tasks on threads; for functions that release the interpreter's lock: kernels, Arrow, hashing.

    Arguments are taken as threads become free, with one for every thread in advance, so that they can be computed
    meanwhile.
    """
    work = (partial(function, argument) for argument in arguments)
    return ordered.on_threads(work, 2 * ordered.thread_count())
