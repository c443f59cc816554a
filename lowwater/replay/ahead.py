"""What a run begins before it needs it: the JVM of its Spark session, and imports that take seconds.

Used by `interval`, so that both go on while the kernels of the low stage run, and Spark the high stage.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

from lowwater.replay.progress import Progress

if TYPE_CHECKING:
    from lowwater.high.tasks import Session


LARGE = 4_000_000
"""Packets from which the JVM's better compiler is worth its time: 3 s of a core, and 1.8 s less a million rows."""

MANY = 50
"""Intervals from which it is."""


def quick(packets: int, intervals: int = 1) -> bool:
    """Whether the session of a call is made to start soon, not to compute fast.

    Args:
        packets: about how many the call reads.
        intervals: how many it runs.
    """
    return packets < LARGE and intervals < MANY


class Sessions:
    """The one Spark session of a call: the given one, else one that is built at the first need or ahead of it.

    Args:
        app: name of the session, shown by Spark.
        progress: told how long the call waits for the session.
        given: session to use.
        sizes: of `SessionSettings`, where they are not the defaults.
    """

    def __init__(self, app: str, progress: Progress, given: Session | None = None, **sizes: Any) -> None:
        self._app = app
        self._progress = progress
        self._given = given
        self._sizes = sizes
        self._building: Future[Session] | None = None

    def begin(self, packets: int = 0) -> None:
        """Begins to build the session and does not wait for it; what goes wrong is raised by `spark`.

        Args:
            packets: about how many the call reads.
        """
        if self._given is None and self._building is None:
            self._sizes.setdefault("quick_start", quick(packets))
            self._building = _in_thread(self._build)

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

    def _build(self) -> Session:
        from lowwater.high.session import SessionSettings, build_session

        return build_session(self._app, SessionSettings(**self._sizes))


def import_ahead(module: str) -> None:
    """Imports a module in a thread of its own; who imports it meanwhile waits, and meets the error if there is one."""
    if module not in sys.modules:
        Thread(target=_import, args=(module,), name=f"import {module}").start()


def _import(module: str) -> None:
    collecting = gc.isenabled()
    gc.disable()  # next to nothing of what an import makes is garbage
    try:
        # Whatever is wrong with the module is raised where it is needed.
        with suppress(Exception):
            import_module(module)
    finally:
        if collecting:
            gc.enable()


def _in_thread(build: Callable[[], Session]) -> Future[Session]:
    pool = ThreadPoolExecutor(1, thread_name_prefix="lowwater-session")
    try:
        return pool.submit(build)
    finally:
        pool.shutdown(wait=False)
