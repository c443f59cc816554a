"""The Spark session of a command: it starts in a thread while the command does something else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

from lowwater.errors import LowwaterError
from lowwater.spark.failures import lost
from lowwater.spark.session import SessionSettings, build_session

STARTS = 900.0
"""Seconds that a session may take to start; a cluster may have to find room for its driver."""


class Sessions:
    """The Spark session of a command: an existing one, otherwise one that is started in advance or when needed.

    Args:
        app: name of the session, shown by Spark.
        settings: which Spark it is of.
        stage: reports how long the command waits for the session.
        existing: session to use; None to start one.

    Attributes:
        master: of the settings.
    """

    def __init__(
        self,
        app: str,
        settings: SessionSettings,
        stage: Callable[[str], AbstractContextManager[Any]],
        existing: SparkSession | None = None,
    ) -> None:
        self.master = settings.master
        self._app, self._settings, self._stage, self._given = app, settings, stage, existing
        self._building: Future[SparkSession] | None = None
        self._built: SparkSession | None = None
        self._turn = Lock()

    def begin(self) -> None:
        """Starts the session in the background; `spark` raises its errors."""
        if self._given is None and self._building is None:
            pool = ThreadPoolExecutor(1, thread_name_prefix="lowwater-session")
            self._building = pool.submit(build_session, self._app, self._settings)
            pool.shutdown(wait=False)

    def broken(self, error: LowwaterError) -> bool:
        """Whether an error is the failure to start the session, which affects every interval."""
        building = self._building
        return building is not None and building.done() and building.exception() is error

    @property
    def spark(self) -> SparkSession:
        """The session; waits until it has started. If its server went away, another one, of a server that is back.

        Raises:
            LowwaterError: if it cannot be built.
        """
        if self._given is not None:
            return self._given
        with self._turn:
            if self._built is not None and lost(self._built):
                self._built = self._building = None
            if self._built is None:
                with self._stage("session"):
                    self._built = self._waited()
            return self._built

    def _waited(self) -> SparkSession:
        self.begin()
        assert self._building is not None
        try:
            return self._building.result(STARTS)
        except TimeoutError:
            raise LowwaterError(
                f"the Spark session has not started within {STARTS:.0f} s", "look at the load of the machine"
            ) from None
