"""Implements `lowwater ingest --watch`: ingests what comes, until a signal stops it.

It holds no lock between two ingests and keeps nothing but the lake, so it may be killed and started again at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import PurePath

from lowwater.config import Config, load_config
from lowwater.errors import LowwaterError
from lowwater.instants import SECOND
from lowwater.lake.ingestion.looking import look
from lowwater.lake.ingestion.watching import Watch
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.seen import unread_lines
from lowwater.replay.schedule.ingesting import Ingesting
from lowwater.signals import pause, until_stopped
from lowwater.terminal import say

LOOK = 60.0
"""Seconds between two looks into the folders of the links while no file is ingested."""


def say_line(line: str, problem: bool) -> None:
    """Prints a line, of a problem on standard error."""
    say(line, err=problem)


def watch_patterns(
    root: PurePath, link: str | None, growing: bool, settle: int, every: int, span: tuple[int | None, int | None]
) -> None:
    """Ingests the new and changed files of all patterns until SIGINT or SIGTERM; what is at work is finished first.

    Args:
        root: folder of the lake.
        link: the only link to watch; None for all.
        growing: whether files are ingested that are still being written.
        settle: time without a write after which a file may be complete, ns.
        every: time between two looks, ns.
        span: only files that cover some of [start, end), ns, count; None for no bound.

    Raises:
        ConfigError: at the start, the settings are wrong, or no link has a pattern.
    """
    config, lake = load_config(root), open_lake(root, make=False)
    with until_stopped() as stopped:
        watching = Ingesting(lake, Watch(lake, settle, growing, link, span), say_line, stopped)
        folders = _Folders(lake, watching.complain)
        arrivals = watching.watch.look(config)
        names = ", ".join(arrival.link for arrival in arrivals)
        say(f"watching {names}; ends with SIGINT or SIGTERM", err=True)
        while True:
            busy = watching.take(arrivals, config)
            folders.look(config, busy)
            if not busy:
                pause(every / SECOND, stopped)
            if stopped():
                break
            try:
                config = load_config(root)
                arrivals = watching.watch.look(config)
            except LowwaterError as error:  # settings that are being edited, or a disk that comes back
                watching.complain(error)
                arrivals = []
        say(f"stopped: {watching.files:,} files ingested, {watching.refused:,} refused", err=True)


class _Folders:
    """What lies in the folders of the links and is not read, told while it is new.

    Args:
        lake: the lake.
        complain: is told what keeps it from looking.
    """

    def __init__(self, lake: Lake, complain: Callable[[LowwaterError], None]) -> None:
        self._lake, self._complain = lake, complain
        self._looked_at = -LOOK
        self._told: list[str] = []

    def look(self, config: Config, busy: bool) -> None:
        """Looks into the folders of the links after an ingest, and else from time to time; says what is new of it."""
        if not busy and time.monotonic() - self._looked_at < LOOK:
            return
        try:
            look(self._lake, config)
            lines = unread_lines(self._lake, config, hint=False)
        except LowwaterError as error:
            self._complain(error)
            return
        self._looked_at = time.monotonic()
        for line in lines:
            if line not in self._told:
                say(line, err=True)
        self._told = lines
