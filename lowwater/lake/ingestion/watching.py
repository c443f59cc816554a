"""Watches the patterns of all links: which files are complete, and which are still being written.

`lowwater ingest --watch` asks it again and again. It remembers only what was tried, so nothing is lost with its
process: the ledger says what is in the lake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lowwater.config import Config, Link
from lowwater.lake.files.rotation import declared_coverage
from lowwater.lake.ingestion.arrivals import SETTLED, arrivals
from lowwater.lake.layout import Lake

PORTION_FILES, PORTION_BYTES = 32, 256 << 20
"""Most files, and about most bytes, that are ingested before a watch can stop."""


@dataclass(frozen=True)
class FileState:
    """What a file looks like from outside: size (bytes), last write (ns), and whether it is complete."""

    size: int
    written: int
    complete: bool


@dataclass(frozen=True)
class Found:
    """The files of a link that are to be ingested.

    Attributes:
        link: name of the link.
        complete: files that nobody writes to any more, with their states, in order.
        growing: files that are still being written, if they are asked for.
        waiting: number of other files that are still being written.
    """

    link: str
    complete: tuple[tuple[Path, FileState], ...]
    growing: tuple[tuple[Path, FileState], ...]
    waiting: int


class Watch:
    """Finds the files of all patterns that are new or have changed, each state of a file once.

    A file is complete if it was not written to for a time, and the time that its name declares is over.

    Args:
        lake: the lake.
        settle: time without a write after which a file may be complete, ns; at least SETTLED.
        growing: whether files are asked for that are still being written.
        link: the only link to look at; None for all.
        span: only files that cover some of [start, end), ns, count; None for no bound.
        clock: returns the current time, ns.
    """

    def __init__(
        self,
        lake: Lake,
        settle: int,
        growing: bool = False,
        link: str | None = None,
        span: tuple[int | None, int | None] = (None, None),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._lake = lake
        self._settle = max(settle, SETTLED)
        self._growing = growing
        self._link = link
        self._span = span
        self._clock = clock
        self._config: Config | None = None
        self._seen: dict[Path, tuple[int, int, int]] = {}  # size, last write, and when it was first seen so
        self._tried: dict[Path, FileState] = {}

    def look(self, config: Config) -> list[Found]:
        """Looks at the files once, under the current settings; after a change of them every file counts again.

        Raises:
            ConfigError: if no link has a pattern.
            LakeError: if the lake cannot be read.
        """
        if config != self._config:
            self._config, self._tried = config, {}
        new = arrivals(self._lake, config, self._link, *self._span)
        present = {path for files in new.values() for path in files.new}
        self._seen = {path: seen for path, seen in self._seen.items() if path in present}
        self._tried = {path: state for path, state in self._tried.items() if path in present}
        return [self._of_link(name, config.link(name), files.new) for name, files in new.items()]

    def tried(self, files: Iterable[tuple[Path, FileState]]) -> None:
        """Notes that files were ingested or refused: they count again once they look otherwise."""
        self._tried.update(files)

    def _of_link(self, name: str, settings: Link, paths: Iterable[Path]) -> Found:
        states = [(path, state) for path in paths if (state := self._state(settings, path)) is not None]
        fresh = [(path, state) for path, state in states if self._tried.get(path) != state]
        complete = tuple(each for each in fresh if each[1].complete)
        growing = tuple(each for each in fresh if not each[1].complete) if self._growing else ()
        waiting = 0 if self._growing else sum(not state.complete for _, state in states)
        return Found(name, complete, growing, waiting)

    def _state(self, settings: Link, path: Path) -> FileState | None:
        """The state of a file; None if it is gone."""
        try:
            status = path.stat()
        except OSError:
            return None
        now = self._clock()
        looks = status.st_size, status.st_mtime_ns
        seen = self._seen.get(path)
        if seen is None or seen[:2] != looks:
            seen = self._seen[path] = *looks, now
        # A last write that lies in the future, by another machine's clock, says nothing: then it counts what was seen.
        quiet = now - (looks[1] if looks[1] <= now else seen[2])
        declared = declared_coverage(settings, path)
        return FileState(*looks, quiet >= self._settle and (declared is None or declared[1] <= now))


def portions(files: Iterable[tuple[Path, FileState]]) -> Iterator[list[tuple[Path, FileState]]]:
    """Divides files, in order, into portions that are ingested together; a large file is a portion of its own."""
    portion: list[tuple[Path, FileState]] = []
    size = 0
    for file in files:
        if portion and (len(portion) >= PORTION_FILES or size + file[1].size > PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += file[1].size
    if portion:
        yield portion
