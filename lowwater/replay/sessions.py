"""The Spark session of a call: built in a thread of its own while the low stage runs, waited for at the first need."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lowwater.errors import LowwaterError
from lowwater.replay.progress import Progress

if TYPE_CHECKING:
    from lowwater.high.spark_tasks import Session


LONG_SESSION_INTERVALS = 50
"""Intervals from which the JVM's better compiler is worth its time: slices are computed by Arrow and in Python."""


def starts_quickly(intervals: int = 1) -> bool:
    """Whether the session of a call that runs so many intervals is made to start soon, not to compute fast."""
    return intervals < LONG_SESSION_INTERVALS


class Sessions:
    """The one Spark session of a call: the given one, else one that is built at the first need or ahead of it.

    Args:
        app: name of the session, shown by Spark.
        progress: told how long the call waits for the session.
        given: session to use.
        sizes: of `SessionSettings`, where they are not the defaults.
    """

    def __init__(self, app: str, progress: Progress, existing: Session | None = None, **sizes: Any) -> None:
        self._app = app
        self._progress = progress
        self._given = existing
        self._sizes = sizes
        self._building: Future[Session] | None = None

    def begin(self, soon: bool = True) -> None:
        """Begins to build the session and does not wait for it; what goes wrong is raised by `spark`.

        Args:
            soon: whether it is made to start soon, as `starts_quickly` says.
        """
        if self._given is None and self._building is None:
            self._building = _in_thread(lambda: self._build(soon))

    def broken(self, error: LowwaterError) -> bool:
        """Whether an error is the one by which the session could not be built: it meets everybody alike."""
        building = self._building
        return building is not None and building.done() and building.exception() is error

    @cached_property
    def spark(self) -> Session:
        """The session, waited for where it must be.

        Raises:
            LowwaterError: if it cannot be built.
        """
        if self._given is not None:
            return self._given
        with self._progress.stage("session"):
            self.begin()
            assert self._building is not None
            return self._building.result()

    def _build(self, soon: bool) -> Session:
        from lowwater.high.session import SessionSettings, build_session

        return build_session(self._app, SessionSettings(**self._sizes, quick_start=soon))


def _in_thread(build: Callable[[], Session]) -> Future[Session]:
    pool = ThreadPoolExecutor(1, thread_name_prefix="lowwater-session")
    try:
        return pool.submit(build)
    finally:
        pool.shutdown(wait=False)
