"""The runner of this process: threads, as many as it has cores and memory for. It needs no Spark and no JVM."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from lowwater import errors, limits
from lowwater.high.runner import Promises, Source
from lowwater.threads import TaskMap, each_on_threads, thread_count

if TYPE_CHECKING:
    from lowwater.high.streams import StoredStream


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

    def promises(self, feeds: Mapping[Source, StoredStream]) -> Generator[Promises]:
        """Yields the stored punctuation, all together."""
        yield [(source, feed.promise) for source, feed in feeds.items() if feed.promises]
