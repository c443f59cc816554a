"""New and changed files of the links' patterns, and which of them are complete while somebody watches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lowwater import errors, limits, link_names
from lowwater.capture.content.retention import ContentOptions
from lowwater.capture.tables.options import TableOptions
from lowwater.config import Config, Link, section_of
from lowwater.documents import FILE_NAME
from lowwater.lake.files.patterns import declared_coverage, files_of
from lowwater.lake.ingestion import known_files, record_options
from lowwater.lake.layout import Lake
from lowwater.lake.ledgers import files as ledger
from lowwater.lake.ledgers.places import FolderNames, key_of, location
from lowwater.lake.ledgers.states import ASIDE, EMPTY, READ, REFUSED
from lowwater.lake.packets import PacketFiles
from lowwater.plan.temporal import END_OF_TIME
from lowwater.storage.captures import is_address
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.paths import lake_path, names_in

# Ingest would find the same by reading every file; here names, sizes and times decide.

SETTLED = ledger.SETTLED


@dataclass(frozen=True)
class MissingFolder:
    """A folder of a pattern that cannot be read."""

    pattern: str
    folder: str
    why: str

    def error(self, link: str) -> errors.ConfigError:
        """Makes the error that names link, folder and setting."""
        return errors.ConfigError(
            f"link {link!r}: the folder {self.folder} {self.why}, so that no file of it is found: captures = "
            f"{self.pattern!r} in {section_of(link)}",
            f"mount or make the folder, or write where the captures lie now in {FILE_NAME}: files that were ingested "
            "are known by their names there",
        )


@dataclass(frozen=True)
class Arrivals:
    """The files of a link's pattern."""

    pattern: str  # patterns in the settings, as text
    new: tuple[Path, ...]  # files to ingest, in order
    unchanged: tuple[Path, ...]  # files that are in the lake as they are
    aside: int = 0  # number of files that somebody set aside
    missing: tuple[MissingFolder, ...] = ()  # folders of the patterns that are not there


def arrivals(
    lake: Lake, config: Config, link: str | None = None, start: int | None = None, end: int | None = None
) -> dict[str, Arrivals]:
    """Finds the files of every link with a pattern, or of one link; of those with declared coverage, only those of
    [start, end), ns.
    Raises ConfigError if no link has a pattern."""
    files = _of_patterns(config, link, start, end)
    return {name: _of_link(lake, config, name, paths) for name, paths in files.items()}


def _of_patterns(config: Config, link: str | None, start: int | None, end: int | None) -> dict[str, list[Path]]:
    files = pattern_files(config, link, start, end)
    if not files:
        which = "no link has" if link is None else f"link {link!r} does not have"
        raise errors.ConfigError(
            f"{which} a pattern of its files",
            f'write captures = "..." in [links.NAME] of {FILE_NAME}, let `lowwater init` propose it, or name the files',
        )
    return files


def pattern_files(
    config: Config, link: str | None = None, start: int | None = None, end: int | None = None
) -> dict[str, list[Path]]:
    """Lists the files of every link with a pattern, whether they are in the lake or not."""
    names = [link] if link is not None else sorted(config.links)
    span = (start or 0, END_OF_TIME if end is None else end)
    return {
        name: [path for path in files_of(settings, *span) if path.is_file()]
        for name in names
        if (settings := config.link(name)).patterns
    }


def without_aside(lake: Lake, settings: Link, files: Sequence[Path]) -> list[Path]:
    """Leaves out the files of a link that somebody set aside, as long as they have the size that they had then."""
    aside = _by_place(lake, settings, (row for row in ledger.told_files(lake).values() if row.state == ASIDE))
    if not aside:
        return list(files)
    return [path for path in files if (row := aside.get(_place(path))) is None or path.stat().st_size != row.size]


def _place(path: Path) -> str:
    return str(path.absolute())


def _by_place(lake: Lake, settings: Link, rows: Iterable[ledger.SeenFile]) -> dict[str, ledger.SeenFile]:
    """Returns rows of the ledger of files by where their files lie now, by the patterns of a link."""
    names, placed = FolderNames(settings), [(location(lake, row.path), row) for row in rows]
    known = {place for place, _ in placed}
    return {names.moved(place, None, known.__contains__) or place: row for place, row in placed}


def missing_folders(settings: Link) -> list[MissingFolder]:
    """Returns the folders of the patterns of a link that are not there, or cannot be read."""
    missing = []
    for pattern, folder in FolderNames(settings).folders:
        why, there = "", is_address(folder)
        try:
            if not there:
                os.scandir(folder or "/").close()
            elif not names_in(lake_path(folder)):
                why = "has no object"  # a prefix that nobody has written to, or that is mistyped
        except OSError as error:
            why = f"cannot be {'listed' if there else 'read'}: {error.strerror}"
            if isinstance(error, FileNotFoundError) and not there:
                why = "is not there"
        if why:
            missing.append(MissingFolder(pattern, folder, why))
    return missing


def _of_link(lake: Lake, config: Config, name: str, found: Sequence[Path]) -> Arrivals:
    settings = config.link(name)
    files = without_aside(lake, settings, found)
    aside = {location(lake, row.path) for row in ledger.told_files(lake).values() if row.state == ASIDE}
    known = _Known(lake, name, config)
    unchanged = {path for path in files if known.unchanged(path)}
    return Arrivals(
        ", ".join(settings.patterns),
        tuple(path for path in files if path not in unchanged),
        tuple(path for path in files if path in unchanged),
        len(found) - len(files),
        tuple(each for each in missing_folders(settings) if each.folder not in aside),
    )


class _Known:
    """The files of a link that the lake has."""

    def __init__(self, lake: Lake, link: str, config: Config) -> None:
        self._lake, self._link, self._settings = lake, link, config.link(link)
        self._options = record_options.record_options(config, link) or ContentOptions.of(self._settings)
        self._files = known_files.KnownFiles(lake, link, config)

    def unchanged(self, path: Path) -> bool:
        """Whether the lake has a file as it is now, decoded as the settings want it."""
        try:
            status = path.stat()
        except OSError:
            return False  # the ingest says what is wrong
        return any(self._is(path, status, row, file) for row, file in self._files.at(path))

    def _is(self, path: Path, status: os.stat_result, row: ledger.SeenFile, file: known_files.KnownFile) -> bool:
        return (
            row.state == READ
            and row.looks_like(status.st_size, status.st_mtime_ns)
            and row.settled is True
            and (
                self._packets.are_closed(file.rows)
                or (file.fits(self._settings, self._content(path)) and self._has_packets(file))
            )
        )

    def _content(self, path: Path) -> ContentOptions | TableOptions:
        content = record_options.content_of_file(self._options, self._settings, path)
        return known_files.content_for(content, declared_coverage(self._settings, path))

    def _has_packets(self, file: known_files.KnownFile) -> bool:
        """Whether no packets of a file are gone, cut or set aside as damaged; a store is not asked for each file."""
        return isinstance(self._lake.packets, ObjectPath) or self._packets.have(file.rows)

    @cached_property
    def _packets(self) -> PacketFiles:
        return PacketFiles.of_table(self._lake.table_of(self._link, isinstance(self._options, TableOptions)))


# `ingest --watch` remembers only what was tried, so nothing is lost with its process: the ledger says what is in the
# lake.


@dataclass(frozen=True)
class FileState:
    """What a file looks like from outside: size (bytes), last write (ns), and whether it is complete."""

    size: int
    written: int
    complete: bool


@dataclass(frozen=True)
class Found:
    """The files of a link that are to be ingested."""

    link: str
    # files that nobody writes to any more, with their states, in order
    complete: tuple[tuple[Path, FileState], ...] = ()
    growing: tuple[tuple[Path, FileState], ...] = ()  # files that are still being written, if they are asked for
    waiting: int = 0  # number of other files that are still being written
    # what is wrong with the settings of the link, so that its files wait and those of others do not
    fault: errors.ConfigError | None = None


class Watch:
    """Finds the files of all patterns, or of a span [start, end), ns, that are new or have changed, each state of a
    file once. A file is complete if it was not written to for a time, `settle` (ns) but at least SETTLED, and the time
    that its name declares is over."""

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
        self._settings: tuple[Config, list[int]] | None = None  # and when its schemas changed
        self._seen: dict[Path, tuple[int, int, int]] = {}  # size, last write, and when it was first seen so
        self._tried: dict[Path, FileState] = {}
        self.found: dict[str, Arrivals] = {}  # by link, of the last look

    def look(self, config: Config) -> list[Found]:
        """Looks at the files once, under the current settings; after a change of them every file counts again.
        Raises ConfigError if no link has a pattern, and LakeError if the lake cannot be read."""
        settings = config, [ledger.changed_at(path) for path in config.link_schemas]
        if settings != self._settings:
            self._settings, self._tried = settings, {}
        new: dict[str, Arrivals] = {}
        faults: dict[str, errors.ConfigError] = {}
        for name, files in _of_patterns(config, self._link, *self._span).items():
            try:
                new[name] = _of_link(self._lake, config, name, files)
            except errors.ConfigError as error:
                if self._link is not None:
                    raise
                faults[name] = error
        self.found = new
        present = {path for files in new.values() for path in files.new}
        self._seen = {path: seen for path, seen in self._seen.items() if path in present}
        self._tried = {path: state for path, state in self._tried.items() if path in present}
        found = [self._of_link(name, config.link(name), files.new) for name, files in new.items()]
        return [*found, *(Found(name, fault=error) for name, error in faults.items())]

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
            seen = self._seen[path] = *looks, self._first_seen(path, looks) if looks[1] > now else now
        # A last write that lies in the future, by another machine's clock, says nothing: then it counts what was seen.
        quiet = now - (looks[1] if looks[1] <= now else seen[2])
        declared = declared_coverage(settings, path)
        return FileState(*looks, quiet >= self._settle and (declared is None or declared[1] <= now))

    def _first_seen(self, path: Path, looks: tuple[int, int]) -> int:
        """When a file was first seen as it is: the ledger knows it for who looks in a process of its own each time."""
        row, now = ledger.told_files(self._lake).get(key_of(self._lake, path)), self._clock()
        return now if row is None or (row.size, row.written) != looks else min(row.seen_at, now)


def portions(files: Iterable[tuple[Path, FileState]]) -> Iterator[list[tuple[Path, FileState]]]:
    """Divides files, in order, into portions that are ingested together; a large file is a portion of its own."""
    portion: list[tuple[Path, FileState]] = []
    size = 0
    for file in files:
        if portion and (len(portion) >= limits.WATCH_FILES or size + file[1].size > limits.WATCH_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(file)
        size += file[1].size
    if portion:
        yield portion


def still_refused(lake: Lake, config: Config, files: Iterable[tuple[str, Path]]) -> dict[tuple[str, Path], str]:
    """Those of some files (link, path) that were refused as they are now, under the present settings and schemas, and
    why."""
    settings = ledger.settings_at(lake, config)
    known = {
        location(lake, row.path): row
        for row in ledger.told_files(lake).values()
        if row.state in (REFUSED, EMPTY) and row.seen_at >= settings
    }
    found = {}
    for link, path in files:
        row = known.get(_place(path))
        if row is not None and link_names.family_of(link) in {*map(link_names.family_of, row.links)}:
            try:
                status = path.stat()
            except OSError:
                continue  # it is gone
            if (row.size, row.written) == (status.st_size, status.st_mtime_ns):
                found[link, path] = row.reason
    return found


def not_refused(lake: Lake, config: Config, arrivals: Sequence[Found]) -> list[Found]:
    """Leaves out files that were refused as they are now, under the present settings and schemas: who looks now and
    then, in a process of its own each time, would else read them each time."""
    settings = ledger.settings_at(lake, config)
    known = {
        (location(lake, row.path), row.size, row.written)
        for row in ledger.told_files(lake).values()
        if row.state in (REFUSED, EMPTY) and row.seen_at >= settings
    }

    def is_new(path: Path, state: FileState) -> bool:
        return (_place(path), state.size, state.written) not in known

    return [replace(each, complete=tuple(file for file in each.complete if is_new(*file))) for each in arrivals]
