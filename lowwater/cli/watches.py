"""Implements `lowwater ingest --watch`: ingests what comes, until a signal stops it.

It holds no lock between two ingests and keeps nothing but the lake, so it may be killed and started again at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePath

from lowwater.capture.tables.reader import RECORD_KINDS, TaskMap
from lowwater.config import Config, load_config
from lowwater.errors import LakeError, LowwaterError
from lowwater.instants import SECOND, format_instant
from lowwater.lake.ingestion.ingest import IngestResult, ingest
from lowwater.lake.ingestion.looking import look
from lowwater.lake.ingestion.watching import FileState, Found, Watch, portions
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import left_out_words
from lowwater.lake.ledgers.seen import unread_lines
from lowwater.replay.progress import Progress
from lowwater.replay.stages.runners import ingest_tasks
from lowwater.signals import pause, until_stopped
from lowwater.terminal import say

LOOK = 60.0
"""Seconds between two looks into the folders of the links while no file is ingested."""


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
        watching = _Watching(lake, Watch(lake, settle, growing, link, span), stopped)
        arrivals = watching.watch.look(config)
        names = ", ".join(arrival.link for arrival in arrivals)
        say(f"watching {names}; ends with SIGINT or SIGTERM", err=True)
        while True:
            busy = watching.take(arrivals, config)
            watching.look(config, busy)
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


class _Watching:
    """What a watch does with the files that it finds.

    Args:
        lake: the lake.
        watch: finds the files.
        stopped: whether the watch is to end.

    Attributes:
        watch: as given.
        files: number of files that were ingested.
        refused: number of ingests that were refused.
        complained: the last message about settings or the lake.
    """

    def __init__(self, lake: Lake, watch: Watch, stopped: Callable[[], bool]) -> None:
        self.watch = watch
        self.files = 0
        self.refused = 0
        self.complained = ""
        self._lake = lake
        self._stopped = stopped
        self._waiting: dict[str, int] = {}
        self._looked_at = -LOOK
        self._told: list[str] = []
        self._tasks: TaskMap | None = None

    def complain(self, error: LowwaterError) -> None:
        """Prints an error, once for as long as it lasts."""
        if str(error) != self.complained:
            self.complained = str(error)
            say(f"error: {error}", err=True)

    def look(self, config: Config, busy: bool) -> None:
        """Looks into the folders of the links after an ingest, and else from time to time; says what is new of it."""
        if not busy and time.monotonic() - self._looked_at < LOOK:
            return
        try:
            look(self._lake, config)
            lines = unread_lines(self._lake, config, hint=False)
        except LowwaterError as error:
            self.complain(error)
            return
        self._looked_at = time.monotonic()
        for line in lines:
            if line not in self._told:
                say(line, err=True)
        self._told = lines

    def take(self, arrivals: Sequence[Found], config: Config) -> bool:
        """Ingests files, a portion after the other, until a signal comes. Returns whether a file was ingested."""
        busy = False
        for arrival in arrivals:
            if arrival.waiting != self._waiting.get(arrival.link, 0):
                self._waiting[arrival.link] = arrival.waiting
                if arrival.waiting:
                    say(f"{arrival.link}: {arrival.waiting:,} still being written", err=True)
            for files, growing in ((arrival.complete, False), (arrival.growing, True)):
                for portion in portions(files):
                    if self._stopped():
                        return busy
                    busy |= self._ingest(arrival.link, portion, config, growing)
        return busy

    def _ingest(self, link: str, portion: Sequence[tuple[Path, FileState]], config: Config, growing: bool) -> bool:
        paths = [path for path, _ in portion]
        try:
            self._tasks = self._tasks or ingest_tasks(config, Progress())
            results = ingest(self._lake, link, paths, config, None, self._tasks, growing)
        except LakeError as error:  # a full disk, or another process: the next look tries again
            self.complain(error)
            return False
        except LowwaterError as error:
            self.refused += 1
            say(f"error: {error}", err=True)
            self.watch.tried(portion)
            return False
        self.watch.tried(portion)
        self.complained = ""
        for result in results:
            self.files += result.state != "known"
            for line in _lines(result):
                say(line)
        return True


def _lines(result: IngestResult) -> Iterator[str]:
    """A line for each link of an ingested file."""
    for row in result.captures:
        covered = f"{format_instant(row.covers_from)}/{format_instant(row.covers_to)}"
        notes = [text for text in (result.note, left_out_words(row.left_out_counts)) if text]
        note = "".join(f"; {text}" for text in notes)
        counted = "records" if row.format in RECORD_KINDS else "packets"
        numbers = f"{row.packets:,} {counted}, {row.malformed:,} malformed"
        yield f"{row.link}: {result.path.name} {result.state}, {numbers}, covers {covered}{note}"
