"""The Spark session of a command: it starts in a thread while the low stage runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from lowwater.errors import LowwaterError
from lowwater.spark.executors import Executors
from lowwater.spark.session import SessionSettings, build_session

LONG_SESSION_INTERVALS = 50
"""From this number of intervals on the optimising compiler of the JVM pays; Arrow and Python compute the slices."""


STARTS = 900.0
"""Seconds that a session may take to start; a cluster may have to find room for its driver."""


class Sessions:
    """The Spark session of a command: an existing one, otherwise one that is started in advance or when needed.

    Args:
        app: name of the session, shown by Spark.
        master: Spark master URL.
        stage: reports how long the command waits for the session.
        existing: session to use; None to start one.
        sizes: fields of `SessionSettings` other than the defaults.

    Attributes:
        master: as given.
    """

    def __init__(
        self,
        app: str,
        master: str,
        stage: Callable[[str], AbstractContextManager[Any]],
        existing: SparkSession | None = None,
        **sizes: Any,
    ) -> None:
        self.master = master
        self._app = app
        self._stage = stage
        self._given = existing
        self._sizes = sizes
        self._building: Future[SparkSession] | None = None

    def begin(self, intervals: int = 1) -> None:
        """Starts the session in the background; `spark` raises its errors.

        Args:
            intervals: number of intervals of the command; for few it should start quickly rather than compute fast.
        """
        if self._given is None and self._building is None:
            quick = intervals < LONG_SESSION_INTERVALS
            self._building = _in_thread(lambda: self._build(quick))

    def broken(self, error: LowwaterError) -> bool:
        """Whether an error is the failure to start the session, which affects every interval."""
        building = self._building
        return building is not None and building.done() and building.exception() is error

    def has_executors(self) -> bool:
        """Whether the session has started and has executors; starts nothing, and waits for nothing."""
        session = self._given
        if session is None and self._building is not None and self._building.done() and not self._building.exception():
            session = self._building.result()
        if session is None:
            return False
        return bool(Executors(session).cores())

    @cached_property
    def spark(self) -> SparkSession:
        """The session; waits until it has started.

        Raises:
            LowwaterError: if it cannot be built.
        """
        if self._given is not None:
            return self._given
        with self._stage("session"):
            self.begin()
            assert self._building is not None
            try:
                return self._building.result(STARTS)
            except TimeoutError:
                raise LowwaterError(
                    f"the Spark session has not started within {STARTS:.0f} s", "look at the load of the machine"
                ) from None

    def _build(self, quick: bool) -> SparkSession:
        return build_session(self._app, SessionSettings(self.master, **self._sizes, quick_start=quick))


def _in_thread(build: Callable[[], SparkSession]) -> Future[SparkSession]:
    pool = ThreadPoolExecutor(1, thread_name_prefix="lowwater-session")
    try:
        return pool.submit(build)
    finally:
        pool.shutdown(wait=False)
